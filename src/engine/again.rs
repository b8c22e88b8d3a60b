//! Asks the model once more: what it said stays, and it is told what is wrong with it.

use super::gate::Denied;
use super::run::{Run, Stop};
use crate::config::settings::OnMissingCall;
use crate::protocol::error::ApiError;
use crate::protocol::item::{Item, Message};
use crate::response::machine::{Ending, Turn};
use crate::response::turn::CallChoice;

impl Run {
    /// Whether the model will be asked again after the turn that it has just made: clients are told that what it
    /// says is not the answer.
    pub(super) fn is_asked_again_after(&self) -> bool {
        if self.machine.is_cut_off() {
            return false;
        }
        if self.gate.lacks_call() {
            return self.asks_again();
        }
        !self.gate.has_calls() && self.prepared.structured.needs_repair(self.machine.turn_output())
    }

    /// Asks for the answer in its form. Nothing is called for it, so that it is one inference.
    pub(super) fn ask_for_repair(&mut self, turn: &Turn, problem: &str) -> Result<(), Stop> {
        tracing::debug!(problem, "the answer misses its form; asking once more");
        let output = self.machine.close_turn(self.outlet.events())?;
        self.check_size()?;
        self.carry_on(turn, output, Vec::new())?;
        self.tell(format!(
            "Your last answer does not have the form that was asked for: {problem}. Answer again in that form, \
             and with nothing else."
        ));
        self.prepared.ask.tool_choice = CallChoice::None;
        self.gate.shut();
        Ok(())
    }

    /// Whether the model is asked once more where it has not made the call that is demanded.
    ///
    /// Not in a single-shot request, which is one inference.
    pub(super) fn asks_again(&self) -> bool {
        self.prepared.executes && !self.asked_for_call
    }

    /// What follows from a turn without the call that is demanded.
    pub(super) fn miss_call(&mut self, turn: &Turn, denied: Vec<Denied>) -> Result<Option<Ending>, Stop> {
        if self.asks_again() {
            return self.ask_for_call(turn, denied).map(|()| None);
        }
        self.gate.settle_demand();
        match self.engine.parts.limits.engine.on_missing_call {
            OnMissingCall::Keep => self.judge(turn),
            OnMissingCall::Fail => Ok(Some(Ending::Failed(missing_call().body))),
        }
    }

    /// Asks for the call. What the model called instead it is told of in the results of these calls.
    fn ask_for_call(&mut self, turn: &Turn, denied: Vec<Denied>) -> Result<(), Stop> {
        tracing::debug!("the model did not make the call that is demanded; asking once more");
        self.asked_for_call = true;
        let is_told = !denied.is_empty();
        let output = self.machine.close_turn(self.outlet.events())?;
        self.check_size()?;
        self.carry_on(turn, output, denied)?;
        let offer = &self.prepared.offer;
        let choice = offer.choice.again(offer.tools.len());
        if !is_told {
            let named = match &choice {
                CallChoice::One(place) => offer.tools.get(*place),
                _ => None,
            };
            let what = match named {
                Some(tool) => format!("the tool '{}'", tool.wire_name),
                None => "one of the tools that you may call".to_owned(),
            };
            self.tell(format!("You have to call {what} now, before you answer."));
        }
        self.prepared.ask.tool_choice = choice;
        Ok(())
    }

    /// Tells the model something in this run only. As the user: wherever else a message stands, some chat
    /// templates refuse it or move it to the head.
    fn tell(&mut self, text: String) {
        let mut message = Message::user(text);
        message.id = self.prepared.ids.next("msg");
        self.prepared.ask.conversation.push(Item::Message(message).into());
    }
}

fn missing_call() -> ApiError {
    ApiError::new(
        500,
        "model_error",
        "tool_choice_not_satisfied",
        "The model did not make the call that 'tool_choice' demands. What it said is kept in the output.",
    )
}
