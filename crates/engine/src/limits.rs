//! The limits of a run: the configuration's, overridden by the agent profile, lowered by the request.

use std::collections::BTreeMap;
use std::time::Duration;

use super::chain::Chain;
use antwort_config::{LimitOverrides, ModelPrice, RunLimits};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::request::{CreateResponse, RequestedLimits};
use antwort_protocol::response::Usage;

/// The limits of one run, in force.
#[derive(Debug, Clone)]
pub(super) struct EffectiveLimits {
    /// `max_tool_calls` is the lower of the request's and the configuration's.
    pub run: RunLimits,
    /// The price of tokens, if it is configured.
    price: Option<ModelPrice>,
}

impl EffectiveLimits {
    /// The limits of a request. A value above its ceiling is clamped to it.
    pub(super) fn from_request(
        request: &CreateResponse,
        configured: &RunLimits,
        ceilings: &LimitOverrides,
        agent: Option<&LimitOverrides>,
        price: Option<ModelPrice>,
    ) -> Result<Self, ApiError> {
        let mut run = configured.clone();
        if let Some(agent) = agent {
            apply_overrides(&mut run, agent);
        }
        let asked = request.antwort.as_ref().map(|options| options.limits.clone()).unwrap_or_default();
        let turns = ceilings.max_turns.unwrap_or(run.max_turns);
        run.max_turns = asked.max_turns.map_or(run.max_turns, |asked| asked.min(turns));
        let identical = ceilings.max_identical_calls.unwrap_or(run.max_identical_calls);
        run.max_identical_calls =
            asked.max_identical_calls.map_or(run.max_identical_calls, |asked| asked.min(identical));
        let follow_ups = ceilings.max_follow_ups.unwrap_or(run.max_follow_ups);
        run.max_follow_ups = asked.max_follow_ups.map_or(run.max_follow_ups, |asked| asked.min(follow_ups));
        run.max_total_tokens = clamp(asked.max_total_tokens, run.max_total_tokens, ceilings.max_total_tokens);
        run.max_seconds = clamp(asked.max_seconds, run.max_seconds, ceilings.max_seconds);
        run.max_cost_usd = clamp(asked.max_cost_usd, run.max_cost_usd, ceilings.max_cost_usd);
        run.max_tool_calls = clamp(request.max_tool_calls, run.max_tool_calls, ceilings.max_tool_calls);
        if run.max_cost_usd.is_some() && price.is_none() {
            let param = if asked.max_cost_usd.is_some() { "antwort.limits.max_cost_usd" } else { "model" };
            return Err(ApiError::invalid(
                "unknown_price",
                param,
                "The cost of this run is limited and the price of the model is not configured.",
            ));
        }
        Ok(Self { run, price })
    }

    /// What is left of them for a response of this chain.
    ///
    /// # Errors
    /// The name of a limit that leaves no room for it, as the code.
    pub(super) fn within(mut self, chain: &Chain) -> Result<Self, ApiError> {
        chain.lower(&mut self.run).map(|()| self).map_err(|limit| {
            let message =
                format!("`{limit}` leaves no room for a response that follows the result of a tool.");
            ApiError::new(ErrorKind::InvalidRequest, message).with_code(limit)
        })
    }

    /// The limits as the response echoes them.
    pub(super) fn to_request_limits(&self) -> RequestedLimits {
        RequestedLimits {
            max_turns: Some(self.run.max_turns),
            max_total_tokens: self.run.max_total_tokens,
            max_seconds: self.run.max_seconds,
            max_cost_usd: self.run.max_cost_usd,
            max_identical_calls: Some(self.run.max_identical_calls),
            max_follow_ups: Some(self.run.max_follow_ups),
        }
    }

    /// The limit that the used tokens have reached.
    pub(super) fn reached_by(&self, usage: &Usage) -> Option<&'static str> {
        if self.run.max_total_tokens.is_some_and(|most| usage.total_tokens >= most) {
            return Some("max_total_tokens");
        }
        let cost = self.cost(usage)?;
        self.run.max_cost_usd.is_some_and(|most| cost >= most).then_some("max_cost_usd")
    }

    /// What these tokens cost, in US dollars; `None` if their price is not configured.
    pub(super) fn cost(&self, usage: &Usage) -> Option<f64> {
        self.price.map(|price| cost(&price, usage))
    }

    /// How long the run may take, and the name of the limit that it is.
    pub(super) fn timeout(&self, run_timeout: Duration) -> (Duration, &'static str) {
        match self.run.wall_clock() {
            Some(limit) if limit < run_timeout => (limit, "max_seconds"),
            _ => (run_timeout, "run_timeout"),
        }
    }
}

/// The price of a model; `*` is the default for models that are not listed.
pub(super) fn price(prices: &BTreeMap<String, ModelPrice>, model: &str) -> Option<ModelPrice> {
    prices.get(model).or_else(|| prices.get("*")).copied()
}

fn apply_overrides(run: &mut RunLimits, agent: &LimitOverrides) {
    run.max_turns = agent.max_turns.unwrap_or(run.max_turns);
    run.max_identical_calls = agent.max_identical_calls.unwrap_or(run.max_identical_calls);
    run.max_consecutive_failures = agent.max_consecutive_failures.unwrap_or(run.max_consecutive_failures);
    run.max_follow_ups = agent.max_follow_ups.unwrap_or(run.max_follow_ups);
    run.max_tool_calls = agent.max_tool_calls.or(run.max_tool_calls);
    run.max_total_tokens = agent.max_total_tokens.or(run.max_total_tokens);
    run.max_seconds = agent.max_seconds.or(run.max_seconds);
    run.max_cost_usd = agent.max_cost_usd.or(run.max_cost_usd);
}

/// The requested value, clamped to the ceiling, or to the current value if there is no ceiling.
fn clamp<T: PartialOrd + Copy>(asked: Option<T>, holds: Option<T>, ceiling: Option<T>) -> Option<T> {
    match (asked, ceiling.or(holds)) {
        (Some(asked), Some(most)) => Some(if asked < most { asked } else { most }),
        (Some(asked), None) => Some(asked),
        (None, _) => holds,
    }
}

/// US dollars.
pub(super) fn cost(price: &ModelPrice, usage: &Usage) -> f64 {
    let cached = usage.input_tokens_details.cached_tokens.min(usage.input_tokens);
    let fresh = usage.input_tokens - cached;
    let dollars = fresh as f64 * price.input
        + cached as f64 * price.cached_input.unwrap_or(price.input)
        + usage.output_tokens as f64 * price.output;
    dollars / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use antwort_protocol::request::RunOptions;

    fn asking(limits: RequestedLimits) -> CreateResponse {
        let antwort = Some(RunOptions { limits, ..RunOptions::default() });
        CreateResponse { antwort, ..CreateResponse::default() }
    }

    fn limits(request: &CreateResponse, ceilings: &LimitOverrides) -> RunLimits {
        EffectiveLimits::from_request(request, &RunLimits::default(), ceilings, None, None).unwrap().run
    }

    #[test]
    fn a_request_lowers_and_is_clamped() {
        let low = asking(RequestedLimits { max_turns: Some(3), ..RequestedLimits::default() });
        let high = asking(RequestedLimits { max_turns: Some(99), ..RequestedLimits::default() });
        let ceilings = LimitOverrides { max_turns: Some(20), ..LimitOverrides::default() };
        assert_eq!(limits(&low, &LimitOverrides::default()).max_turns, 3);
        assert_eq!(limits(&high, &LimitOverrides::default()).max_turns, 10);
        assert_eq!(limits(&high, &ceilings).max_turns, 20);
        assert_eq!(limits(&CreateResponse::default(), &ceilings).max_turns, 10);
    }

    #[test]
    fn a_cost_limit_needs_a_price() {
        let request = asking(RequestedLimits { max_cost_usd: Some(0.5), ..RequestedLimits::default() });
        let none = LimitOverrides::default();
        let error =
            EffectiveLimits::from_request(&request, &RunLimits::default(), &none, None, None).unwrap_err();
        assert_eq!(error.body.param.as_deref(), Some("antwort.limits.max_cost_usd"));
        let price = ModelPrice { input: 1.0, cached_input: Some(0.1), output: 10.0 };
        let limits =
            EffectiveLimits::from_request(&request, &RunLimits::default(), &none, None, Some(price)).unwrap();
        let mut usage = Usage { input_tokens: 100_000, output_tokens: 39_999, ..Usage::default() };
        assert_eq!(limits.reached_by(&usage), None);
        usage.output_tokens = 40_000;
        assert_eq!(limits.reached_by(&usage), Some("max_cost_usd"));
        usage.input_tokens_details.cached_tokens = 100_000;
        assert_eq!(limits.reached_by(&usage), None);
    }
}
