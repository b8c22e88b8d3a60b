//! What a run does for MCP servers beside calling their tools: shows lists, follows changes, asks for approvals.

use super::approvals;
use super::offering;
use super::run::{Run, Stop};
use crate::response::machine::{AskedCall, Ending};
use crate::response::turn::{CallKind, ModelEvent};

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
        self.gate.replace_tools(offer.allowed.clone(), offer.tools.clone());
        Ok(())
    }

    /// Keeps what a person is asked, before they can answer.
    pub(super) async fn ask_approvals(&mut self, asked: &[AskedCall]) -> Result<(), Stop> {
        if asked.is_empty() {
            return Ok(());
        }
        let prepared = &self.prepared;
        let (owner, response) = (&prepared.owner, &prepared.response.id);
        Ok(approvals::ask(&self.engine.parts, owner, response, asked, &prepared.servers).await?)
    }

    /// Makes the calls that a person has allowed, before the model is asked: as if it had just asked for them.
    ///
    /// The end of the response, if a tool is another one by now and the person is asked again.
    pub(super) async fn run_approved(&mut self) -> Result<Option<Ending>, Stop> {
        let approved = std::mem::take(&mut self.prepared.approved);
        if approved.is_empty() {
            return Ok(None);
        }
        let kind = CallKind::Server(self.prepared.surface);
        for (slot, allowed) in (0_u32..).zip(approved.iter().filter(|allowed| !allowed.is_outdated)) {
            approvals::claim(&self.engine.parts, &self.prepared.owner, allowed).await?;
            self.machine.note_approval(slot, allowed.request_id());
            let (name, namespace) = (allowed.call.name.clone(), allowed.call.namespace.clone());
            let delta = allowed.call.arguments.clone();
            let out = self.outlet.events();
            self.machine.push(ModelEvent::CallStarted { slot, kind, call_id: None, name, namespace }, out)?;
            self.machine.push(ModelEvent::CallDelta { slot, delta }, out)?;
        }
        let turn = self.machine.end_turn(true, self.outlet.events())?;
        if !turn.server_calls.is_empty() {
            self.run_calls(&turn.server_calls).await?;
        }
        for outdated in approved.iter().filter(|allowed| allowed.is_outdated) {
            self.machine.ask_approval(outdated.call.clone(), self.outlet.events())?;
        }
        let output = self.machine.close_turn(self.outlet.events())?;
        self.check_size()?;
        if !output.asked.is_empty() {
            self.ask_approvals(&output.asked).await?;
            return Ok(Some(Ending::Completed));
        }
        self.remember(output, Vec::new());
        self.flush().await?;
        Ok(None)
    }
}
