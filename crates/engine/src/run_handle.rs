//! The reader's end of a run.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::event_sink::{EventBatch, RunOutput};
use antwort_protocol::error::ApiError;
use antwort_protocol::event::EventEncoder;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::response::ResponseSnapshot;

/// A run that was started. Dropping the handle tells the run that its reader is gone: with `OnDisconnect::Cancel` it is cancelled, else it
/// goes on.
pub struct RunHandle {
    /// The response's id.
    pub id: Id,
    /// How its events are encoded.
    pub encoding: EventEncoder,
    /// Request fields that were ignored, where the configuration says so.
    pub ignored: Vec<String>,
    /// Types of tools that are not supported and were left out.
    pub omitted_tools: Vec<&'static str>,
    /// Of a compaction: the messages that are kept beside its summary.
    pub retained: Vec<Item>,
    pub(super) events: mpsc::Receiver<RunOutput>,
}

impl RunHandle {
    /// The first events, or the error with which the request is answered.
    pub async fn first(&mut self) -> Result<EventBatch, ApiError> {
        match self.events.recv().await {
            Some(RunOutput::Batch(batch)) => Ok(*batch),
            Some(RunOutput::Rejected(error)) => Err(*error),
            None => Err(ApiError::internal()),
        }
    }

    /// The next events; `None` after the terminal event.
    pub async fn next(&mut self) -> Option<EventBatch> {
        match self.events.recv().await {
            Some(RunOutput::Batch(batch)) => Some(*batch),
            Some(RunOutput::Rejected(_)) | None => None,
        }
    }

    /// The response at the end of the run, or the error with which the request is answered.
    pub async fn response(&mut self) -> Result<Arc<ResponseSnapshot>, ApiError> {
        while let Some(output) = self.events.recv().await {
            match output {
                RunOutput::Batch(batch) => {
                    if let Some(response) = batch.terminal {
                        return Ok(response);
                    }
                }
                RunOutput::Rejected(error) => return Err(*error),
            }
        }
        tracing::error!(response_id = %self.id, "run ended without a terminal event");
        Err(ApiError::internal())
    }
}
