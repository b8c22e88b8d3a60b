//! Which executor runs a call of a tool that several of them serve, and who takes over where one is down.

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
use super::random;
use super::stack::BackendStack;
use crate::config::RouteStrategy;

/// The executors of one tool.
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

/// Sends a call to one executor after the other until one has answered.
#[derive(Clone)]
pub(super) struct Router;

impl Service<ToolRequest> for Router {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        match request.plan.route.backends.as_slice() {
            [] => ready(Err(no_executor())),
            // The rule: nothing to choose, nothing to count.
            [way] => way.stack.clone().call(request),
            _ => Box::pin(run(request)),
        }
    }
}

async fn run(request: ToolRequest) -> Result<ToolOutput, ToolError> {
    let plan = Arc::clone(&request.plan);
    let mut failure: Option<ToolError> = None;
    for way in plan.route.order(&request.context) {
        let _inflight = way.state.enter();
        match way.stack.clone().call(request.clone()).await {
            Err(error)
                if is_unreachable(&error) && (error.stage == FailureStage::NotSent || plan.may_repeat) =>
            {
                request.trace.set_unreachable(&way.executor);
                // That another one is left alone says less than what went wrong.
                failure = failure.filter(|_| is_circuit_open(&error)).or(Some(error));
            }
            result => return result,
        }
    }
    Err(failure.unwrap_or_else(no_executor))
}

fn no_executor() -> ToolError {
    ToolError::refused(ToolErrorCode::ToolUnavailable, "nobody serves the tool")
}

impl Route {
    pub(super) fn new(strategy: RouteStrategy, ways: Vec<Backend>) -> Self {
        Self::with_counter(strategy, ways, Arc::default())
    }

    /// A route that takes turns with others.
    pub(super) fn with_counter(
        strategy: RouteStrategy,
        backends: Vec<Backend>,
        round_robin: Arc<AtomicUsize>,
    ) -> Self {
        Self { strategy, backends, round_robin }
    }

    /// The way to an executor.
    pub(super) fn backend(&self, executor: &str) -> Option<&Backend> {
        self.backends.iter().find(|way| *way.executor == *executor)
    }

    /// All executors, the chosen one first.
    fn order(&self, context: &ToolContext) -> Vec<&Backend> {
        let mut ways: Vec<&Backend> = self.backends.iter().collect();
        match self.strategy {
            RouteStrategy::Ordered => {}
            RouteStrategy::RoundRobin => {
                let turn = self.round_robin.fetch_add(1, Ordering::Relaxed);
                ways.rotate_left(turn.checked_rem(self.backends.len()).unwrap_or_default());
            }
            // Stable: among equals the preferred one.
            RouteStrategy::LeastInflight => ways.sort_by_key(|way| way.state.inflight()),
            RouteStrategy::Weighted => to_front(&mut ways, pick_weighted(&self.backends, random::unit_f64())),
            RouteStrategy::P2c => {
                let chosen = pick_power_of_two(&self.backends);
                to_front(&mut ways, chosen);
            }
            // Whoever leaves or joins moves only their own callers: each has an order of executors of its own.
            RouteStrategy::Sticky => {
                ways.sort_by_cached_key(|way| Reverse(rendezvous_hash(context, &way.executor)));
            }
        }
        ways
    }
}

fn to_front(ways: &mut [&Backend], chosen: usize) {
    if let Some(before) = ways.get_mut(..=chosen) {
        before.rotate_right(1);
    }
}

/// The place of one by weight; `chance` is from 0 to below 1.
fn pick_weighted(ways: &[Backend], chance: f64) -> usize {
    let total: u64 = ways.iter().map(|way| u64::from(way.weight)).sum();
    let mut left = chance * total as f64;
    for (place, way) in ways.iter().enumerate() {
        left -= f64::from(way.weight);
        if left < 0.0 {
            return place;
        }
    }
    0
}

fn pick_power_of_two(ways: &[Backend]) -> usize {
    let one = random::index(ways.len());
    // Any but the first: one place is left out.
    let other = random::index(ways.len().saturating_sub(1));
    let other = if other >= one { other + 1 } else { other };
    let busy = |place: usize| ways.get(place).map_or(usize::MAX, |way| way.state.inflight());
    if busy(other) < busy(one) { other } else { one }
}

/// How much a conversation, or else a user, leans to an executor. The same in every process of this build.
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
