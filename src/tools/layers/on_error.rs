//! What becomes of calls that failed: the model is told, or does without, or another tool is asked, or the run ends.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tower::Service;

use super::{Answer, Next, ToolRequest, always_ready, meta_of};
use crate::config::OnError;
use crate::tools::catalog::Catalog;
use crate::tools::error::{Code, Fault, ToolError};
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

impl<S: Next> Service<ToolRequest> for OnFailure<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> Answer {
        // A tool that stands in for another one fails plainly: chains of fallbacks would have no end.
        if request.plan.on_error == OnError::Continue || request.stands_in {
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
            trace.failed(result.as_ref().err().map_or(Code::ToolExecutionFailed, |error| error.code));
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
        Err(error) => error.fault != Fault::Fatal && error.code != Code::ToolCallLimit,
    }
}

fn fatal(tool: &str, result: Result<ToolOutput, ToolError>) -> ToolError {
    match result {
        Ok(output) => ToolError::fatal(
            Code::ToolExecutionFailed,
            format!("{tool}: {}", crate::protocol::parse::shorten(&output.for_model)),
        ),
        Err(error) => ToolError {
            code: Code::ToolExecutionFailed,
            message: format!("{tool}: {}", error.message),
            fault: Fault::Fatal,
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
    failed.trace.set_stood_in();
    let mut result = tool.stand_in(failed).await;
    meta_of(&mut result).fallback_from.get_or_insert(instead_of);
    result
}
