//! The responses that the gateway makes behind one request, as results of asynchronous tools come: each follows another one, and
//! what they use counts together.
//!
//! Several results of one response lead to several responses that know nothing of each other. So what the limits leave is
//! divided among them: together they use what one would.

use serde::{Deserialize, Serialize};

use super::run::trace::{CallRecord, RunTrace, WaitKind};
use antwort_config::RunLimits;
use antwort_tools::CallKey;

/// The responses before one, from the first on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    steps: Vec<Step>,
}

/// A response of which a result is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    turns: u32,
    calls: u64,
    tokens: u64,
    seconds: f64,
    cost: f64,
    /// Index of the call among the calls of the response whose results are followed.
    index: u64,
    /// How many these are.
    siblings: u64,
    /// The key of the call, as the audit log has it, and its tool.
    pub call: String,
    pub tool: String,
}

impl Step {
    /// A response with this account, of which the result of this call is followed, which this item shows.
    pub(super) fn after(trace: &RunTrace, item: &str, (call, tool): (&CallKey, &str)) -> Self {
        let inferences =
            trace.turns.iter().filter(|turn| !turn.has_no_inference && turn.compaction.is_none());
        let calls = || trace.turns.iter().flat_map(|turn| &turn.calls);
        let followed: Vec<&CallRecord> = calls().filter(|call| call.is_followed).collect();
        // One that is not noted comes behind those that are.
        let index = followed.iter().position(|call| call.call_id == item).unwrap_or(followed.len());
        Self {
            turns: u32::try_from(inferences.count()).unwrap_or(u32::MAX),
            calls: calls().count() as u64,
            tokens: trace.turns.iter().filter_map(|turn| turn.tokens).map(|tokens| tokens.4).sum(),
            seconds: active_seconds(trace),
            cost: trace.turns.iter().filter_map(|turn| turn.cost).sum(),
            index: index as u64,
            siblings: followed.len().max(index + 1) as u64,
            call: call.to_string(),
            tool: tool.to_owned(),
        }
    }

    /// The part of what is left that belongs to the response that follows.
    fn share(&self, left: u64) -> u64 {
        left / self.siblings + u64::from(self.index < left % self.siblings)
    }

    /// Lowers limits to what they leave for the response that follows this one.
    fn lower(&self, limits: &mut RunLimits) -> Result<(), &'static str> {
        let follow_ups = self.share(limits.max_follow_ups.into()).checked_sub(1).ok_or("max_follow_ups")?;
        limits.max_follow_ups = narrow(follow_ups);
        limits.max_turns = narrow(self.share(limits.max_turns.saturating_sub(self.turns).into()));
        if limits.max_turns == 0 {
            return Err("max_turns");
        }
        // Without a call, the model can still answer.
        limits.max_tool_calls = limits.max_tool_calls.map(|most| self.share(most.saturating_sub(self.calls)));
        limits.max_total_tokens =
            limits.max_total_tokens.map(|most| self.share(most.saturating_sub(self.tokens)));
        if limits.max_total_tokens == Some(0) {
            return Err("max_total_tokens");
        }
        let left = |most: f64, used: f64| (most - used) / self.siblings as f64;
        limits.max_seconds = limits.max_seconds.map(|most| left(most, self.seconds));
        if limits.max_seconds.is_some_and(|seconds| seconds <= 0.0) {
            return Err("max_seconds");
        }
        limits.max_cost_usd = limits.max_cost_usd.map(|most| left(most, self.cost));
        if limits.max_cost_usd.is_some_and(|dollars| dollars <= 0.0) {
            return Err("max_cost_usd");
        }
        Ok(())
    }
}

impl Chain {
    /// The chain before a response that follows the last one of this chain.
    pub(super) fn then(before: Option<&Self>, step: Step) -> Self {
        let mut steps = before.map(|chain| chain.steps.clone()).unwrap_or_default();
        steps.push(step);
        Self { steps }
    }

    /// The response that is followed.
    pub(super) fn last(&self) -> Option<&Step> {
        self.steps.last()
    }

    /// Lowers the limits of the request to what they leave for the response behind the chain.
    ///
    /// # Errors
    /// The name of a limit that leaves nothing for it.
    pub(super) fn lower(&self, limits: &mut RunLimits) -> Result<(), &'static str> {
        self.steps.iter().try_for_each(|step| step.lower(limits))
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// For how long a run was executed, without the times in which it waited for somebody else.
fn active_seconds(trace: &RunTrace) -> f64 {
    let waits = trace.waits.iter().filter(|wait| wait.kind != WaitKind::McpListTools);
    let waited: i64 = waits.map(|wait| wait.to.map_or(0, |to| to - wait.from)).sum();
    trace.ended.unwrap_or(0).saturating_sub(waited).max(0) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(index: u64, siblings: u64) -> Step {
        let (call, tool) = (String::new(), String::new());
        Step { turns: 2, calls: 1, tokens: 10, seconds: 1.5, cost: 0.25, index, siblings, call, tool }
    }

    fn limits() -> RunLimits {
        RunLimits {
            max_turns: 7,
            max_tool_calls: Some(2),
            max_total_tokens: Some(100),
            max_seconds: Some(60.0),
            max_cost_usd: Some(1.0),
            max_follow_ups: 10,
            ..RunLimits::default()
        }
    }

    #[test]
    fn what_responses_use_adds_up_over_a_chain() {
        let mut chain = None;
        let mut left = limits();
        for _ in 0..3 {
            chain = Some(Chain::then(chain.as_ref(), step(0, 1)));
            left = limits();
            chain.as_ref().unwrap().lower(&mut left).unwrap();
        }
        assert_eq!((left.max_turns, left.max_tool_calls, left.max_total_tokens), (1, Some(0), Some(70)));
        assert_eq!((left.max_seconds, left.max_cost_usd, left.max_follow_ups), (Some(55.5), Some(0.25), 7));
        let chain = Chain::then(chain.as_ref(), step(0, 1));
        assert_eq!(chain.lower(&mut limits()), Err("max_turns"));
    }

    #[test]
    fn each_limit_ends_a_chain() {
        let one = Chain::then(None, step(0, 1));
        for (limit, low) in [
            ("max_follow_ups", RunLimits { max_follow_ups: 0, ..limits() }),
            ("max_turns", RunLimits { max_turns: 2, ..limits() }),
            ("max_total_tokens", RunLimits { max_total_tokens: Some(10), ..limits() }),
            ("max_seconds", RunLimits { max_seconds: Some(1.5), ..limits() }),
            ("max_cost_usd", RunLimits { max_cost_usd: Some(0.25), ..limits() }),
        ] {
            assert_eq!(one.lower(&mut low.clone()), Err(limit));
        }
    }

    #[test]
    fn responses_beside_each_other_use_together_what_one_would() {
        for of in 1..=6 {
            let (mut turns, mut calls, mut follow_ups, mut dollars) = (0, 0, 0, 0.0);
            for place in 0..of {
                let mut left = limits();
                if Chain::then(None, step(place, of)).lower(&mut left).is_ok() {
                    turns += left.max_turns;
                    calls += left.max_tool_calls.unwrap();
                    follow_ups += 1 + left.max_follow_ups;
                    dollars += left.max_cost_usd.unwrap();
                }
            }
            assert_eq!((turns, calls), (5, 1), "{of}");
            assert!((9..=10).contains(&follow_ups) && dollars <= 0.751, "{of}: {follow_ups}, {dollars}");
        }
    }
}
