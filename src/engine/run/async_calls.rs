//! Calls whose work goes on: what their results lead to is written before the run goes on, and a run may wait for them at its
//! end.

use super::live::{Run, RunError};
use super::state::StartedWork;
use crate::config::OnComplete;
use crate::engine::background::follow_up;
use crate::engine::completion_text::{TIMED_OUT, announcement};
use crate::engine::tool_executor::TurnCalls;
use crate::protocol::error::ApiError;
use crate::protocol::item::{Item, Message};
use crate::response::machine::{ServerCall, Termination};
use crate::response::turn::HistoryItem;
use crate::store::{AsyncCallKey, OrphanedCall, StartedCall, async_call_id};

impl Run {
    /// Writes that the work of a call goes on.
    pub(super) async fn start_async(
        &mut self,
        made: &ServerCall,
        (turn, index): (u32, u32),
    ) -> Result<(), RunError> {
        let Some(item) = self.machine.server_call_item(made.slot).cloned() else { return Ok(()) };
        let on_complete = self.on_complete(made);
        let spec = match (on_complete, &self.caller) {
            (OnComplete::FollowUp, Some(caller)) => follow_up::spec(&self.parts.seal, &self.prepared, caller),
            _ => None,
        };
        if on_complete == OnComplete::Resume {
            let (tool, item) = (made.call.name.clone(), item.to_string());
            self.state.started.push(StartedWork { turn, index, tool, item });
        }
        let key = AsyncCallKey {
            owner: self.prepared.owner.clone(),
            response: self.prepared.response.id.clone(),
            turn,
            index,
        };
        let call = StartedCall {
            key,
            item,
            tool: made.call.name.clone(),
            on_complete: on_complete.as_str(),
            spec,
            timeout: self.parts.options.tools.callback_timeout,
        };
        self.parts.store.start_async(call).await.map_err(ApiError::from)?;
        Ok(())
    }

    /// What the result of a call leads to: a run that cannot wait is followed.
    fn on_complete(&self, made: &ServerCall) -> OnComplete {
        let binding = self.prepared.offer.binding(made.call.namespace.as_deref(), &made.call.name);
        let of_tool = binding.and_then(|binding| binding.tool.on_complete());
        let of_agent =
            || self.parts.agents.get(self.prepared.agent.as_deref()?).and_then(|agent| agent.on_complete);
        match of_tool.or_else(of_agent).unwrap_or_default() {
            OnComplete::Resume if !self.prepared.can_wait => OnComplete::FollowUp,
            on_complete => on_complete,
        }
    }

    /// Waits for the results of calls before the run ends, if there are any to come.
    pub(super) async fn before_end(&mut self, ending: Termination) -> Result<Termination, RunError> {
        if self.state.started.is_empty() || !matches!(ending, Termination::Completed) {
            return Ok(ending);
        }
        // The answer so far is part of the conversation that goes on.
        let output = self.machine.close_turn(self.sink.events())?;
        self.append_history(output, Vec::new());
        self.flush().await?;
        self.sink.settle_log().await;
        self.state.note_active(self.started);
        self.state.awaits_results = true;
        let started = self.state.started.clone();
        let calls = TurnCalls::Started(&started, self.parts.options.tools.callback_timeout);
        self.executor.commit(&self.prepared, &self.machine, &mut self.state, calls, &self.parts.seal).await?;
        Err(RunError::Waits)
    }

    /// Tells the model of results that were told before this process took the run over.
    pub(super) fn repeat_results(&mut self) {
        let texts = self.state.results.clone();
        self.tell(texts);
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
        self.state.started.clear();
        self.state.awaits_results = false;
        self.state.results.extend(texts.iter().cloned());
        self.tell(texts);
        Ok(())
    }

    fn tell(&mut self, texts: Vec<String>) {
        let conversation = &mut self.prepared.model_request_mut().conversation;
        for text in texts {
            let message = Item::Message(Message::user(text));
            conversation.push(HistoryItem::from(message));
        }
    }
}
