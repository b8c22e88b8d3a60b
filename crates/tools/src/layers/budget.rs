//! Enforces the limits of tool calls per run (`max_tool_calls`) and per tool (`max_calls`).

use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::error::{ToolError, ToolErrorCode};

/// Takes one call from the budget before the future is polled: calls are counted in the order in which they are
/// made, in whatever order they run.
#[derive(Clone)]
pub(crate) struct Budgeted<S> {
    inner: S,
}

impl<S> Budgeted<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Budgeted<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        // A call that is made again with answers was counted before.
        if request.call.input.is_some() {
            return self.inner.call(request);
        }
        let (budget, plan) = (&request.context.budget, &request.plan);
        // The tool's own limit first: a call that it rejects does not consume the run's budget.
        let within =
            plan.max_calls.is_none_or(|max| budget.try_take_for_tool(plan.name(), max)) && budget.try_take();
        if within {
            return self.inner.call(request);
        }
        ready(Err(ToolError::refused(
            ToolErrorCode::ToolCallLimit,
            "skipped: the limit of tool calls is reached",
        )))
    }
}
