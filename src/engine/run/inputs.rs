//! Calls of the client's functions in a run that goes on with their outputs: the client is asked, the run ends its lease and
//! waits as a row, and whoever claims it adds the answers.

use std::time::Duration;

use serde_json::value::RawValue;

use super::job::LeftTurn;
use super::live::{Run, RunError};
use crate::engine::context::unix_now;
use crate::engine::tool_executor::TurnCalls;
use crate::protocol::item::ToolOutput;
use crate::protocol::parse::FromJson;
use crate::response::machine::{ClientCall, ServerCall};
use crate::response::turn::ToolCallRequest;
use crate::store::OrphanedCall;

/// The output of a call that the client has not answered in time.
const TIMED_OUT: &str = "Client tool call timed out";

impl Run {
    /// Asks the client for the outputs of the calls of this turn. Always returns an error: that the run waits, if nothing is
    /// wrong.
    pub(super) async fn ask_client(&mut self, timeout: Duration) -> RunError {
        match self.commit_questions(timeout).await {
            Ok(()) => RunError::Waits,
            Err(error) => error,
        }
    }

    async fn commit_questions(&mut self, timeout: Duration) -> Result<(), RunError> {
        let calls = self.machine.ask_client(self.sink.events())?;
        self.check_size()?;
        self.check_limits(&calls.iter().map(counted).collect::<Vec<_>>())?;
        // The log of events must not end before the state that is committed with the turn.
        self.sink.settle_log().await;
        self.state.note_active(self.started);
        let asked = TurnCalls::Client(&calls, timeout);
        self.executor.commit(&self.prepared, &self.machine, &mut self.state, asked, &self.parts.seal).await?;
        self.announce(&calls, timeout).await
    }

    /// Nobody can answer before the questions are committed, so they are announced behind that.
    async fn announce(&mut self, calls: &[ClientCall], timeout: Duration) -> Result<(), RunError> {
        let expires_at = unix_now().saturating_add(i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX));
        self.machine.require_inputs(calls, expires_at, self.sink.events());
        self.flush().await
    }

    /// Adds the outputs of the calls for which the client was asked, or waits on if one is missing and not late.
    pub(super) async fn take_answers(&mut self, left: &LeftTurn) -> Result<(), RunError> {
        let calls = self.machine.open_client_calls();
        if left.journaled.iter().any(is_open) {
            if !left.seen.iter().any(|event| event.is_input_required()) {
                self.announce(&calls, self.prepared.input_timeout.unwrap_or_default()).await?;
            }
            return Err(RunError::Waits);
        }
        let mut all_failed = true;
        for call in &calls {
            let journaled = left.journaled.iter().find(|asked| is_of(asked, call));
            let output = match journaled.and_then(|asked| asked.outcome.as_ref()) {
                Some((text, error)) => {
                    all_failed &= error.is_some();
                    output(text)
                }
                None => ToolOutput::Text(TIMED_OUT.to_owned()),
            };
            self.machine.finish_client_call(call, output, self.sink.events())?;
        }
        self.count_failed_turn(all_failed)
    }
}

/// An answer as the journal keeps it.
fn output(text: &str) -> ToolOutput {
    let read = |text: &str| ToolOutput::from_json(&RawValue::from_string(text.to_owned()).ok()?).ok();
    read(text).unwrap_or_else(|| ToolOutput::Text(text.to_owned()))
}

fn is_open(asked: &OrphanedCall) -> bool {
    asked.outcome.is_none() && asked.input.as_ref().is_some_and(|input| !input.is_expired)
}

fn is_of(asked: &OrphanedCall, call: &ClientCall) -> bool {
    asked.input.as_ref().is_some_and(|input| input.call_id == call.call_id)
}

/// A call as the limit of identical calls counts it.
fn counted(call: &ClientCall) -> ServerCall {
    let (name, namespace) = (call.name.clone(), call.namespace.clone());
    ServerCall { slot: 0, call: ToolCallRequest { name, namespace, arguments: call.arguments.clone() } }
}
