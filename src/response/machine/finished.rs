//! A response that has ended, and what is kept of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AskedCall, Events};
use crate::protocol::error::ErrorBody;
use crate::protocol::event::{Event, StreamEvent};
use crate::protocol::item::Item;
use crate::protocol::response::{Snapshot, Status};

/// A response that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The response with its JSON.
    pub snapshot: Arc<Snapshot>,
    /// By place in the output: sealed state of reasoning items, for the history.
    pub sealed: BTreeMap<u32, String>,
    /// By place in the output: what the model sees where clients see another item.
    pub history: BTreeMap<u32, Item>,
    /// Calls that persons were asked for.
    pub asked: Vec<AskedCall>,
}

impl Finished {
    /// Turns an ending that could not be kept into a failure: `out` still holds the terminal event.
    pub fn into_failed(self, error: ErrorBody, out: &mut Events) -> Self {
        let Some(terminal) = out.pop() else { return self };
        if matches!(terminal.event, Event::Failed { .. }) {
            out.push(terminal);
            return self;
        }
        let mut response = self.snapshot.response.clone();
        response.status = Status::Failed;
        response.completed_at = None;
        response.incomplete_details = None;
        response.error = Some(error.clone());
        let snapshot = Arc::new(Snapshot::new(response));
        let sequence_number = terminal.sequence_number;
        out.push(StreamEvent { sequence_number, event: Event::Error { error } });
        let event = Event::Failed { response: Arc::clone(&snapshot) };
        out.push(StreamEvent { sequence_number: sequence_number + 1, event });
        Self { snapshot, ..self }
    }
}
