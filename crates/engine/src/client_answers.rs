//! What is stored of the calls that a client was asked for.

use serde_json::value::RawValue;

use antwort_protocol::item::ToolOutput;
use antwort_protocol::parse::FromJson;
use antwort_response::machine::ClientCall;
use antwort_store::{PendingCall, PendingSource};

/// The output of a call that the client has not answered in time.
const TIMED_OUT: &str = "Client tool call timed out";

/// The answer to a call.
pub(super) struct ClientAnswer {
    pub output: ToolOutput,
    /// Whether the call has failed, or was not answered in time.
    pub has_failed: bool,
}

/// The answer to a call; `None` if there is none.
pub(super) fn find(pending: &[PendingCall], call: &ClientCall) -> Option<ClientAnswer> {
    let (text, error) = of(pending, call).find_map(|asked| asked.outcome.as_ref())?;
    Some(ClientAnswer { output: output(text), has_failed: error.is_some() })
}

/// What a call has that was not answered in time.
pub(super) fn timed_out() -> ClientAnswer {
    ClientAnswer { output: ToolOutput::Text(TIMED_OUT.to_owned()), has_failed: true }
}

/// How many seconds are left for the answer to a call: none if it was given, or it is too late.
pub(super) fn seconds_left(pending: &[PendingCall], call: &ClientCall) -> Option<i64> {
    if of(pending, call).any(|asked| asked.outcome.is_some()) {
        return None;
    }
    let left = of(pending, call).filter_map(|asked| asked.left).max()?;
    i64::try_from(left.as_secs()).ok()
}

/// A call may have been asked for again, if its first question was told to nobody.
fn of<'a>(pending: &'a [PendingCall], call: &'a ClientCall) -> impl Iterator<Item = &'a PendingCall> {
    let is_of = |asked: &&PendingCall| asked.source == PendingSource::Client && asked.call_id == call.call_id;
    pending.iter().rev().filter(is_of)
}

/// An answer as the journal keeps it.
fn output(text: &str) -> ToolOutput {
    let read = |text: &str| ToolOutput::from_json(&RawValue::from_string(text.to_owned()).ok()?).ok();
    read(text).unwrap_or_else(|| ToolOutput::Text(text.to_owned()))
}
