//! Asks the model once more within a run: its output is kept, and a message says what is wrong with it.

use super::live::{Run, RunError};
use super::state::{AddedMessage, NextInference};
use antwort_config::settings::OnMissingCall;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_response::machine::{Termination, Turn};
use antwort_response::turn::{CallChoice, HistoryItem};

impl Run {
    /// Whether the model will be asked again after this turn: its text is then marked as commentary, not as the
    /// answer.
    pub(super) fn will_retry_turn(&self) -> bool {
        if self.machine.is_cut_off() {
            return false;
        }
        if self.call_filter.lacks_required_call() {
            return self.retries_missing_call();
        }
        !self.call_filter.has_calls() && self.prepared.structured.needs_repair(self.machine.turn_output())
    }

    /// Asks for the answer in its format, without tools, so that it is one inference.
    pub(super) async fn ask_for_repair(&mut self, turn: &Turn, problem: &str) -> Result<(), RunError> {
        tracing::debug!(problem, "the answer does not match text.format; asking the model once more");
        let output = self.machine.close_turn(self.sink.events())?;
        self.check_size()?;
        self.finish_turn(turn, output)?;
        self.state.asked_for_repair = true;
        self.add_message(format!(
            "Your last answer does not have the form that was asked for: {problem}. Answer again in that form, \
             and with nothing else."
        ));
        self.state.next = NextInference::Repair;
        self.begin_next_turn().await
    }

    /// Whether the model is asked once more when it has not made the required call.
    ///
    /// Not if tools are not executed: such a request is a single inference.
    pub(super) fn retries_missing_call(&self) -> bool {
        self.prepared.executes_tools && !self.state.asked_for_call
    }

    /// Decides what follows a turn without the required call.
    pub(super) async fn on_missing_call(
        &mut self,
        turn: &Turn,
        is_reported: bool,
    ) -> Result<Option<Termination>, RunError> {
        if self.retries_missing_call() {
            return self.ask_for_call(turn, is_reported).await.map(|()| None);
        }
        self.call_filter.clear_required();
        match self.parts.options.engine.on_missing_call {
            OnMissingCall::Keep => self.validate_output(turn).await,
            OnMissingCall::Fail => Ok(Some(Termination::Failed(missing_call().body))),
        }
    }

    /// Asks for the required call. For other calls it made, the model finds errors in their results.
    async fn ask_for_call(&mut self, turn: &Turn, is_reported: bool) -> Result<(), RunError> {
        tracing::debug!("the model did not make the call that tool_choice requires; asking once more");
        self.state.asked_for_call = true;
        let output = self.machine.close_turn(self.sink.events())?;
        self.check_size()?;
        self.finish_turn(turn, output)?;
        if !is_reported {
            let named = match self.required_choice() {
                CallChoice::One(place) => self.prepared.offer.tools.get(place),
                _ => None,
            };
            let what = match named {
                Some(tool) => format!("the tool '{}'", tool.wire_name),
                None => "one of the tools that you may call".to_owned(),
            };
            self.add_message(format!("You have to call {what} now, before you answer."));
        }
        self.state.next = NextInference::RequiredCall;
        self.begin_next_turn().await
    }

    /// How the model is asked for the call that it has not made.
    pub(super) fn required_choice(&self) -> CallChoice {
        let offer = &self.prepared.offer;
        offer.choice.retry_choice(offer.tools.len())
    }

    fn add_message(&mut self, text: String) {
        let place = self.machine.response().output.len();
        self.add_messages(vec![AddedMessage { place, text }]);
    }

    /// Adds messages to the conversation of this run only.
    pub(super) fn add_messages(&mut self, added: Vec<AddedMessage>) {
        let conversation = &mut self.prepared.model_request_mut().conversation;
        conversation.extend(added.iter().map(|message| HistoryItem::from(message.item())));
        self.state.messages.extend(added);
    }
}

fn missing_call() -> ApiError {
    ApiError::new(
        ErrorKind::ModelError,
        "The model did not make the call that 'tool_choice' requires. Its text is kept in the output.",
    )
    .with_code("tool_choice_not_satisfied")
}
