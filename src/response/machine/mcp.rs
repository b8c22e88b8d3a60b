//! What is written of MCP servers beside calls: the lists of their tools, and calls that a person has to allow.

use super::{CallStart, Events, OpenItem, ResponseMachine, Violation, size};
use crate::protocol::event::{HostedProgress, HostedStage, ResponseEvent};
use crate::protocol::id::Id;
use crate::protocol::item::hosted::{McpApprovalRequest, McpListTools, McpListedTool};
use crate::protocol::item::{Item, ItemStatus};
use crate::response::json_scanner::JsonCompleteness;
use crate::response::turn::{Presentation, ProviderFields, ToolCallRequest};

/// A call that is not made before a person has allowed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// Of its `mcp_approval_request`.
    pub id: Id,
    /// What would be called, with what.
    pub call: ToolCallRequest,
}

/// A call while its arguments come, of a kind whose item says from its beginning what is called with what: it has
/// none before they are whole.
#[derive(Debug)]
pub(super) struct BufferedCall {
    pub(super) slot: u32,
    pub(super) presentation: Presentation,
    pub(super) call: ToolCallRequest,
    pub(super) fields: Option<Box<ProviderFields>>,
    completeness: JsonCompleteness,
}

impl BufferedCall {
    /// Whether calls of this kind are such.
    pub(super) fn is_one(surface: Presentation) -> bool {
        matches!(surface, Presentation::Approval | Presentation::WebSearch)
    }

    /// Whether it has all its arguments, as far as one can tell from them.
    pub(super) fn is_complete(&mut self) -> bool {
        self.completeness.is_complete(&self.call.arguments)
    }
}

impl ResponseMachine {
    /// Shows the tools of a server, or why they could not be listed. Between turns only.
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
        let shown = tools.iter().map(size::of_listed).sum::<usize>();
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
        // It is no part of the model's turn.
        self.turn.first = self.response().output.len();
        Ok(())
    }

    /// Asks a person for a call whose arguments are whole.
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
        };
        let output_index = self.add_item(Item::McpApprovalRequest(item), out)?;
        self.approval_requests.push(ApprovalRequest { id, call });
        self.finish_item(output_index, out, |_| {})?;
        Ok(output_index)
    }

    /// The calls that persons were asked for so far.
    pub fn approval_requests(&self) -> &[ApprovalRequest] {
        &self.approval_requests
    }

    /// Says by which request a call of this turn was allowed, before the call is begun.
    pub fn note_approval(&mut self, slot: u32, approval_request_id: String) {
        self.turn.approved.push((slot, approval_request_id));
    }

    pub(super) fn approval_of(&self, slot: u32) -> Option<String> {
        self.turn.approved.iter().find(|(other, _)| *other == slot).map(|(_, id)| id.clone())
    }

    pub(super) fn open_buffered_call(
        &mut self,
        CallStart { slot, call, fields, .. }: CallStart,
        surface: Presentation,
        out: &mut Events,
    ) -> Result<(), Violation> {
        self.close(ItemStatus::Completed, out)?;
        self.item_bytes = 0;
        self.open = OpenItem::Buffered(BufferedCall {
            slot,
            presentation: surface,
            call,
            fields,
            completeness: JsonCompleteness::default(),
        });
        Ok(())
    }

    /// Shows the call whose arguments have come: as a question, or as a call that waits for its result.
    pub(super) fn emit_buffered_call(
        &mut self,
        unseen: BufferedCall,
        out: &mut Events,
    ) -> Result<(), Violation> {
        let BufferedCall { slot, presentation: surface, mut call, fields, .. } = unseen;
        if call.arguments.trim().is_empty() {
            call.arguments = "{}".to_owned();
        }
        if surface == Presentation::Approval {
            self.turn.closed_slots.push(slot);
            let id = self.ids.next("mcpr");
            self.flush_state_before_call(slot, id.as_str(), fields, out)?;
            let output_index = self.write_approval_request(id, call, out)?;
            self.place_call(slot, output_index);
            return Ok(());
        }
        self.open_server_call(CallStart { slot, call_id: None, call, fields }, surface, out)?;
        self.finish_server_arguments(out)
    }

    /// Gives up a call that was cut off: as if it had not been wished, unless it is known what was.
    pub(super) fn abort_buffered_call(
        &mut self,
        mut unseen: BufferedCall,
        out: &mut Events,
    ) -> Result<(), Violation> {
        if unseen.presentation == Presentation::Approval || !unseen.is_complete() {
            self.turn.closed_slots.push(unseen.slot);
            return Ok(());
        }
        self.emit_buffered_call(unseen, out)?;
        self.close(ItemStatus::Incomplete, out)
    }
}
