//! The `on_error` policy of a tool: report the failure, skip the result, call a fallback tool, or fail the run.

use std::sync::Arc;

use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, meta_of};
use crate::error::{FailureStage, ToolError, ToolErrorCode};
use crate::output::ToolOutput;
use antwort_config::OnError;

/// Finds the tool of a name in the current catalogue.
pub(crate) type FindFallback = Arc<dyn Fn(&str) -> Option<FallbackTool> + Send + Sync>;

/// Calls a tool in place of the failed one.
pub(crate) type FallbackTool = Box<dyn FnOnce(ToolRequest) -> ToolFuture + Send>;

/// Applies `on_error` to failures, including results that are errors.
#[derive(Clone)]
pub(crate) struct OnFailure<S> {
    inner: S,
    find_fallback: FindFallback,
}

impl<S> OnFailure<S> {
    pub(crate) fn new(inner: S, find_fallback: FindFallback) -> Self {
        Self { inner, find_fallback }
    }
}

impl<S: ToolService> Service<ToolRequest> for OnFailure<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // A fallback has no fallback of its own: chains could be endless.
        if request.plan.on_error == OnError::Continue || request.is_fallback {
            return self.inner.call(request);
        }
        let (plan, trace) = (Arc::clone(&request.plan), Arc::clone(&request.trace));
        let retry_request = matches!(plan.on_error, OnError::Fallback(_)).then(|| request.clone());
        let find_fallback = Arc::clone(&self.find_fallback);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let result = answer.await;
            if !is_failure(&result) {
                return result;
            }
            trace.record_failure(
                result.as_ref().err().map_or(ToolErrorCode::ToolExecutionFailed, |error| error.code),
            );
            match (&plan.on_error, retry_request) {
                (OnError::Fail, _) => Err(fatal(plan.name(), result)),
                (OnError::Skip, _) => Ok(skipped()),
                (OnError::Fallback(other), Some(request)) => {
                    fall_back(&find_fallback, other, request, result).await
                }
                _ => result,
            }
        })
    }
}

/// A reached call limit does not count as a failure: the model is meant to continue without further calls.
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
            format!("{tool}: {}", antwort_protocol::parse::truncate_for_display(&output.for_model)),
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

/// Calls the fallback tool once, through all of its layers: subject to its own access policy and to the budget. If it
/// does not exist, the original failure is returned.
async fn fall_back(
    find_fallback: &FindFallback,
    other: &str,
    failed: ToolRequest,
    result: Result<ToolOutput, ToolError>,
) -> Result<ToolOutput, ToolError> {
    let Some(call_fallback) = find_fallback(other) else {
        tracing::warn!(tool = failed.plan.name(), fallback = other, "fallback tool does not exist");
        return result;
    };
    let attempted = failed.trace.executor();
    let failed_executor = attempted.unwrap_or_else(|| Arc::clone(&failed.plan.definition.executor));
    failed.trace.set_used_fallback();
    let mut result = call_fallback(failed).await;
    meta_of(&mut result).fallback_from.get_or_insert(failed_executor);
    result
}
