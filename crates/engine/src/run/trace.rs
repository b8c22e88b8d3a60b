//! The account of a run: which turns, calls and waits it had, when, and which limits stopped it.
//!
//! It is kept in the run's state, so that it survives the loss of a process, and stored with the end of the response in a
//! compact form: short keys, and times as offsets from the start. `engine/trace_document` turns it into what the API shows.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize, Serializer};
use tracing::Span;

use antwort_protocol::id::Id;
use antwort_protocol::response::Usage;
use antwort_provider::InferenceTiming;
use antwort_tools::OutputMeta;

mod record;

pub(crate) use record::{
    CallOutcomeKind, CallRecord, CompactionModel, Interval, LimitTrace, Offset, TurnTokens, TurnTrace,
    WaitKind, WaitTrace,
};

/// Calls that are noted of one run. Further ones are made, but not noted.
const MAX_CALLS: usize = 2_000;
/// Longer names and ids are cut.
const MAX_NAME_BYTES: usize = 256;

/// The account of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunTrace {
    /// Milliseconds since the epoch.
    #[serde(rename = "s")]
    pub started: i64,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Offset>,
    /// The provider, by its key in the configuration.
    #[serde(rename = "p", default)]
    pub provider: String,
    /// The provider's name of the model.
    #[serde(rename = "m", default)]
    pub model: String,
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnTrace>,
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitTrace>,
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitTrace>,
    /// The turns before the last as JSON: they do not change, and each turn's commit has all of them.
    #[serde(skip)]
    finished: FinishedTurns,
}

/// JSON values, one behind the other.
#[derive(Debug, Clone, Default, PartialEq)]
struct FinishedTurns {
    count: usize,
    json: Vec<u8>,
}

impl RunTrace {
    pub(crate) fn begin(&mut self, started: Instant, provider: &str, model: &str) {
        self.started = epoch_ms(started);
        provider.clone_into(&mut self.provider);
        model.clone_into(&mut self.model);
    }

    /// An inference is about to be made.
    pub(crate) fn begin_turn(&mut self) {
        let sent = self.now();
        self.finish_turns();
        self.turns.push(TurnTrace { sent, ..TurnTrace::default() });
    }

    /// The model is about to be asked for a summary of the conversation.
    pub(crate) fn begin_compaction(&mut self, provider: &str, model: &str) {
        self.begin_turn();
        if let Some(turn) = self.turns.last_mut() {
            turn.compaction =
                Some(Box::new(CompactionModel { provider: provider.into(), model: model.into() }));
        }
    }

    fn finish_turns(&mut self) {
        let FinishedTurns { count, json } = &mut self.finished;
        for turn in self.turns.iter().skip(*count) {
            // A turn has nothing that could not be written.
            _ = serde_json::to_writer(&mut *json, turn);
        }
        *count = self.turns.len();
    }

    /// The turns that [`unfinished`] leaves out.
    pub(crate) fn finished(&self) -> &[u8] {
        &self.finished.json
    }

    /// Puts the finished turns before the others. `None` if they are none.
    pub(crate) fn restore(&mut self, finished: &[u8]) -> Option<()> {
        let read = serde_json::Deserializer::from_slice(finished).into_iter();
        let mut turns: Vec<TurnTrace> = read.collect::<Result<_, _>>().ok()?;
        self.finished = FinishedTurns { count: turns.len(), json: finished.to_vec() };
        turns.append(&mut self.turns);
        self.turns = turns;
        Some(())
    }

    /// The first output of the inference that is under way has come.
    pub(crate) fn note_first_token(&mut self) {
        let started = self.started;
        if let Some(turn) = self.turns.last_mut() {
            turn.first_token.get_or_insert_with(|| now_ms() - started);
        }
    }

    /// What an attempt of the inference has used.
    pub(crate) fn note_usage(&mut self, usage: &Usage, cost: Option<f64>) {
        if let Some(turn) = self.turns.last_mut() {
            turn.tokens.get_or_insert_default().add(usage);
            turn.cost = cost.map(|cost| turn.cost.unwrap_or(0.0) + cost);
        }
    }

    /// What the inference has used, with all its attempts.
    pub(crate) fn turn_tokens(&self) -> Option<TurnTokens> {
        self.turns.last().and_then(|turn| turn.tokens)
    }

    /// What the provider's stream says of an inference that has ended.
    pub(crate) fn end_inference(&mut self, timing: &InferenceTiming) {
        let (now, base) = (self.now(), self.started);
        let offset = |at: Instant| epoch_ms(at) - base;
        let Some(turn) = self.turns.last_mut() else { return };
        match timing.sent.map(offset) {
            // Asked once more, with half of the conversation.
            Some(sent) if turn.ended.is_some() => {
                turn.retried.push(sent);
                turn.retry_reasons.push("context_length".into());
            }
            Some(sent) => turn.sent = sent,
            None => {}
        }
        turn.retried.extend(timing.retried.iter().copied().map(offset));
        turn.retry_reasons.extend(timing.retry_reasons.iter().copied().map(Cow::from));
        turn.first_byte = timing.first_byte.map(offset);
        turn.ended = Some(now);
    }

    /// Tells a span of the inference that has ended.
    pub(crate) fn record_times(&self, span: &Span) {
        let Some(turn) = self.turns.last() else { return };
        span.record("antwort.attempts", turn.retried.len() + 1);
        let of = [("antwort.first_byte_ms", turn.first_byte), ("antwort.first_token_ms", turn.first_token)];
        for (name, at) in of {
            if let Some(at) = at {
                span.record(name, at - turn.sent);
            }
        }
    }

    /// Calls of the turn are about to be made.
    pub(crate) fn begin_calls(&mut self, calls: impl Iterator<Item = CallRecord>) {
        let noted: usize = self.turns.iter().map(|turn| turn.calls.len()).sum();
        let now = self.now();
        if self.turns.is_empty() {
            // Calls that were approved are made before the first inference.
            self.turns.push(TurnTrace { sent: now, has_no_inference: true, ..TurnTrace::default() });
        }
        let Some(turn) = self.turns.last_mut() else { return };
        let noted_now = calls.take(MAX_CALLS.saturating_sub(noted));
        turn.calls.extend(noted_now.map(|call| CallRecord { started: now, ..call }));
    }

    /// A call of the turn was refused.
    pub(crate) fn refuse_call(&mut self, call: CallRecord) {
        let noted: usize = self.turns.iter().map(|turn| turn.calls.len() + turn.refused.len()).sum();
        let now = self.now();
        if let Some(turn) = self.turns.last_mut().filter(|_| noted < MAX_CALLS) {
            turn.refused.push(CallRecord { started: now, ended: Some(now), ..call });
        }
    }

    /// The call at this place of the turn has ended so.
    pub(crate) fn end_call(
        &mut self,
        place: u32,
        outcome: CallOutcomeKind,
        error: Option<&str>,
        meta: Option<&OutputMeta>,
    ) {
        let (now, base) = (self.now(), self.started);
        let Some(call) = self.call(place) else { return };
        call.outcome = outcome;
        call.error = error.map(short);
        let Some(meta) = meta else { return };
        call.ended = Some(now);
        call.executor = meta.executor.as_deref().map(short);
        call.attempts = meta.attempts;
        call.cached = meta.cached;
        call.truncated = meta.truncated;
        call.fallback = meta.fallback_from.as_deref().map(short);
        if let Some(times) = &meta.times {
            let offset = |at: Instant| epoch_ms(at) - base;
            call.started = offset(times.began);
            call.ended = Some(offset(times.ended));
            call.retried = times.retried.iter().copied().map(offset).collect();
        }
    }

    /// The item that shows a call is known.
    pub(crate) fn note_item(&mut self, place: u32, item: &Id) {
        if let Some(call) = self.call(place).filter(|call| call.is_unnamed()) {
            item.as_str().clone_into(&mut call.call_id);
        }
    }

    /// A response is to follow the result of the call at this place of the turn.
    pub(crate) fn note_followed(&mut self, place: u32) {
        if let Some(call) = self.call(place) {
            call.is_followed = true;
        }
    }

    /// A response is to follow the result of the call that this item shows, of whichever turn.
    pub(crate) fn note_followed_item(&mut self, item: &str) {
        let mut calls = self.turns.iter_mut().flat_map(|turn| &mut turn.calls);
        if let Some(call) = calls.find(|call| call.call_id == item) {
            call.is_followed = true;
        }
    }

    fn call(&mut self, place: u32) -> Option<&mut CallRecord> {
        self.turns.last_mut()?.calls.get_mut(place as usize)
    }

    pub(crate) fn begin_wait(&mut self, kind: WaitKind) {
        let from = self.now();
        self.waits.push(WaitTrace { kind, from, to: None });
    }

    /// Whatever the run has waited for, it goes on.
    pub(crate) fn end_waits(&mut self) {
        let now = self.now();
        for wait in self.waits.iter_mut().filter(|wait| wait.to.is_none()) {
            wait.to = Some(now);
        }
    }

    /// A wait whose times are known.
    pub(crate) fn add_wait(&mut self, kind: WaitKind, Interval { from, to }: Interval) {
        let (from, to) = (epoch_ms(from) - self.started, epoch_ms(to) - self.started);
        self.waits.push(WaitTrace { kind, from, to: Some(to) });
    }

    /// The tools were listed in this time, which no other wait counts.
    pub(crate) fn add_listing(&mut self, times: Interval) {
        let from = epoch_ms(times.from) - self.started;
        for wait in self.waits.iter_mut().filter(|wait| wait.to.is_some_and(|to| to > from)) {
            wait.to = Some(wait.from.max(from));
        }
        self.add_wait(WaitKind::McpListTools, times);
    }

    /// The run goes on in this process, after it has been executed for so long: what lies between was a wait.
    pub(crate) fn resume(&mut self, active: Duration, has_asked_user: bool) {
        if self.waits.iter().any(|wait| wait.to.is_none()) {
            return self.end_waits();
        }
        let waited = |wait: &WaitTrace| wait.to.map_or(0, |to| to - wait.from);
        let known: i64 = self.waits.iter().map(waited).sum();
        let (now, active) = (self.now(), i64::try_from(active.as_millis()).unwrap_or(i64::MAX));
        let kind = if has_asked_user { WaitKind::Elicitation } else { WaitKind::Queue };
        let from = active.saturating_add(known).min(now);
        self.waits.push(WaitTrace { kind, from, to: Some(now) });
    }

    pub(crate) fn reach_limit(&mut self, name: Cow<'static, str>) {
        if !self.limits.iter().any(|limit| limit.name == name) {
            let at = self.now();
            self.limits.push(LimitTrace { name, at });
        }
    }

    /// Calls that have not returned are not waited for.
    fn cancel_calls(&mut self) {
        let now = self.now();
        let Some(turn) = self.turns.last_mut() else { return };
        let is_open = |call: &&mut CallRecord| {
            call.outcome == CallOutcomeKind::Unknown && call.ended.is_none() && call.error.is_none()
        };
        for call in turn.calls.iter_mut().filter(is_open) {
            (call.outcome, call.ended) = (CallOutcomeKind::Cancelled, Some(now));
        }
    }

    /// The run has ended in this process; `aborted`: the items of calls that were closed without a result. Returns the
    /// account as it is stored.
    pub(crate) fn end(&mut self, aborted: &[Id]) -> Option<String> {
        self.cancel_calls();
        self.end_lost(aborted)
    }

    /// The process of the run is gone: what became of its calls is unknown.
    pub(crate) fn end_lost(&mut self, aborted: &[Id]) -> Option<String> {
        self.name_aborted(aborted);
        self.end_waits();
        self.ended = Some(self.now());
        serde_json::to_string(self).ok()
    }

    /// Items of calls behind one that has not returned are only there when the response is closed.
    fn name_aborted(&mut self, aborted: &[Id]) {
        let Some(turn) = self.turns.last_mut() else { return };
        let items =
            aborted.iter().filter(|item| !turn.calls.iter().any(|call| call.call_id == item.as_str()));
        let items: Vec<_> = items.cloned().collect();
        let unnamed = turn.calls.iter_mut().filter(|call| call.is_unnamed());
        for (call, item) in unnamed.zip(items) {
            item.as_str().clone_into(&mut call.call_id);
        }
    }

    fn now(&self) -> Offset {
        now_ms() - self.started
    }
}

/// A stored account with why no response has followed the result of the call that this item shows. `None` if it has no
/// such call.
pub(crate) fn with_follow_up_error(stored: &str, item: &Id, code: &str) -> Option<String> {
    let mut trace: RunTrace = serde_json::from_str(stored).ok()?;
    let mut calls = trace.turns.iter_mut().flat_map(|turn| &mut turn.calls);
    calls.find(|call| call.call_id == item.as_str())?.follow_up_error = Some(short(code));
    serde_json::to_string(&trace).ok()
}

/// Serializes an account without the turns of [`RunTrace::finished`].
pub(crate) fn unfinished<S: Serializer>(trace: &RunTrace, to: S) -> Result<S::Ok, S::Error> {
    let RunTrace { started, ended, provider, model, turns, waits, limits, finished } = trace;
    let turns = turns.get(finished.count..).unwrap_or_default();
    let rest = RunTraceRef { started, ended, provider, model, turns, waits, limits };
    rest.serialize(to)
}

/// [`RunTrace`], borrowed.
#[derive(Serialize)]
struct RunTraceRef<'a> {
    #[serde(rename = "s")]
    started: &'a i64,
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    ended: &'a Option<Offset>,
    #[serde(rename = "p")]
    provider: &'a str,
    #[serde(rename = "m")]
    model: &'a str,
    #[serde(rename = "t")]
    turns: &'a [TurnTrace],
    #[serde(rename = "w")]
    waits: &'a [WaitTrace],
    #[serde(rename = "l")]
    limits: &'a [LimitTrace],
}

/// A name, cut if it is long.
pub(crate) fn short(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default().to_owned()
}

/// The time of the clock that this instant was.
fn epoch_ms(at: Instant) -> i64 {
    let (now, wall) = (Instant::now(), now_ms());
    let ago = i64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or_default();
    let ahead = i64::try_from(at.saturating_duration_since(now).as_millis()).unwrap_or_default();
    wall - ago + ahead
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
