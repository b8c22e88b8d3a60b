//! Load balancing and failover for tools that several executors serve.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tower::Service;

use super::context::ToolContext;
use super::error::{FailureStage, ToolError, ToolErrorCode};
use super::executor::ToolExecutor;
use super::executor_stack::{ExecutorStack, executor_stack};
use super::executor_state::ExecutorState;
use super::layers::breaker::is_circuit_open;
use super::layers::{ToolFuture, ToolRequest, always_ready, is_unreachable, ready};
use super::output::ToolOutput;
use antwort_config::RouteStrategy;
use antwort_util::random;

/// The executors of one tool and how one is chosen.
pub struct Route {
    strategy: RouteStrategy,
    /// In order of preference; at least one.
    executors: Vec<RouteExecutor>,
    round_robin: Arc<AtomicUsize>,
}

/// One executor of a tool.
#[derive(Clone)]
pub struct RouteExecutor {
    /// The [`ToolExecutor::id`], such as `mcp:<label>`.
    pub id: Arc<str>,
    /// Its share of the calls where the strategy is `weighted`.
    pub weight: u32,
    /// Its circuit breaker, semaphores and calls in flight; kept across catalogues.
    pub state: Arc<ExecutorState>,
    pub(super) stack: ExecutorStack,
}

impl RouteExecutor {
    /// An executor with its layers. `name`: the tool's name at this executor, if it differs.
    pub fn new(
        executor: Arc<dyn ToolExecutor>,
        id: &Arc<str>,
        name: Option<Arc<str>>,
        weight: u32,
        state: Arc<ExecutorState>,
    ) -> Self {
        let stack = executor_stack(executor, Arc::clone(id), name, &state);
        Self { id: Arc::clone(id), weight, state, stack }
    }

    /// The same executor with the weight that it has in another route.
    pub fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }
}

/// Tries the executors in the order of the route's strategy until one of them answers.
#[derive(Clone)]
pub(super) struct Router {
    route: Arc<Route>,
}

impl Router {
    pub(super) fn new(route: Arc<Route>) -> Self {
        Self { route }
    }
}

impl Service<ToolRequest> for Router {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> ToolFuture {
        match self.route.executors.as_slice() {
            [] => ready(Err(no_executor())),
            // The common case: one executor, so nothing to choose and no in-flight count to keep.
            [executor] => executor.stack.clone().call(request),
            _ => Box::pin(run(Arc::clone(&self.route), request)),
        }
    }
}

async fn run(route: Arc<Route>, request: ToolRequest) -> Result<ToolOutput, ToolError> {
    let mut failure: Option<ToolError> = None;
    for executor in route.order(&request.context) {
        let _inflight = executor.state.enter();
        match executor.stack.clone().call(request.clone()).await {
            Err(error)
                if is_unreachable(&error)
                    && (error.stage == FailureStage::NotSent || request.plan.may_repeat) =>
            {
                request.trace.set_unreachable(&executor.id);
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
    /// A route with a round-robin counter of its own; `executors` are in order of preference.
    pub fn new(strategy: RouteStrategy, executors: Vec<RouteExecutor>) -> Self {
        Self::with_shared_counter(strategy, executors, Arc::default())
    }

    /// A route whose round-robin counter is shared with other routes.
    pub fn with_shared_counter(
        strategy: RouteStrategy,
        executors: Vec<RouteExecutor>,
        round_robin: Arc<AtomicUsize>,
    ) -> Self {
        Self { strategy, executors, round_robin }
    }

    /// The executor of this id.
    pub(crate) fn executor(&self, id: &str) -> Option<&RouteExecutor> {
        self.executors.iter().find(|executor| *executor.id == *id)
    }

    /// All executors, the chosen one first, the others as failover candidates.
    fn order(&self, context: &ToolContext) -> Vec<&RouteExecutor> {
        let mut executors: Vec<&RouteExecutor> = self.executors.iter().collect();
        match self.strategy {
            RouteStrategy::Ordered => {}
            RouteStrategy::RoundRobin => {
                let next = self.round_robin.fetch_add(1, Ordering::Relaxed);
                executors.rotate_left(next.checked_rem(self.executors.len()).unwrap_or_default());
            }
            // Stable sort: among equally loaded executors the preferred one comes first.
            RouteStrategy::LeastInflight => executors.sort_by_key(|executor| executor.state.inflight()),
            RouteStrategy::Weighted => {
                to_front(&mut executors, pick_weighted(&self.executors, random::unit_f64()));
            }
            RouteStrategy::P2c => {
                let chosen = pick_power_of_two(&self.executors);
                to_front(&mut executors, chosen);
            }
            // Rendezvous hashing: an executor that joins or leaves moves only its own share of the callers.
            RouteStrategy::Sticky => {
                executors.sort_by_cached_key(|executor| Reverse(rendezvous_hash(context, &executor.id)));
            }
        }
        executors
    }
}

fn to_front(executors: &mut [&RouteExecutor], chosen: usize) {
    if let Some(before) = executors.get_mut(..=chosen) {
        before.rotate_right(1);
    }
}

/// Index of an executor chosen in proportion to its weight; `random` is in `0.0..1.0`.
fn pick_weighted(executors: &[RouteExecutor], random: f64) -> usize {
    let total: u64 = executors.iter().map(|executor| u64::from(executor.weight)).sum();
    let mut remaining = random * total as f64;
    for (index, executor) in executors.iter().enumerate() {
        remaining -= f64::from(executor.weight);
        if remaining < 0.0 {
            return index;
        }
    }
    0
}

fn pick_power_of_two(executors: &[RouteExecutor]) -> usize {
    let one = random::index(executors.len());
    // Drawn from the remaining indexes, so that both candidates differ.
    let other = random::index(executors.len().saturating_sub(1));
    let other = if other >= one { other + 1 } else { other };
    let busy = |index: usize| executors.get(index).map_or(usize::MAX, |executor| executor.state.inflight());
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
