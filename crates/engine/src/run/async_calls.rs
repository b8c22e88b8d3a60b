//! Calls whose work goes on: what their results lead to is written before the run goes on, and a run may wait for them at its
//! end.

use super::live::{Run, RunError};
use super::state::{AddedMessage, StartedWork};
use super::trace::WaitKind;
use crate::background::follow_up;
use crate::completion_text::{TIMED_OUT, announcement};
use crate::context::unix_after;
use crate::task_polls;
use crate::tool_executor::TurnCalls;
use antwort_config::OnComplete;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_response::machine::{ServerCall, Termination, Turn};
use antwort_store::{AsyncCallKey, OrphanedCall, PolledTask, StartedCall, async_call_id};
use antwort_tools::StartedTask;

impl Run {
    /// Writes that the work of a call goes on.
    pub(super) async fn start_async(
        &mut self,
        made: &ServerCall,
        (turn, index): (u32, u32),
        started: Option<&StartedTask>,
    ) -> Result<(), RunError> {
        let Some(item) = self.machine.server_call_item(made.slot).cloned() else { return Ok(()) };
        let on_complete = self.on_complete(made);
        if on_complete == OnComplete::Resume {
            self.state.started.push(StartedWork {
                turn,
                index,
                tool: made.call.name.clone(),
                item: item.to_string(),
                expires_at: unix_after(self.parts.options.tools.callback_timeout),
            });
        }
        if on_complete == OnComplete::FollowUp {
            self.state.trace.note_followed(index);
        }
        let call = self.started_call((turn, index), item, made.call.name.clone(), on_complete);
        let task = self.task_of(made, started);
        let after = task.as_ref().map(|task| task.after);
        self.parts.store.start_async(StartedCall { task, ..call }).await.map_err(ApiError::from)?;
        if let Some(after) = after {
            self.parts.in_flight.task_deadlines().add(after);
        }
        Ok(())
    }

    /// Where the result of a call is looked for that goes on as a task.
    fn task_of(&self, made: &ServerCall, started: Option<&StartedTask>) -> Option<PolledTask> {
        let (started, caller) = (started?, self.caller.as_ref()?);
        let ticket = task_polls::ticket(&self.parts, &self.prepared, caller, started);
        if ticket.is_none() {
            tracing::warn!(tool = made.call.name, "nobody can look for the result of a task");
        }
        ticket
    }

    fn started_call(
        &self,
        (turn, index): (u32, u32),
        item: Id,
        tool: String,
        on_complete: OnComplete,
    ) -> StartedCall {
        let spec = match (on_complete, &self.caller) {
            (OnComplete::FollowUp, Some(caller)) => {
                let seal = || follow_up::spec(&self.parts.seal, &self.prepared, caller);
                self.follow_up_spec.get_or_init(seal).clone()
            }
            _ => None,
        };
        let (owner, response) = (self.prepared.owner.clone(), self.prepared.response.id.clone());
        StartedCall {
            key: AsyncCallKey { owner, response, turn, index },
            item,
            tool,
            on_complete: on_complete.as_str(),
            spec,
            timeout: self.parts.options.tools.callback_timeout,
            task: None,
        }
    }

    /// What the result of a call leads to: a run that cannot wait is followed.
    fn on_complete(&self, made: &ServerCall) -> OnComplete {
        let binding = self.prepared.offer.binding(made.call.namespace.as_deref(), &made.call.name);
        let of_tool = binding.and_then(|binding| binding.tool.on_complete());
        let of_agent =
            || self.parts.agents.get(self.prepared.agent.as_deref()?).and_then(|agent| agent.on_complete);
        match of_tool.or_else(of_agent).unwrap_or_default() {
            OnComplete::Resume if self.can_wait => OnComplete::Resume,
            // What is not stored is continued by nothing.
            _ if self.prepared.is_unlisted => OnComplete::Store,
            OnComplete::Resume => OnComplete::FollowUp,
            on_complete => on_complete,
        }
    }

    /// Waits for the results of calls before the run ends, if there are any to come and the model may be asked again.
    pub(super) async fn before_end(
        &mut self,
        turn: &Turn,
        ending: Option<Termination>,
    ) -> Result<Option<Termination>, RunError> {
        let is_done = matches!(ending, Some(Termination::Completed));
        if self.state.started.is_empty() || !is_done || !self.may_ask_again(turn) {
            return Ok(ending);
        }
        self.machine.close_turn(self.sink.events())?;
        self.check_size()?;
        self.flush().await?;
        self.sink.settle_log().await;
        self.state.note_active(self.started);
        self.state.has_exceeded_calls = self.call_filter.limit_exceeded();
        self.state.awaits_results = true;
        self.state.trace.begin_wait(WaitKind::Callback);
        let started = self.state.started.clone();
        let calls = TurnCalls::Started(&started);
        self.executor.commit(&self.prepared, &self.machine, &mut self.state, calls, &self.parts.seal).await?;
        Err(RunError::Waits)
    }

    /// Whether the limits leave room for another inference behind this turn.
    fn may_ask_again(&mut self, turn: &Turn) -> bool {
        self.state.turns() < self.prepared.limits.run.max_turns
            && self.consume_token_budget(turn).is_ok()
            && self.prepared.limits.reached_by(&self.machine.usage()).is_none()
            && self.check_deadline().is_ok()
    }

    /// The results of calls that the run has not waited for are followed.
    pub(super) async fn follow_started(&mut self) -> Result<(), RunError> {
        for work in std::mem::take(&mut self.state.started) {
            self.state.trace.note_followed_item(&work.item);
            let call = self.started_call(
                (work.turn, work.index),
                Id::from(work.item),
                work.tool,
                OnComplete::FollowUp,
            );
            self.parts.store.start_async(call).await.map_err(ApiError::from)?;
        }
        Ok(())
    }

    /// Tells the model of the results that the run has waited for, or waits on if one is missing and not late.
    pub(super) fn take_results(&mut self, asked: &[OrphanedCall]) -> Result<(), RunError> {
        let mut texts = Vec::new();
        for work in &self.state.started {
            let call_id = async_call_id(work.turn, work.index);
            let is_of =
                |call: &&OrphanedCall| call.input.as_ref().is_some_and(|input| input.call_id == call_id);
            let found = asked.iter().rev().find(is_of);
            let outcome = found.and_then(|call| call.outcome.as_ref());
            let is_open = found.and_then(|call| call.input.as_ref()?.left).is_some();
            let (text, error) = match outcome {
                Some((text, error)) => (text.as_str(), error.as_deref()),
                None if is_open => return Err(RunError::Waits),
                None => (TIMED_OUT.0, Some(TIMED_OUT.1)),
            };
            let max = self.parts.options.tools.results.max_bytes;
            texts.push(announcement(&work.tool, &work.item, text, error, max));
        }
        let output = self.machine.close_turn(self.sink.events())?;
        self.append_history(output);
        self.state.started.clear();
        self.state.awaits_results = false;
        let place = self.machine.response().output.len();
        let added: Vec<_> = texts.into_iter().map(|text| AddedMessage { place, text }).collect();
        self.add_messages(added);
        Ok(())
    }
}
