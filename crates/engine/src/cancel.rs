//! Cancels runs at the wish of their owner, in whichever process they go on.
//!
//! The wish is a mark on the run in the store. The process that makes the run looks for marks once a second; if it is this
//! one, it is told at once. What ends the run is the run itself, so that its partial output is stored as with any other end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::InFlight;
use crate::background::work;
use crate::context::EngineParts;
use antwort_identity::Owner;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_response::machine::Termination;
use antwort_store::{CancelRequest, OrphanedRun, Requeue, Store, StoreError};

/// How often a process looks which of its runs are to end.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked whether a cancelled run has ended: at first, and later.
const FIRST_POLL: Duration = Duration::from_millis(10);
const LAST_POLL: Duration = Duration::from_millis(250);
/// How long its end is waited for. A run whose process is gone has ended by then, too.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What comes of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The response was running, and is stored in its final state.
    Ended,
    /// It had ended before.
    TooLate,
    /// There is no such response, or none any more.
    NotFound,
}

/// [`Engine::cancel`](crate::Engine::cancel).
pub(crate) async fn cancel(parts: &Arc<EngineParts>, owner: &Owner, id: &Id) -> Result<Cancelled, ApiError> {
    let (store, bus) = (&parts.store, parts.in_flight.bus());
    let mut watch = bus.watch_run(id);
    match store.request_cancel(owner, id).await? {
        CancelRequest::NotFound => return Ok(Cancelled::NotFound),
        CancelRequest::Ended => return Ok(Cancelled::TooLate),
        CancelRequest::Requested => {
            parts.in_flight.stops().cancel([id.clone()]);
            bus.cancel_requested();
        }
    }
    if end_waiting(parts, owner, id).await? {
        return Ok(Cancelled::Ended);
    }
    let (until, mut poll, mut is_told) = (Instant::now() + TIMEOUT, FIRST_POLL, false);
    while Instant::now() < until {
        match is_told {
            true => tokio::time::sleep(poll).await,
            false => is_told = tokio::time::timeout(poll, watch.ended()).await.is_ok(),
        }
        poll = (poll * 2).min(LAST_POLL);
        match store.log_state(owner, id).await? {
            Some(found) if !found.is_running => return Ok(Cancelled::Ended),
            Some(_) => {}
            // It had no row yet, or was refused or deleted meanwhile.
            None => match store.request_cancel(owner, id).await? {
                CancelRequest::NotFound => return Ok(Cancelled::NotFound),
                CancelRequest::Ended => return Ok(Cancelled::Ended),
                CancelRequest::Requested => {}
            },
        }
    }
    let message = "The response is still being ended. Try again shortly.";
    Err(ApiError::new(ErrorKind::Unavailable, message)
        .with_code("response_in_progress")
        .with_retry_after(Duration::from_secs(5)))
}

/// Ends a background run that nobody makes yet. Returns whether it was such a run.
async fn end_waiting(parts: &Arc<EngineParts>, owner: &Owner, id: &Id) -> Result<bool, ApiError> {
    let (parts, owner, id) = (Arc::clone(parts), owner.clone(), id.clone());
    let counted = parts.in_flight.count_job();
    #[expect(
        clippy::disallowed_methods,
        reason = "a run that was claimed is ended, even if its client disconnects; a shutdown waits for it"
    )]
    let ending = tokio::spawn(async move {
        let _counted = counted;
        match parts.store.claim_job(&owner, &id).await? {
            Some(waiting) => {
                let _held = parts.in_flight.claims().hold(&waiting.run.lease);
                cancel_waiting(&parts, waiting.run).await?;
                parts.in_flight.bus().run_ended(&id);
                Ok::<_, StoreError>(true)
            }
            None => Ok(false),
        }
    });
    Ok(ending.await.map_err(|_| ApiError::internal())??)
}

/// Ends a background run that nobody had claimed. If that is not possible now, a worker does it.
async fn cancel_waiting(parts: &EngineParts, run: OrphanedRun) -> Result<(), StoreError> {
    let ended = work::end_job(parts, &run, Termination::Cancelled).await;
    if ended.is_err() {
        parts.store.requeue(run.lease, Requeue { delay: Duration::ZERO, counts: false }).await?;
    }
    ended
}

/// Ends the runs of this process that are to be cancelled, until `closing`.
pub async fn watch_cancellations(
    store: Arc<dyn Store>,
    in_flight: Arc<InFlight>,
    closing: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            // Whoever sent it, the mark in the store is what counts.
            () = in_flight.bus().cancellation() => {}
            () = closing.cancelled() => return,
        }
        if in_flight.is_empty() {
            continue;
        }
        match store.cancelled_runs().await {
            Ok(ids) => in_flight.stops().cancel(ids),
            Err(error) => tracing::warn!(%error, "store: looking for cancelled responses failed"),
        }
    }
}
