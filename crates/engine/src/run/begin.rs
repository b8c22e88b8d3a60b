//! Begins a run that its client may come back for: its row is written, with its key and its first events, before the model
//! is asked.

use std::sync::Arc;

use super::live::Run;
use super::logged::Logged;
use super::saved::save;
use crate::event_log::EventLogger;
use crate::record;
use antwort_protocol::error::ApiError;
use antwort_store::{Lease, LoggedRun};

impl Run {
    /// Writes the row of such a run. Returns the run if it is to go on.
    pub(super) async fn begin_logged(mut self: Box<Self>) -> Option<Box<Self>> {
        let (key, answer) = match self.logged.take() {
            Some(Logged::Wanted { key, answer }) => (key, answer),
            logged => {
                self.logged = logged;
                return Some(self);
            }
        };
        // Whoever finds the row finds the run.
        let live = Arc::new(self.parts.in_flight.live().register(&self.prepared.response.id));
        self.state.is_recorded = true;
        let (encoder, events) = self.sink.buffered().unzip();
        let next = events.as_ref().map_or(0, |events| events.last + 1);
        let run = LoggedRun {
            key,
            record: record::running(&self.prepared, self.machine.response()),
            state: save(&self.parts.seal, &self.prepared, &self.state, &self.machine, None),
            events,
        };
        let begun = self.parts.store.begin_logged(run).await.map_err(ApiError::from);
        let goes_on = matches!(begun, Ok(None));
        if goes_on {
            if let Some(encoder) = encoder {
                let max_bytes = self.parts.options.engine.max_response_bytes;
                let (store, live) = (Arc::clone(&self.parts.store), Arc::clone(&live));
                let lease = Lease::first(self.prepared.response.id.clone());
                self.sink.start_log(EventLogger::start(store, live, encoder, lease, next, max_bytes));
            }
            self.logged = Some(Logged::Begun(live));
        }
        match (answer, begun) {
            // If its client has gone meanwhile, the run goes on all the same.
            (Some(answer), begun) => _ = answer.send(begun),
            (None, Err(error)) => {
                self.sink.reject(error).await;
                return None;
            }
            (None, Ok(_)) => {}
        }
        goes_on.then_some(self)
    }
}
