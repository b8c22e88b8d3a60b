//! What a run does for MCP servers beside calling their tools: shows lists, follows changes, asks for approvals.

use super::approvals::{self, Approved};
use super::offering;
use super::run::{Run, Stop};
use crate::response::machine::{CallResult, Ending, ServerCall, Violation};
use crate::response::turn::{CallChoice, CallKind, ModelEvent};
use crate::tools::Code;

impl Run {
    /// Shows the tools of servers that are new to the conversation.
    pub(super) fn show_tools(&mut self) -> Result<(), Stop> {
        if !self.prepared.shows_lists {
            return Ok(());
        }
        for server in self.prepared.servers.iter().filter(|server| server.is_news) {
            self.machine.show_tools(server.label(), server.shown(), self.outlet.events())?;
        }
        Ok(())
    }

    /// Offers the tools anew if a server has said that they are others now.
    pub(super) async fn follow_changed_tools(&mut self) -> Result<(), Stop> {
        if !self.prepared.servers.iter().any(|server| server.has_changed()) {
            return Ok(());
        }
        let mut servers = std::mem::take(&mut self.prepared.servers);
        for server in servers.iter_mut().filter(|server| server.has_changed()) {
            if self.wait(server.renew()).await? && self.prepared.shows_lists {
                self.machine.show_tools(server.label(), server.shown(), self.outlet.events())?;
            }
        }
        self.prepared.servers = servers;
        offering::offer_again(&self.engine.parts, &mut self.prepared)?;
        let offer = &self.prepared.offer;
        self.gate.replace_tools(offer.choice.allowed.clone(), offer.tools.clone());
        // Places are others, too.
        if self.prepared.ask.tool_choice != CallChoice::None {
            self.prepared.ask.tool_choice = offer.choice.later();
        }
        Ok(())
    }

    /// Makes the calls that a person has allowed, before the model is asked: as if it had just asked for them.
    ///
    /// The end of the response, if a tool or its credentials are others by now and the person is asked again.
    pub(super) async fn run_approved(&mut self) -> Result<Option<Ending>, Stop> {
        let approved = std::mem::take(&mut self.prepared.approved);
        if approved.is_empty() {
            return Ok(None);
        }
        let (outdated, current): (Vec<_>, Vec<_>) = approved.iter().partition(|allowed| allowed.is_outdated);
        let calls = self.begin_approved(&current)?;
        self.check_limits(&calls)?;
        // All at once, and right before the calls: what is used up is made.
        approvals::claim(&self.engine.parts, &self.prepared.owner, &approved).await?;
        if !calls.is_empty() {
            self.dispatch(&calls).await?;
        }
        let output = self.machine.close_turn(self.outlet.events())?;
        self.check_size()?;
        self.remember(output, Vec::new());
        if !outdated.is_empty() {
            self.ask_again(&outdated)?;
            return Ok(Some(Ending::Completed));
        }
        self.flush().await?;
        Ok(None)
    }

    /// Writes approved calls as the model would have them.
    fn begin_approved(&mut self, approved: &[&Approved]) -> Result<Vec<ServerCall>, Violation> {
        let kind = CallKind::Server(self.prepared.surface);
        for (slot, allowed) in (0_u32..).zip(approved) {
            self.machine.note_approval(slot, allowed.request_id());
            let (name, namespace) = (allowed.call.name.clone(), allowed.call.namespace.clone());
            let delta = allowed.call.arguments.clone();
            let out = self.outlet.events();
            let begun = ModelEvent::CallStarted { slot, kind, call_id: None, name, namespace, fields: None };
            self.machine.push(begun, out)?;
            self.machine.push(ModelEvent::CallDelta { slot, delta }, out)?;
        }
        Ok(self.machine.end_turn(true, self.outlet.events())?.server_calls)
    }

    /// Ends calls that were allowed of tools, or with credentials, which are others now: they are shown as failed, so that their approval
    /// is seen to be used up, and asked for anew.
    fn ask_again(&mut self, outdated: &[&Approved]) -> Result<(), Violation> {
        for call in self.begin_approved(outdated)? {
            let result = CallResult {
                output: "the tool, or the credentials it is called with, are others than when the user was asked; \
                         the user is asked again"
                    .to_owned(),
                error: Some(Code::AccessDenied.as_str()),
                ..CallResult::default()
            };
            self.machine.finish_call(call.slot, result, self.outlet.events())?;
        }
        self.machine.close_turn(self.outlet.events())?;
        for allowed in outdated {
            self.machine.ask_approval(allowed.call.clone(), self.outlet.events())?;
        }
        Ok(())
    }
}
