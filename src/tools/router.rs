//! Load balancing and failover for tools that several executors serve.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tower::Service;

use super::context::ToolContext;
use super::error::{FailureStage, ToolError, ToolErrorCode};
use super::layers::breaker::is_circuit_open;
use super::layers::{ToolFuture, ToolRequest, always_ready, is_unreachable, ready};
use super::output::ToolOutput;
use super::plan::BackendState;
use super::stack::BackendStack;
use crate::config::RouteStrategy;
use crate::util::random;

/// The executors of one tool and how one is chosen.
pub(super) struct Route {
    strategy: RouteStrategy,
    /// In order of preference; at least one.
    backends: Vec<Backend>,
    round_robin: Arc<AtomicUsize>,
}

/// One executor of a tool.
#[derive(Clone)]
pub(super) struct Backend {
    pub executor: Arc<str>,
    pub weight: u32,
    pub state: Arc<BackendState>,
    pub stack: BackendStack,
}

/// Tries the executors in the order of the route's strategy until one of them answers.
#[derive(Clone)]
pub(super) struct Router;

impl Service<ToolRequest> for Router {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        match request.plan.route.backends.as_slice() {
            [] => ready(Err(no_executor())),
            // The common case: one executor, so nothing to choose and no in-flight count to keep.
            [backend] => backend.stack.clone().call(request),
            _ => Box::pin(run(request)),
        }
    }
}

async fn run(request: ToolRequest) -> Result<ToolOutput, ToolError> {
    let plan = Arc::clone(&request.plan);
    let mut failure: Option<ToolError> = None;
    for backend in plan.route.order(&request.context) {
        let _inflight = backend.state.enter();
        match backend.stack.clone().call(request.clone()).await {
            Err(error)
                if is_unreachable(&error) && (error.stage == FailureStage::NotSent || plan.may_repeat) =>
            {
                request.trace.set_unreachable(&backend.executor);
                // The error that opened a circuit is more useful than "circuit breaker open".
                failure = failure.filter(|_| is_circuit_open(&error)).or(Some(error));
            }
            result => return result,
        }
    }
    Err(failure.unwrap_or_else(no_executor))
}

fn no_executor() -> ToolError {
    ToolError::refused(ToolErrorCode::ToolUnavailable, "no executor serves this tool")
}

impl Route {
    pub(super) fn new(strategy: RouteStrategy, backends: Vec<Backend>) -> Self {
        Self::with_counter(strategy, backends, Arc::default())
    }

    /// A route whose round-robin counter is shared with other routes.
    pub(super) fn with_counter(
        strategy: RouteStrategy,
        backends: Vec<Backend>,
        round_robin: Arc<AtomicUsize>,
    ) -> Self {
        Self { strategy, backends, round_robin }
    }

    /// The backend of an executor.
    pub(super) fn backend(&self, executor: &str) -> Option<&Backend> {
        self.backends.iter().find(|backend| *backend.executor == *executor)
    }

    /// All backends, the chosen one first, the others as failover candidates.
    fn order(&self, context: &ToolContext) -> Vec<&Backend> {
        let mut backends: Vec<&Backend> = self.backends.iter().collect();
        match self.strategy {
            RouteStrategy::Ordered => {}
            RouteStrategy::RoundRobin => {
                let next = self.round_robin.fetch_add(1, Ordering::Relaxed);
                backends.rotate_left(next.checked_rem(self.backends.len()).unwrap_or_default());
            }
            // Stable sort: among equally loaded backends the preferred one comes first.
            RouteStrategy::LeastInflight => backends.sort_by_key(|backend| backend.state.inflight()),
            RouteStrategy::Weighted => {
                to_front(&mut backends, pick_weighted(&self.backends, random::unit_f64()));
            }
            RouteStrategy::P2c => {
                let chosen = pick_power_of_two(&self.backends);
                to_front(&mut backends, chosen);
            }
            // Rendezvous hashing: an executor that joins or leaves moves only its own share of the callers.
            RouteStrategy::Sticky => {
                backends.sort_by_cached_key(|backend| Reverse(rendezvous_hash(context, &backend.executor)));
            }
        }
        backends
    }
}

fn to_front(backends: &mut [&Backend], chosen: usize) {
    if let Some(before) = backends.get_mut(..=chosen) {
        before.rotate_right(1);
    }
}

/// Index of a backend chosen in proportion to its weight; `random` is in `0.0..1.0`.
fn pick_weighted(backends: &[Backend], random: f64) -> usize {
    let total: u64 = backends.iter().map(|backend| u64::from(backend.weight)).sum();
    let mut remaining = random * total as f64;
    for (index, backend) in backends.iter().enumerate() {
        remaining -= f64::from(backend.weight);
        if remaining < 0.0 {
            return index;
        }
    }
    0
}

fn pick_power_of_two(backends: &[Backend]) -> usize {
    let one = random::index(backends.len());
    // Drawn from the remaining indexes, so that both candidates differ.
    let other = random::index(backends.len().saturating_sub(1));
    let other = if other >= one { other + 1 } else { other };
    let busy = |index: usize| backends.get(index).map_or(usize::MAX, |backend| backend.state.inflight());
    if busy(other) < busy(one) { other } else { one }
}

/// Score of an executor for a conversation, or without one for a principal. Equal in all processes of one build.
fn rendezvous_hash(context: &ToolContext, executor: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    context.tenant.hash(&mut hash);
    match &context.conversation {
        Some(conversation) => conversation.hash(&mut hash),
        None => context.principal.hash(&mut hash),
    }
    executor.hash(&mut hash);
    hash.finish()
}
