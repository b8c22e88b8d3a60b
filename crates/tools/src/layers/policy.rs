//! Enforces the access policy.

use std::sync::Arc;

use tower::Service;

use super::{ToolFuture, ToolRequest, ToolService, always_ready, ready};
use crate::audit;
use crate::policy::{AccessPolicy, PolicySubject};

/// Rejects calls that the policy denies and audits every decision.
#[derive(Clone)]
pub(crate) struct Authorize<S> {
    inner: S,
    policy: Arc<AccessPolicy>,
}

impl<S> Authorize<S> {
    pub(crate) fn new(inner: S, policy: Arc<AccessPolicy>) -> Self {
        Self { inner, policy }
    }
}

impl<S: ToolService> Service<ToolRequest> for Authorize<S> {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        let decision =
            self.policy.check(PolicySubject::from_context(&request.context), &request.plan.definition);
        audit::record_decision(&request, decision.as_ref().err());
        match decision {
            Ok(()) => self.inner.call(request),
            Err(denied) => ready(Err(denied)),
        }
    }
}
