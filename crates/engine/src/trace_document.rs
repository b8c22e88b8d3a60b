//! The account of a run as the API shows it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::run::trace::{CallOutcomeKind, CallRecord, RunTrace, TurnTokens, TurnTrace, WaitKind};
use antwort_protocol::response::{InputTokensDetails, OutputTokensDetails, Usage};

/// `GET /v1/responses/{id}/trace`. Times are milliseconds since the epoch.
#[derive(Debug, Serialize)]
struct TraceDocument<'a> {
    object: &'static str,
    id: &'a str,
    started_at: i64,
    ended_at: Option<i64>,
    turns: Vec<TurnDocument<'a>>,
    waits: Vec<WaitDocument>,
    limits: Vec<LimitDocument<'a>>,
    /// Whether its stream can be sent again.
    has_events: bool,
}

#[derive(Debug, Serialize)]
struct TurnDocument<'a> {
    index: u32,
    is_compaction: bool,
    provider: &'a str,
    model: &'a str,
    attempts: usize,
    retried_at: Vec<i64>,
    retry_reasons: &'a [Cow<'static, str>],
    sent_at: i64,
    first_byte_at: Option<i64>,
    first_token_at: Option<i64>,
    ended_at: Option<i64>,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    calls: Vec<CallDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct CallDocument<'a> {
    call_id: &'a str,
    name: &'a str,
    executor: Option<&'a str>,
    attempts: u32,
    retried_at: Vec<i64>,
    started_at: i64,
    ended_at: Option<i64>,
    outcome: CallOutcomeKind,
    error: Option<&'a str>,
    cached: bool,
    fallback: Option<&'a str>,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    follow_up_error: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct WaitDocument {
    kind: WaitKind,
    from: i64,
    to: Option<i64>,
}

#[derive(Debug, Serialize)]
struct LimitDocument<'a> {
    name: &'a str,
    at: i64,
}

/// What a list shows of an account.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct TraceSummary {
    /// From the start of the run to its end.
    pub duration_ms: Option<i64>,
    /// `None` if the price of a turn is not known.
    pub cost_usd: Option<f64>,
    /// Inferences, without those that only compacted the context.
    pub turns: Option<usize>,
    /// Calls that the gateway made.
    pub calls: Option<usize>,
    /// Those that failed.
    pub failed_calls: Option<usize>,
    /// Attempts of inferences and calls behind the first of each.
    pub retries: Option<usize>,
}

/// The account of a response as JSON; `None` if what is stored cannot be read.
pub fn render(id: &str, stored: &str, has_events: bool) -> Option<String> {
    let trace: RunTrace = serde_json::from_str(stored).ok()?;
    let base = trace.started;
    let at = |offset: i64| base.saturating_add(offset);
    let document = TraceDocument {
        object: "response.trace",
        id,
        started_at: base,
        ended_at: trace.ended.map(at),
        turns: (0..).zip(&trace.turns).map(|(index, turn)| turn_document(&trace, index, turn)).collect(),
        waits: trace
            .waits
            .iter()
            .map(|wait| WaitDocument { kind: wait.kind, from: at(wait.from), to: wait.to.map(at) })
            .collect(),
        limits: trace
            .limits
            .iter()
            .map(|limit| LimitDocument { name: &limit.name, at: at(limit.at) })
            .collect(),
        has_events,
    };
    serde_json::to_string(&document).ok()
}

/// What a list shows of it.
pub fn summarize(stored: &str) -> Option<TraceSummary> {
    let trace: RunTrace = serde_json::from_str(stored).ok()?;
    let calls = || trace.turns.iter().flat_map(|turn| &turn.calls);
    let retried = |turn: &TurnTrace| turn.retried.len();
    let inferences = || trace.turns.iter().filter(|turn| !turn.has_no_inference);
    Some(TraceSummary {
        duration_ms: trace.ended,
        cost_usd: inferences().map(|turn| turn.cost).sum(),
        turns: Some(inferences().filter(|turn| turn.compaction.is_none()).count()),
        calls: Some(calls().count()),
        failed_calls: Some(calls().filter(|call| call.outcome == CallOutcomeKind::Failed).count()),
        retries: Some(
            trace.turns.iter().map(retried).sum::<usize>()
                + calls().map(|call| call.retried.len()).sum::<usize>(),
        ),
    })
}

fn turn_document<'a>(trace: &'a RunTrace, index: u32, turn: &'a TurnTrace) -> TurnDocument<'a> {
    let at = |offset: i64| trace.started.saturating_add(offset);
    let (provider, model) = match &turn.compaction {
        Some(by) => (&by.provider, &by.model),
        None => (&trace.provider, &trace.model),
    };
    TurnDocument {
        index,
        is_compaction: turn.compaction.is_some(),
        provider,
        model,
        attempts: if turn.has_no_inference { 0 } else { turn.retried.len() + 1 },
        retried_at: turn.retried.iter().copied().map(at).collect(),
        retry_reasons: &turn.retry_reasons,
        sent_at: at(turn.sent),
        first_byte_at: turn.first_byte.map(at),
        first_token_at: turn.first_token.map(at),
        ended_at: turn.ended.map(at),
        usage: turn.tokens.map(usage),
        cost_usd: turn.cost,
        calls: turn
            .calls
            .iter()
            .chain(&turn.refused)
            .map(|call| call_document(trace.started, call))
            .collect(),
    }
}

fn call_document(base: i64, call: &CallRecord) -> CallDocument<'_> {
    let at = |offset: i64| base.saturating_add(offset);
    CallDocument {
        call_id: &call.call_id,
        name: &call.name,
        executor: call.executor.as_deref(),
        attempts: call.attempts,
        retried_at: call.retried.iter().copied().map(at).collect(),
        started_at: at(call.started),
        ended_at: call.ended.map(at),
        outcome: call.outcome,
        error: call.error.as_deref(),
        cached: call.cached,
        fallback: call.fallback.as_deref(),
        truncated: call.truncated,
        follow_up_error: call.follow_up_error.as_deref(),
    }
}

fn usage(TurnTokens(input, cached, output, reasoning, total): TurnTokens) -> Usage {
    Usage {
        input_tokens: input,
        input_tokens_details: InputTokensDetails { cached_tokens: cached, ..InputTokensDetails::default() },
        output_tokens: output,
        output_tokens_details: OutputTokensDetails { reasoning_tokens: reasoning },
        total_tokens: total,
    }
}
