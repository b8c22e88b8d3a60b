//! Which executor runs a call of a tool that several of them serve, and who takes over where one is down.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tower::Service;

use super::chance;
use super::context::ToolContext;
use super::error::{Code, Fault, ToolError};
use super::layers::breaker::is_open;
use super::layers::{Answer, ToolRequest, always_ready, is_unreachable, ready};
use super::output::ToolOutput;
use super::plan::LegState;
use super::stack::Leg;
use crate::config::Strategy;

/// The executors of one tool.
pub(super) struct Route {
    strategy: Strategy,
    /// In order of preference; at least one.
    ways: Vec<Way>,
    turn: Arc<AtomicUsize>,
}

/// One executor of a tool.
#[derive(Clone)]
pub(super) struct Way {
    pub executor: Arc<str>,
    pub weight: u32,
    pub state: Arc<LegState>,
    pub leg: Leg,
}

/// Sends a call to one executor after the other until one has answered.
#[derive(Clone)]
pub(super) struct Router;

impl Service<ToolRequest> for Router {
    always_ready!();

    fn call(&mut self, request: ToolRequest) -> Answer {
        match request.plan.route.ways.as_slice() {
            [] => ready(Err(nobody())),
            // The rule: nothing to choose, nothing to count.
            [way] => way.leg.clone().call(request),
            _ => Box::pin(run(request)),
        }
    }
}

async fn run(request: ToolRequest) -> Result<ToolOutput, ToolError> {
    let plan = Arc::clone(&request.plan);
    let mut failure: Option<ToolError> = None;
    for way in plan.route.order(&request.context) {
        let _inflight = way.state.enter();
        match way.leg.clone().call(request.clone()).await {
            Err(error) if is_unreachable(&error) && (error.fault == Fault::Before || plan.may_repeat) => {
                request.trace.set_unreached(&way.executor);
                // That another one is left alone says less than what went wrong.
                failure = failure.filter(|_| is_open(&error)).or(Some(error));
            }
            result => return result,
        }
    }
    Err(failure.unwrap_or_else(nobody))
}

fn nobody() -> ToolError {
    ToolError::refused(Code::ToolUnavailable, "nobody serves the tool")
}

impl Route {
    pub(super) fn new(strategy: Strategy, ways: Vec<Way>) -> Self {
        Self::sharing(strategy, ways, Arc::default())
    }

    /// A route that takes turns with others.
    pub(super) fn sharing(strategy: Strategy, ways: Vec<Way>, turn: Arc<AtomicUsize>) -> Self {
        Self { strategy, ways, turn }
    }

    /// The way to an executor.
    pub(super) fn way(&self, executor: &str) -> Option<&Way> {
        self.ways.iter().find(|way| *way.executor == *executor)
    }

    /// All executors, the chosen one first.
    fn order(&self, context: &ToolContext) -> Vec<&Way> {
        let mut ways: Vec<&Way> = self.ways.iter().collect();
        match self.strategy {
            Strategy::Ordered => {}
            Strategy::RoundRobin => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                ways.rotate_left(turn.checked_rem(self.ways.len()).unwrap_or_default());
            }
            // Stable: among equals the preferred one.
            Strategy::LeastInflight => ways.sort_by_key(|way| way.state.inflight()),
            Strategy::Weighted => to_front(&mut ways, weighted(&self.ways, chance::unit())),
            Strategy::P2c => {
                let chosen = less_busy_of_two(&self.ways);
                to_front(&mut ways, chosen);
            }
            // Whoever leaves or joins moves only their own callers: each has an order of executors of its own.
            Strategy::Sticky => ways.sort_by_cached_key(|way| Reverse(affinity(context, &way.executor))),
        }
        ways
    }
}

fn to_front(ways: &mut [&Way], chosen: usize) {
    if let Some(before) = ways.get_mut(..=chosen) {
        before.rotate_right(1);
    }
}

/// The place of one by weight; `chance` is from 0 to below 1.
fn weighted(ways: &[Way], chance: f64) -> usize {
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

fn less_busy_of_two(ways: &[Way]) -> usize {
    let one = chance::below(ways.len());
    // Any but the first: one place is left out.
    let other = chance::below(ways.len().saturating_sub(1));
    let other = if other >= one { other + 1 } else { other };
    let busy = |place: usize| ways.get(place).map_or(usize::MAX, |way| way.state.inflight());
    if busy(other) < busy(one) { other } else { one }
}

/// How much a conversation, or else a user, leans to an executor. The same in every process of this build.
fn affinity(context: &ToolContext, executor: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    context.tenant.hash(&mut hash);
    match &context.conversation {
        Some(conversation) => conversation.hash(&mut hash),
        None => context.principal.hash(&mut hash),
    }
    executor.hash(&mut hash);
    hash.finish()
}
