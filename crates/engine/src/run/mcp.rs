//! What a run does for MCP servers beside calling their tools: emits tool lists, follows changes of them, makes
//! approved calls.

use std::time::Instant;

use super::live::{Run, RunError};
use super::state::NextInference;
use crate::tools::approvals::{self, ApprovedCall};
use antwort_protocol::error::ErrorKind;
use antwort_response::machine::{CallResult, ServerCall, Termination, Violation};
use antwort_response::turn::{CallChoice, CallKind, ModelEvent};
use antwort_store::outage::{OUTAGE_TIMEOUT, RETRY_INTERVAL};
use antwort_tools::ToolErrorCode;

impl Run {
    /// Emits the tool lists of servers that are new to the conversation.
    pub(super) fn emit_list_tools(&mut self) -> Result<(), RunError> {
        if !self.prepared.emits_tool_lists {
            return Ok(());
        }
        for server in self.prepared.servers.iter().filter(|server| server.is_new) {
            self.machine.emit_list_tools(server.label(), server.listed_tools(), self.sink.events())?;
        }
        Ok(())
    }

    /// Collects the tools again of the servers that have said that theirs have changed.
    pub(super) async fn refresh_changed_tools(&mut self) -> Result<(), RunError> {
        let mut servers = std::mem::take(&mut self.prepared.servers);
        for server in servers.iter_mut().filter(|server| server.has_changed()) {
            if self.until_cancelled(server.refresh()).await? && self.prepared.emits_tool_lists {
                self.machine.emit_list_tools(server.label(), server.listed_tools(), self.sink.events())?;
            }
        }
        self.prepared.servers = servers;
        self.prepared.refresh_tools(&self.parts)?;
        let offer = &self.prepared.offer;
        self.call_filter.replace_tools(offer.choice.allowed.clone(), offer.tools.clone());
        // The places of the tools have changed, too.
        if self.prepared.model_request.tool_choice != CallChoice::None {
            self.prepared.model_request_mut().tool_choice = offer.choice.later_turn_choice();
        }
        Ok(())
    }

    /// Makes the approved calls before the model is asked, as if it had just called them.
    ///
    /// Ends the response if a tool or its credentials have changed, so that the user is asked again.
    pub(super) async fn run_approved(&mut self) -> Result<Option<Termination>, RunError> {
        let approved = std::mem::take(&mut self.prepared.approved);
        let (outdated, current): (Vec<_>, Vec<_>) = approved.iter().partition(|allowed| allowed.is_outdated);
        let calls = self.replay_approved_calls(&current)?;
        self.check_limits(&calls)?;
        // Approvals are consumed all at once and right before the calls, so that a consumed approval is one whose
        // call is made.
        self.claim_approved(&approved).await?;
        if !calls.is_empty() {
            self.state.next = NextInference::First;
            let have_failed = self.dispatch(&calls).await?;
            self.count_failed_turn(have_failed)?;
        }
        let output = self.machine.close_turn(self.sink.events())?;
        self.check_size()?;
        self.append_history(output);
        self.state.next = NextInference::Later;
        if !outdated.is_empty() {
            self.request_approval_again(&outdated)?;
            return Ok(Some(Termination::Completed));
        }
        self.flush().await?;
        Ok(None)
    }

    /// Consumes the approvals, and tries again while the database is away if the run is one that outlasts that.
    async fn claim_approved(&mut self, approved: &[ApprovedCall]) -> Result<(), RunError> {
        let until = Instant::now() + OUTAGE_TIMEOUT;
        loop {
            match approvals::claim(&self.parts, &self.prepared.owner, approved).await {
                Err(error)
                    if error.kind == ErrorKind::Unavailable && self.can_wait && Instant::now() < until =>
                {
                    self.until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await?;
                }
                claimed => return Ok(claimed?),
            }
        }
    }

    /// Emits approved calls as if the model had made them.
    fn replay_approved_calls(&mut self, approved: &[&ApprovedCall]) -> Result<Vec<ServerCall>, Violation> {
        let kind = CallKind::Server(self.prepared.presentation);
        for (slot, allowed) in (0_u32..).zip(approved) {
            self.machine.note_approval(slot, allowed.request_id());
            let (name, namespace) = (allowed.call.name.clone(), allowed.call.namespace.clone());
            let delta = allowed.call.arguments.clone();
            let out = self.sink.events();
            let begun = ModelEvent::CallStarted { slot, kind, call_id: None, name, namespace, fields: None };
            self.machine.push(begun, out)?;
            self.machine.push(ModelEvent::CallDelta { slot, delta }, out)?;
        }
        Ok(self.machine.end_turn(true, self.sink.events())?.server_calls)
    }

    /// Fails calls whose tool or credentials have changed since they were approved, which shows that the approval is
    /// consumed, and asks for approval again.
    fn request_approval_again(&mut self, outdated: &[&ApprovedCall]) -> Result<(), Violation> {
        for call in self.replay_approved_calls(outdated)? {
            let result = CallResult {
                output:
                    "the tool or its credentials have changed since the approval was requested; approval is \
                         requested again"
                        .to_owned(),
                error: Some(ToolErrorCode::AccessDenied.as_str().into()),
                ..CallResult::default()
            };
            self.machine.finish_call(call.slot, result, self.sink.events())?;
        }
        self.machine.close_turn(self.sink.events())?;
        for allowed in outdated {
            self.machine.request_approval(allowed.call.clone(), self.sink.events())?;
        }
        Ok(())
    }
}
