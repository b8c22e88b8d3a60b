//! Keeps calls from tools that their caller may not use.

use std::sync::Arc;

use tower::Service;

use super::{Answer, Next, ToolRequest, always_ready, ready};
use crate::tools::audit;
use crate::tools::policy::{Policy, Subject};

/// Asks the policy and leaves a record of its decision.
#[derive(Clone)]
pub(in crate::tools) struct Gate<S> {
    inner: S,
    policy: Arc<Policy>,
}

impl<S> Gate<S> {
    pub(in crate::tools) fn new(inner: S, policy: Arc<Policy>) -> Self {
        Self { inner, policy }
    }
}

impl<S: Next> Service<ToolRequest> for Gate<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> Answer {
        let verdict = self.policy.check(Subject::of(&request.context), &request.plan.definition);
        audit::decision(&request, verdict.as_ref().err());
        match verdict {
            Ok(()) => self.inner.call(request),
            Err(denied) => ready(Err(denied)),
        }
    }
}
