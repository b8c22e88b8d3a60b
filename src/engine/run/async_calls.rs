//! Calls whose work goes on: what their results lead to is written before the run goes on.

use super::live::{Run, RunError};
use crate::config::OnComplete;
use crate::engine::background::follow_up;
use crate::protocol::error::ApiError;
use crate::response::machine::ServerCall;
use crate::store::{AsyncCallKey, StartedCall};

impl Run {
    /// Writes that the work of a call goes on.
    pub(super) async fn start_async(
        &self,
        made: &ServerCall,
        (turn, index): (u32, u32),
    ) -> Result<(), RunError> {
        let Some(item) = self.machine.server_call_item(made.slot) else { return Ok(()) };
        let binding = self.prepared.offer.binding(made.call.namespace.as_deref(), &made.call.name);
        let of_tool = binding.and_then(|binding| binding.tool.on_complete());
        let of_agent =
            || self.parts.agents.get(self.prepared.agent.as_deref()?).and_then(|agent| agent.on_complete);
        let on_complete = of_tool.or_else(of_agent).unwrap_or_default();
        let spec = match (on_complete, &self.caller) {
            (OnComplete::FollowUp, Some(caller)) => follow_up::spec(&self.parts.seal, &self.prepared, caller),
            _ => None,
        };
        let key = AsyncCallKey {
            owner: self.prepared.owner.clone(),
            response: self.prepared.response.id.clone(),
            turn,
            index,
        };
        let call = StartedCall {
            key,
            item: item.clone(),
            tool: made.call.name.clone(),
            on_complete: on_complete.as_str(),
            spec,
            timeout: self.parts.options.tools.callback_timeout,
        };
        self.parts.store.start_async(call).await.map_err(ApiError::from)?;
        Ok(())
    }
}
