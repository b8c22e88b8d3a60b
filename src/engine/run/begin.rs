//! Begins a run that has an idempotency key: its row is written with the key before the model is asked.

use std::sync::Arc;

use super::key::Keyed;
use super::live::Run;
use super::saved::save;
use crate::engine::event_log::EventLogger;
use crate::engine::record;
use crate::protocol::error::ApiError;
use crate::store::{KeyedRun, Lease};

impl Run {
    /// Writes the row of a run that has a key. Returns whether the run is to go on.
    pub(super) async fn begin_keyed(&mut self) -> bool {
        let (key, answer) = match self.keyed.take() {
            Some(Keyed::Wanted(key, answer)) => (key, answer),
            keyed => {
                self.keyed = keyed;
                return true;
            }
        };
        // Whoever finds the key finds the run.
        let live = Arc::new(self.parts.in_flight.live().register(&self.prepared.response.id));
        self.state.is_recorded = true;
        let (encoder, events) = self.sink.buffered().unzip();
        let next = events.as_ref().map_or(0, |events| events.last + 1);
        let run = KeyedRun {
            key,
            record: record::running(&self.prepared, self.machine.response()),
            state: save(&self.parts.seal, &self.prepared, &self.state, &self.machine, None),
            events,
        };
        let begun = self.parts.store.begin_keyed(run).await.map_err(ApiError::from);
        let goes_on = matches!(begun, Ok(None));
        if goes_on {
            if let Some(encoder) = encoder {
                let max_bytes = self.parts.options.engine.max_response_bytes;
                let (store, live) = (Arc::clone(&self.parts.store), Arc::clone(&live));
                let lease = Lease::first(self.prepared.response.id.clone());
                self.sink.start_log(EventLogger::start(store, live, encoder, lease, next, max_bytes));
            }
            self.keyed = Some(Keyed::Taken(live));
        }
        // If its client has gone meanwhile, the run goes on all the same.
        let _gone = answer.send(begun);
        goes_on
    }
}
