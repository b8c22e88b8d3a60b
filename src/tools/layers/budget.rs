//! Counts calls against the limits of the run and of the tool within it.

use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::tools::error::{ToolError, ToolErrorCode};

/// Takes one call from the budget. Does so before its future is polled, so that calls which are made one after
/// the other are counted in that order, in whatever order they run.
#[derive(Clone)]
pub(in crate::tools) struct Budgeted<S> {
    inner: S,
}

impl<S> Budgeted<S> {
    pub(in crate::tools) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: ToolService> Service<ToolRequest> for Budgeted<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let (budget, plan) = (&request.context.budget, &request.plan);
        // The tool's own limit first: a call that it refuses leaves the run's budget to others.
        let within = plan.max_calls.is_none_or(|most| budget.try_take_for_tool(plan.name(), most))
            && budget.try_take();
        if within {
            return self.inner.call(request);
        }
        ready(Err(ToolError::refused(
            ToolErrorCode::ToolCallLimit,
            "skipped: the limit of tool calls is reached",
        )))
    }
}
