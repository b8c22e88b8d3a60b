//! What becomes of calls that failed: the model is told, or does without, or another tool is asked, or the run ends.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, meta_of};
use crate::config::OnError;
use crate::tools::catalog::Catalog;
use crate::tools::error::{FailureStage, ToolError, ToolErrorCode};
use crate::tools::output::ToolOutput;

/// The catalogue of the moment. Weak, since the catalogue's tools hold the stack that holds this.
pub(in crate::tools) type CurrentCatalog = Weak<ArcSwap<Catalog>>;

/// Treats failures as the tool's `on_error` says. A tool that answers with an error has failed, too.
#[derive(Clone)]
pub(in crate::tools) struct OnFailure<S> {
    inner: S,
    catalog: CurrentCatalog,
}

impl<S> OnFailure<S> {
    pub(in crate::tools) fn new(inner: S, catalog: CurrentCatalog) -> Self {
        Self { inner, catalog }
    }
}

impl<S: ToolService> Service<ToolRequest> for OnFailure<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // A tool that stands in for another one fails plainly: chains of fallbacks would have no end.
        if request.plan.on_error == OnError::Continue || request.is_fallback {
            return self.inner.call(request);
        }
        let (plan, trace) = (Arc::clone(&request.plan), Arc::clone(&request.trace));
        let again = matches!(plan.on_error, OnError::Fallback(_)).then(|| request.clone());
        let catalog = self.catalog.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            if !is_failure(&result) {
                return result;
            }
            trace.record_failure(
                result.as_ref().err().map_or(ToolErrorCode::ToolExecutionFailed, |error| error.code),
            );
            match (&plan.on_error, again) {
                (OnError::Fail, _) => Err(fatal(plan.name(), result)),
                (OnError::Skip, _) => Ok(skipped()),
                (OnError::Fallback(other), Some(request)) => {
                    fall_back(&catalog, other, request, result).await
                }
                _ => result,
            }
        })
    }
}

/// A limit that is reached is no failure: the model is to go on without further calls.
fn is_failure(result: &Result<ToolOutput, ToolError>) -> bool {
    match result {
        Ok(output) => output.is_error,
        Err(error) => error.stage != FailureStage::Fatal && error.code != ToolErrorCode::ToolCallLimit,
    }
}

fn fatal(tool: &str, result: Result<ToolOutput, ToolError>) -> ToolError {
    match result {
        Ok(output) => ToolError::fatal(
            ToolErrorCode::ToolExecutionFailed,
            format!("{tool}: {}", crate::protocol::parse::truncate_for_display(&output.for_model)),
        ),
        Err(error) => ToolError {
            code: ToolErrorCode::ToolExecutionFailed,
            message: format!("{tool}: {}", error.message),
            stage: FailureStage::Fatal,
            remote: None,
            meta: None,
            cause: error.cause,
        },
    }
}

fn skipped() -> ToolOutput {
    let mut output = ToolOutput::error("The result of this tool is unavailable. Answer without it.");
    output.meta.skipped = true;
    output
}

/// Calls the other tool once, through all of its layers: it is a call like others, with its own policy and share of
/// the budget. Where there is no such tool, the failure stands.
async fn fall_back(
    catalog: &CurrentCatalog,
    other: &str,
    failed: ToolRequest,
    result: Result<ToolOutput, ToolError>,
) -> Result<ToolOutput, ToolError> {
    let tool = catalog.upgrade().and_then(|catalog| catalog.load().get(other).cloned());
    let Some(tool) = tool else {
        tracing::warn!(
            tool = failed.plan.name(),
            fallback = other,
            "the tool to fall back on does not exist"
        );
        return result;
    };
    let asked = failed.trace.executor();
    let instead_of = asked.unwrap_or_else(|| Arc::clone(&failed.plan.definition.executor));
    failed.trace.set_used_fallback();
    let mut result = tool.call_as_fallback(failed).await;
    meta_of(&mut result).fallback_from.get_or_insert(instead_of);
    result
}
