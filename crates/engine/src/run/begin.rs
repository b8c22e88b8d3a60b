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

/// Writes the row of such a run. Returns the run if it is to go on.
pub(super) async fn begin_logged(mut run: Box<Run>) -> Option<Box<Run>> {
    let (key, answer) = match run.attached.logged.take() {
        Some(Logged::Wanted { key, answer }) => (key, answer),
        logged => {
            run.attached.logged = logged;
            return Some(run);
        }
    };
    // Whoever finds the row finds the run.
    let live = Arc::new(run.parts.in_flight.live().register(&run.spec.response.id));
    run.state.committed.is_recorded = true;
    let (encoder, events) = run.sink.buffered().unzip();
    let next = events.as_ref().map_or(0, |events| events.last + 1);
    let record = LoggedRun {
        key,
        record: record::running(&run.spec, run.machine.response()),
        state: save(&run.parts.seal, &run.spec, &run.state, &run.machine, None),
        events,
    };
    let begun = run.parts.store.begin_logged(record).await.map_err(ApiError::from);
    let goes_on = matches!(begun, Ok(None));
    if goes_on {
        if let Some(encoder) = encoder {
            let max_bytes = run.parts.options.engine.max_response_bytes;
            let (store, live) = (Arc::clone(&run.parts.store), Arc::clone(&live));
            let lease = Lease::first(run.spec.response.id.clone());
            run.sink.start_log(EventLogger::start(store, live, encoder, lease, next, max_bytes));
        }
        run.attached.logged = Some(Logged::Begun(live));
    }
    match (answer, begun) {
        // If its client has gone meanwhile, the run goes on all the same.
        (Some(answer), begun) => _ = answer.send(begun),
        (None, Err(error)) => {
            run.sink.reject(error).await;
            return None;
        }
        (None, Ok(_)) => {}
    }
    goes_on.then_some(run)
}
