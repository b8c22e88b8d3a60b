//! A response in its final state whose terminal event is not emitted yet: it is committed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ApprovalRequest, Events};
use antwort_protocol::error::ErrorBody;
use antwort_protocol::event::{ResponseEvent, StreamEvent};
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::response::{ResponseSnapshot, ResponseStatus};

/// A response in its final state, see [`ResponseMachine::close_response`](super::ResponseMachine::close_response).
#[derive(Debug)]
pub struct ClosedResponse {
    /// The response with its JSON.
    pub snapshot: Arc<ResponseSnapshot>,
    /// Sealed state of reasoning items, by place in the output.
    pub sealed: BTreeMap<u32, String>,
    /// Items that the model sees in place of those that clients see, by place in the output.
    pub history: BTreeMap<u32, Item>,
    /// Places of items that the model does not see: they are of turns that were abandoned.
    pub abandoned: BTreeSet<u32>,
    /// The approval requests of the response.
    pub approval_requests: Vec<ApprovalRequest>,
    /// Items of calls that were closed without a result, in their order.
    pub aborted_calls: Vec<Id>,
    /// The sequence number of the next event.
    pub(super) sequence: u64,
}

impl ClosedResponse {
    /// Makes the response a failed one, as it could not be stored. A failed one keeps its own error.
    #[must_use]
    pub fn into_failed(self, error: ErrorBody) -> Self {
        if self.snapshot.response.status == ResponseStatus::Failed {
            return self;
        }
        let mut response = self.snapshot.response.clone();
        response.status = ResponseStatus::Failed;
        response.completed_at = None;
        response.incomplete_details = None;
        response.error = Some(error);
        Self { snapshot: Arc::new(ResponseSnapshot::new(response)), ..self }
    }

    /// Emits the terminal event; before `response.failed` comes the event `error`, if it `announces_errors`.
    pub fn emit_terminal_event(&self, announces_errors: bool, out: &mut Events) {
        let response = Arc::clone(&self.snapshot);
        let mut sequence_number = self.sequence;
        let event = match self.snapshot.response.status {
            ResponseStatus::Completed | ResponseStatus::RequiresAction => {
                ResponseEvent::Completed { response }
            }
            ResponseStatus::Failed => {
                if announces_errors && let Some(error) = self.snapshot.response.error.clone() {
                    out.push(StreamEvent { sequence_number, event: ResponseEvent::Error { error } });
                    sequence_number += 1;
                }
                ResponseEvent::Failed { response }
            }
            _ => ResponseEvent::Incomplete { response },
        };
        out.push(StreamEvent { sequence_number, event });
    }
}
