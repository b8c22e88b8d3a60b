//! What a run has done so far: its counters, budgets and times. Serializable, so that it can be committed with each
//! turn, and another process knows what the run may still do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::trace::{self, RunTrace};
use crate::structured::Validity;
use antwort_protocol::item::{Item, Message};
use antwort_response::machine::ServerCall;
use antwort_tools::{Citation, canonical_arguments};
use antwort_util::digest::FieldHasher;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunState {
    /// Inferences that were started.
    turns: u32,
    /// The provider's first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_event: Option<RunTime>,
    /// Server-side tool calls that were made.
    pub tool_calls: u32,
    /// How much of it is committed.
    #[serde(flatten)]
    pub committed: Committed,
    /// Turns in a row with only forbidden calls.
    pub(crate) denied_turns: u32,
    /// Turns in a row in which every call failed.
    pub(crate) failed_turns: u32,
    /// Output tokens of its turns, which `max_output_tokens` bounds; those of summaries and of attempts that were repeated are not among them.
    #[serde(default)]
    pub output_tokens: u64,
    /// For what the model was asked once more.
    #[serde(flatten)]
    pub(crate) reminded: Reminded,
    /// Compactions of its conversation.
    pub compaction: CompactionState,
    /// How often each call was made, by the hash of server, tool and arguments.
    call_counts: BTreeMap<u64, u32>,
    /// Calls whose results the run waits for at its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started: Vec<StartedWork>,
    /// Whether it waits for them.
    pub(crate) awaits_results: bool,
    /// Messages that the run has added to its conversation: no item shows them.
    #[serde(default, rename = "results", skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<AddedMessage>,
    /// How the model is asked behind the turn that was committed last.
    #[serde(default, skip_serializing_if = "NextInference::is_default")]
    pub(crate) next: NextInference,
    /// Whether the last answer has the form that was asked for.
    #[serde(default, skip_serializing_if = "Validity::is_not_judged")]
    pub answer: Validity,
    /// Whether a call was rejected as it was beyond `max_tool_calls`.
    pub(crate) has_exceeded_calls: bool,
    /// Whether all server-side calls of the last turn have failed, of a run that waits for its client.
    pub(crate) have_server_calls_failed: Option<bool>,
    /// How long the run has been executed, in microseconds, without the time that it has waited as a row.
    active: u64,
    /// Its account.
    #[serde(serialize_with = "trace::unfinished")]
    pub trace: RunTrace,
    /// Sources found by searches, to be cited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Citation>,
}

/// For what the model was asked once more, which is done once.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reminded {
    /// The required call.
    #[serde(rename = "asked_for_call")]
    pub call: bool,
    /// An answer in the format that is asked for.
    #[serde(default, rename = "asked_for_repair", skip_serializing_if = "std::ops::Not::not")]
    pub repair: bool,
}

/// How much of a run is committed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Committed {
    /// Turns that made calls; the number of the next one in the journal.
    #[serde(rename = "journaled_turns")]
    pub turns: u32,
    /// How many output items the journal holds.
    #[serde(rename = "journaled_items")]
    pub items: usize,
    /// Whether the response has a row.
    pub is_recorded: bool,
}

/// A call whose work goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StartedWork {
    /// Its place among the pending calls.
    pub turn: u32,
    pub index: u32,
    pub tool: String,
    /// The id of its item.
    pub item: String,
}

/// A message that a run has added: a result that it has waited for, or what is wrong with an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AddedMessage {
    /// The number of output items before it.
    pub place: usize,
    pub text: String,
}

impl AddedMessage {
    /// What the model sees of it. As the user: other roles at this place are refused or moved to the beginning by some chat
    /// templates.
    pub(crate) fn item(&self) -> Item {
        Item::Message(Message::user(&self.text))
    }
}

/// How the model is asked in the turn that follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NextInference {
    /// With the tools of the request, of which none has to be called any more.
    #[default]
    Later,
    /// As the request wants it: the model was not asked before.
    First,
    /// For the call that is required and was not made.
    RequiredCall,
    /// For the answer in its format, without tools.
    Repair,
}

impl NextInference {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a run knows of the compactions of its conversation.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CompactionState {
    /// Tokens right after the last one.
    tokens: Option<u64>,
    /// The model wrote no summary.
    has_failed: bool,
}

impl CompactionState {
    /// Whether a conversation of so many tokens is to be compacted. What was compacted must have grown: the messages that
    /// are kept may be long themselves.
    pub(crate) fn is_due(&self, tokens: u64, threshold: u64) -> bool {
        let growth = self.tokens.map_or(u64::MAX, |after| tokens.saturating_sub(after));
        !self.has_failed && tokens > threshold && growth > threshold / 4
    }

    /// Whether one may be tried, whatever the conversation's length.
    pub(crate) fn may_try(&self) -> bool {
        !self.has_failed
    }

    pub(crate) fn compacted(&mut self, tokens: u64) {
        self.tokens = Some(tokens);
    }

    /// It is not tried again in this run.
    pub(crate) fn failed(&mut self) {
        self.has_failed = true;
    }
}

/// A time since the run was started, in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct RunTime(u64);

impl RunTime {
    /// The time now.
    pub(crate) fn now(run_started: Instant) -> Self {
        Self(u64::try_from(run_started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    pub(crate) fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl RunState {
    /// How many inferences were started.
    pub(crate) fn turns(&self) -> u32 {
        self.turns
    }

    /// The provider's first event, since the run was started.
    pub(crate) fn first_event(&self) -> Option<Duration> {
        self.first_event.map(RunTime::as_duration)
    }

    /// Notes how long it has been executed, to be committed.
    pub(crate) fn note_active(&mut self, run_started: Instant) {
        self.active = RunTime::now(run_started).0;
    }

    /// How long it was executed until it was committed.
    pub(crate) fn active(&self) -> Duration {
        Duration::from_micros(self.active)
    }

    pub(crate) fn begin_inference(&mut self) {
        self.turns = self.turns.saturating_add(1);
        self.trace.begin_turn();
    }

    /// The first event of the inference that is under way has come.
    pub(crate) fn note_first_event(&mut self, run_started: Instant) {
        self.first_event.get_or_insert_with(|| RunTime::now(run_started));
        self.trace.note_first_token();
    }

    /// Counts the calls, and returns whether one was made more than `max` times with the same arguments.
    pub(crate) fn exceeds_repeat_limit(&mut self, calls: &[ServerCall], max: u32) -> bool {
        calls.iter().any(|call| {
            let times = self.call_counts.entry(hash(call)).or_insert(0);
            *times += 1;
            *times > max
        })
    }

    /// Adds sources that are not known yet.
    pub(crate) fn add_sources(&mut self, found: Vec<Citation>) {
        for citation in found {
            if !self.sources.contains(&citation) {
                self.sources.push(citation);
            }
        }
    }
}

/// The beginning of a SHA-256: the calls of one run are few enough that no two hash alike by chance.
fn hash(ServerCall { call, .. }: &ServerCall) -> u64 {
    let hash = FieldHasher::new()
        .option(call.namespace.as_deref())
        .field(&call.name)
        .field(canonical_arguments(&call.arguments))
        .finish();
    hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other versions read it: what is committed stands beside the rest.
    #[test]
    fn what_is_committed_of_a_run_is_written_flat_and_read_again() {
        let committed = Committed { turns: 3, items: 5, is_recorded: true };
        let mut state = RunState { committed, ..RunState::default() };
        state.call_counts.insert(u64::MAX, 2);
        let text = serde_json::to_string(&state).unwrap();
        assert!(text.contains(r#""journaled_turns":3,"journaled_items":5,"is_recorded":true,"#), "{text}");
        let read: RunState = serde_json::from_str(&text).unwrap();
        assert_eq!((read.committed.turns, read.committed.items, read.committed.is_recorded), (3, 5, true));
        assert_eq!(read.call_counts, state.call_counts);
    }
}
