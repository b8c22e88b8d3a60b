//! A response that has ended, with what is stored of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ApprovalRequest, Events};
use crate::protocol::error::ErrorBody;
use crate::protocol::event::{ResponseEvent, StreamEvent};
use crate::protocol::item::Item;
use crate::protocol::response::{ResponseSnapshot, ResponseStatus};

/// A response that has ended.
#[derive(Debug)]
pub struct FinishedResponse {
    /// The response with its JSON.
    pub snapshot: Arc<ResponseSnapshot>,
    /// Sealed state of reasoning items, by place in the output.
    pub sealed: BTreeMap<u32, String>,
    /// Items that the model sees in place of those that clients see, by place in the output.
    pub history: BTreeMap<u32, Item>,
    /// The approval requests of the response.
    pub approval_requests: Vec<ApprovalRequest>,
}

impl FinishedResponse {
    /// Turns a response whose end could not be stored into a failed one; `out` still holds the terminal event.
    pub fn into_failed(self, error: ErrorBody, out: &mut Events) -> Self {
        let Some(terminal) = out.pop() else { return self };
        if matches!(terminal.event, ResponseEvent::Failed { .. }) {
            out.push(terminal);
            return self;
        }
        let mut response = self.snapshot.response.clone();
        response.status = ResponseStatus::Failed;
        response.completed_at = None;
        response.incomplete_details = None;
        response.error = Some(error.clone());
        let snapshot = Arc::new(ResponseSnapshot::new(response));
        let sequence_number = terminal.sequence_number;
        out.push(StreamEvent { sequence_number, event: ResponseEvent::Error { error } });
        let event = ResponseEvent::Failed { response: Arc::clone(&snapshot) };
        out.push(StreamEvent { sequence_number: sequence_number + 1, event });
        Self { snapshot, ..self }
    }
}
