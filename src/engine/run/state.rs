//! What a run has done so far: its counters, budgets and times. Serializable, so that it can be committed with each
//! turn, and another process knows what the run may still do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::response::machine::ServerCall;
use crate::tools::{Citation, canonical_arguments};
use crate::util::digest::FieldHasher;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::engine) struct RunState {
    /// The inferences, in order.
    pub inferences: Vec<InferenceTimes>,
    /// Server-side tool calls that were made.
    pub tool_calls: u32,
    /// Turns that made calls; the number of the next one in the journal.
    pub journaled_turns: u32,
    /// How many output items the journal holds.
    pub journaled_items: usize,
    /// Whether the response has a row.
    pub is_recorded: bool,
    /// Turns in a row with only forbidden calls.
    pub denied_turns: u32,
    /// Turns in a row in which every call failed.
    pub failed_turns: u32,
    /// Whether the model was asked once more for the required call.
    pub asked_for_call: bool,
    /// How often each call was made, by the hash of server, tool and arguments.
    #[serde(with = "pairs")]
    call_counts: BTreeMap<[u8; 32], u32>,
    /// Sources found by searches, to be cited.
    pub sources: Vec<Citation>,
}

/// When an inference and its calls began and ended, since the run was started.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::engine) struct InferenceTimes {
    pub started: Duration,
    /// The first event of the provider.
    pub first_event: Option<Duration>,
    pub ended: Option<Duration>,
    /// The results of its calls, in the order of the calls.
    pub results: Vec<Duration>,
}

impl RunState {
    /// How many inferences were started.
    pub(in crate::engine) fn turns(&self) -> u32 {
        u32::try_from(self.inferences.len()).unwrap_or(u32::MAX)
    }

    /// The provider's first event, since the run was started.
    pub(in crate::engine) fn first_event(&self) -> Option<Duration> {
        self.inferences.iter().find_map(|inference| inference.first_event)
    }

    pub(in crate::engine) fn begin_inference(&mut self, run_started: Instant) {
        self.inferences.push(InferenceTimes { started: run_started.elapsed(), ..InferenceTimes::default() });
    }

    /// The inference that is under way, or was the last.
    pub(in crate::engine) fn inference(&mut self) -> Option<&mut InferenceTimes> {
        self.inferences.last_mut()
    }

    /// Counts the calls, and returns whether one was made more than `max` times with the same arguments.
    pub(in crate::engine) fn exceeds_repeat_limit(&mut self, calls: &[ServerCall], max: u32) -> bool {
        calls.iter().any(|call| {
            let times = self.call_counts.entry(hash(call)).or_insert(0);
            *times += 1;
            *times > max
        })
    }

    /// Adds sources that are not known yet.
    pub(in crate::engine) fn add_sources(&mut self, found: Vec<Citation>) {
        for citation in found {
            if !self.sources.contains(&citation) {
                self.sources.push(citation);
            }
        }
    }
}

fn hash(ServerCall { call, .. }: &ServerCall) -> [u8; 32] {
    FieldHasher::new()
        .option(call.namespace.as_deref())
        .field(&call.name)
        .field(canonical_arguments(&call.arguments))
        .finish()
}

/// A map as a list of pairs: JSON has no keys of bytes.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<[u8; 32], u32>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<[u8; 32], u32>, D::Error> {
        Vec::deserialize(deserializer).map(BTreeMap::from_iter)
    }
}
