//! Asks the model once more: what it said stays, and it is told what is wrong with it.

use super::run::{Run, Stop};
use crate::protocol::item::{Item, Message};
use crate::protocol::tool_choice::ToolChoice;
use crate::response::machine::Turn;

impl Run {
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
        self.prepared.ask.tool_choice = ToolChoice::None;
        self.gate.shut();
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
