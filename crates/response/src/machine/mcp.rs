//! Writes items of MCP servers other than calls: lists of tools, and approval requests.

use serde::{Deserialize, Serialize};

use super::{CallStart, Events, OpenItem, ResponseMachine, Violation, size};
use crate::json_scanner::JsonCompleteness;
use crate::presentation::Presentation;
use crate::turn::{ProviderFields, ToolCallRequest};
use antwort_protocol::event::{HostedProgress, HostedStage, ResponseEvent};
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::{McpApprovalRequest, McpListTools, McpListedTool};
use antwort_protocol::item::{Item, ItemStatus};

/// An approval request, with the call that it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The id of its `mcp_approval_request` item.
    pub id: Id,
    /// The call.
    pub call: ToolCallRequest,
}

/// A call whose item is written when its arguments are complete, as the item names the call from its beginning.
#[derive(Debug)]
pub(super) struct BufferedCall {
    pub(super) slot: u32,
    pub(super) presentation: Presentation,
    pub(super) call_id: Option<String>,
    pub(super) call: ToolCallRequest,
    pub(super) fields: Option<Box<ProviderFields>>,
    completeness: JsonCompleteness,
}

impl BufferedCall {
    /// Whether the arguments are complete JSON.
    pub(super) fn is_complete(&mut self) -> bool {
        self.completeness.is_complete(&self.call.arguments)
    }
}

impl ResponseMachine {
    /// Writes the list of a server's tools, or why they could not be listed. Between turns only.
    pub fn emit_list_tools(
        &mut self,
        server_label: &str,
        listed: Result<Vec<McpListedTool>, String>,
        out: &mut Events,
    ) -> Result<(), Violation> {
        self.close(ItemStatus::Completed, out)?;
        let id = self.ids.next("mcpl");
        let empty = McpListTools {
            id: id.clone(),
            server_label: server_label.to_owned(),
            tools: Vec::new(),
            error: None,
        };
        let output_index = self.add_item(Item::McpListTools(empty), out)?;
        let (tools, error) = match listed {
            Ok(tools) => (tools, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let shown = tools.iter().map(size::listed_tool_size).sum::<usize>();
        self.count(shown + error.as_ref().map_or(0, String::len));
        let ended = if error.is_none() { HostedStage::McpListCompleted } else { HostedStage::McpListFailed };
        if self.options.server_steps {
            for stage in [HostedStage::McpListInProgress, ended] {
                let progress = HostedProgress { stage, item_id: id.clone(), output_index };
                self.emit(ResponseEvent::Hosted(progress), out)?;
            }
        }
        self.finish_item(output_index, out, |item| {
            if let Item::McpListTools(list) = item {
                (list.tools, list.error) = (tools, error);
            }
        })?;
        // The list is not part of the model's turn.
        self.turn.first = self.response().output.len();
        Ok(())
    }

    /// Requests approval of a call whose arguments are complete.
    pub fn request_approval(&mut self, call: ToolCallRequest, out: &mut Events) -> Result<(), Violation> {
        let id = self.ids.next("mcpr");
        self.bytes += call.name.len() + call.arguments.len();
        self.write_approval_request(id, call, out).map(drop)
    }

    fn write_approval_request(
        &mut self,
        id: Id,
        call: ToolCallRequest,
        out: &mut Events,
    ) -> Result<u32, Violation> {
        let item = McpApprovalRequest {
            id: id.clone(),
            server_label: call.namespace.clone().unwrap_or_default(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            is_abandoned: false,
        };
        let output_index = self.add_item(Item::McpApprovalRequest(item), out)?;
        self.approval_requests.push(ApprovalRequest { id, call });
        self.finish_item(output_index, out, |_| {})?;
        Ok(output_index)
    }

    /// The approval requests so far.
    pub fn approval_requests(&self) -> &[ApprovalRequest] {
        &self.approval_requests
    }

    /// Notes the approval request of a call of this turn, before the call is begun.
    pub fn note_approval(&mut self, slot: u32, approval_request_id: String) {
        self.turn.approved.push((slot, approval_request_id));
    }

    pub(super) fn approval_of(&self, slot: u32) -> Option<String> {
        self.turn.approved.iter().find(|(other, _)| *other == slot).map(|(_, id)| id.clone())
    }

    pub(super) fn open_buffered_call(
        &mut self,
        CallStart { slot, call_id, call, fields }: CallStart,
        presentation: Presentation,
        out: &mut Events,
    ) -> Result<(), Violation> {
        self.close(ItemStatus::Completed, out)?;
        self.item_bytes = 0;
        self.open = OpenItem::Buffered(BufferedCall {
            slot,
            presentation,
            call_id,
            call,
            fields,
            completeness: JsonCompleteness::default(),
        });
        Ok(())
    }

    /// Writes the item of a call whose arguments have come: an approval request, or a call that waits for its result.
    pub(super) fn emit_buffered_call(
        &mut self,
        buffered: BufferedCall,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let BufferedCall { slot, presentation, call_id, mut call, fields, .. } = buffered;
        if call.arguments.trim().is_empty() {
            call.arguments = "{}".to_owned();
        }
        if presentation == Presentation::Approval {
            self.turn.closed_slots.push(slot);
            let id = self.ids.next("mcpr");
            self.flush_state_before_call(slot, id.as_str(), (call_id, fields), out)?;
            let output_index = self.write_approval_request(id, call, out)?;
            self.place_call(slot, output_index);
            return Ok(());
        }
        self.open_server_call(CallStart { slot, call_id, call, fields }, presentation, out)?;
        self.finish_server_arguments(out)
    }

    /// Drops a call that was cut off, unless its arguments are known: it was never asked for.
    pub(super) fn abort_buffered_call(
        &mut self,
        mut buffered: BufferedCall,
        out: &mut Events,
    ) -> Result<(), Violation> {
        if buffered.presentation == Presentation::Approval || !buffered.is_complete() {
            self.turn.closed_slots.push(buffered.slot);
            return Ok(());
        }
        self.emit_buffered_call(buffered, out)?;
        self.close(ItemStatus::Incomplete, out)
    }
}
