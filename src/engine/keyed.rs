//! Creates with an idempotency key: the first starts a run, the same again lead to its response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::context::{EngineParts, RunContext};
use super::live_runs::{RunEnding, RunProgress};
use super::run::Keyed;
use super::run_handle::RunHandle;
use super::{Engine, apply_store_policy};
use crate::config::StorePolicy;
use crate::identity::Owner;
use crate::protocol::error::{ApiError, ErrorKind};
use crate::protocol::id::Id;
use crate::protocol::request::CreateResponse;
use crate::store::{IdempotencyKey, KeyedResponse, LogPage, StoreError};

/// The header, as errors name it.
const PARAM: &str = "idempotency-key";
/// How long a response whose run does not go on in this process is waited for: the recovery ends it soon.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile.
const RECOVERY_POLL: Duration = Duration::from_millis(200);

/// What a create with a key has led to.
pub(crate) enum KeyedStart {
    /// A new run.
    Started(RunHandle),
    /// The response of an earlier one.
    Known(Box<KnownResponse>),
}

/// A response that a key has led to before.
pub(crate) struct KnownResponse {
    pub id: Id,
    parts: Arc<EngineParts>,
    owner: Owner,
    key: IdempotencyKey,
    is_running: bool,
    /// Its run, if it goes on in this process.
    live: Option<watch::Receiver<RunProgress>>,
    /// The sequence number of the next event to be sent.
    next: u64,
    is_at_end: bool,
}

/// The next events of a response that is followed.
pub(crate) enum NextEvents {
    /// Events as they were sent.
    Bytes(Vec<u8>),
    /// There are more bytes than allowed in one piece: so many.
    TooLarge(u64),
    /// The terminal event was the last.
    End,
}

impl Engine {
    /// Starts a run with this key, or finds what the key has led to.
    pub(crate) async fn start_keyed(
        self: &Arc<Self>,
        mut request: CreateResponse,
        caller: RunContext,
        key: IdempotencyKey,
    ) -> Result<KeyedStart, ApiError> {
        let started = Instant::now();
        check_policy(caller.store)?;
        apply_store_policy(caller.store, &mut request)?;
        if !request.store {
            return Err(ApiError::unsupported(
                PARAM,
                "A response with an Idempotency-Key is stored: leave the header out, or send 'store': true.",
            ));
        }
        let owner = caller.owner.clone();
        if let Some(found) = self.find_keyed(&owner, &key).await? {
            return self.known(owner, key, found);
        }
        let (answer, answered) = oneshot::channel();
        let wanted = Keyed::Wanted(key.clone(), answer);
        let run = match self.launch(request, caller, started, Some(wanted)).await {
            Ok(run) => run,
            // Another request with this key may have been first, and have used up what this one needs.
            Err(error) => match self.find_keyed(&owner, &key).await? {
                Some(found) => return self.known(owner, key, found),
                None => return Err(error),
            },
        };
        match answered.await.map_err(|_| ApiError::internal())?? {
            None => Ok(KeyedStart::Started(run)),
            Some(found) => self.known(owner, key, found),
        }
    }

    /// What the key has led to. A run that was withdrawn while it was looked up has left nothing.
    async fn find_keyed(
        &self,
        owner: &Owner,
        key: &IdempotencyKey,
    ) -> Result<Option<KeyedResponse>, StoreError> {
        let found = self.parts.store.keyed_response(owner, &key.key).await?;
        match found {
            Some(found) if found.is_running && self.parts.in_flight.live().get(&found.id).is_none() => {
                self.parts.store.keyed_response(owner, &key.key).await
            }
            found => Ok(found),
        }
    }

    fn known(&self, owner: Owner, key: IdempotencyKey, found: KeyedResponse) -> Result<KeyedStart, ApiError> {
        if found.fingerprint != key.fingerprint {
            return Err(key_reused());
        }
        let live = self.parts.in_flight.live().get(&found.id).filter(|_| found.is_running);
        let (id, is_running) = (found.id, found.is_running);
        let parts = Arc::clone(&self.parts);
        let known = KnownResponse { id, parts, owner, key, is_running, live, next: 0, is_at_end: false };
        Ok(KeyedStart::Known(Box::new(known)))
    }
}

impl KnownResponse {
    /// Whether its run went on when it was found.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Waits until the response is stored in its final state.
    pub(crate) async fn ended(&mut self) -> Result<(), ApiError> {
        if let Some(mut live) = self.live.take() {
            let ending = live.wait_for(|progress| progress.ending.is_some()).await;
            // An error: the run has ended without a word, and is ended by the recovery.
            if let Some(ending) = ending.ok().and_then(|progress| progress.ending.clone()) {
                self.is_running = false;
                return result(ending);
            }
        }
        let until = Instant::now() + RECOVERY_TIMEOUT;
        while self.is_running {
            let found = self.parts.store.keyed_response(&self.owner, &self.key.key).await?;
            match found.filter(|found| found.id == self.id) {
                None => return Err(deleted()),
                Some(found) => self.is_running = found.is_running,
            }
            if self.is_running {
                if Instant::now() >= until {
                    return Err(not_ended());
                }
                tokio::time::sleep(RECOVERY_POLL).await;
            }
        }
        Ok(())
    }

    /// The next events of its stream, at most so many bytes; waits for them while the run goes on. Nothing is lost if the
    /// future is dropped.
    pub(crate) async fn next_events(&mut self, max_bytes: u64) -> Result<NextEvents, ApiError> {
        if self.is_at_end {
            return Ok(NextEvents::End);
        }
        if self.live.is_some() {
            self.more_logged().await?;
        } else if self.is_running {
            // The recovery may cut the log and end it in another way.
            self.ended().await?;
        }
        let page = self.parts.store.logged_events(&self.owner, &self.id, self.next, max_bytes).await;
        match page {
            Ok(Some(LogPage { bytes, next, is_end, .. })) if !bytes.is_empty() => {
                (self.next, self.is_at_end) = (next, is_end);
                Ok(NextEvents::Bytes(bytes))
            }
            Ok(_) => Err(log_lost(&self.id)),
            Err(StoreError::TooLarge { bytes }) => Ok(NextEvents::TooLarge(bytes)),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the run has logged more, or has ended.
    async fn more_logged(&mut self) -> Result<(), ApiError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let next = self.next;
        let is_more = |progress: &RunProgress| progress.logged > next || progress.ending.is_some();
        let progress = live.wait_for(|progress| progress.is_log_lost || is_more(progress)).await;
        let Ok(progress) = progress.map(|progress| progress.clone()) else { return Err(log_lost(&self.id)) };
        match progress.ending {
            _ if progress.logged > next => Ok(()),
            Some(ending) => {
                (self.live, self.is_running) = (None, false);
                result(ending)
            }
            None => Err(log_lost(&self.id)),
        }
    }
}

fn result(ending: RunEnding) -> Result<(), ApiError> {
    match ending {
        RunEnding::Stored => Ok(()),
        RunEnding::NotStored => Err(ApiError::new(
            ErrorKind::Internal,
            "The response could not be stored in its final state. Send the request again with the same Idempotency-Key.",
        )
        .with_code("storage_error")),
        RunEnding::Refused(error) => Err(*error),
    }
}

/// A key whose responses are never stored can lead to none.
fn check_policy(policy: StorePolicy) -> Result<(), ApiError> {
    match policy {
        StorePolicy::Never => Err(ApiError::unsupported(
            PARAM,
            "A response with an Idempotency-Key is stored, and this API key stores none: leave the header out.",
        )),
        StorePolicy::Allow | StorePolicy::Refuse => Ok(()),
    }
}

fn key_reused() -> ApiError {
    let message = "This Idempotency-Key was used for another request. Send a new key with each new request, and the same \
                   body with the same key.";
    let error =
        ApiError::new(ErrorKind::Conflict, message).with_code("idempotency_key_reused").with_param(PARAM);
    ApiError { should_retry: Some(false), ..error }
}

fn log_lost(id: &Id) -> ApiError {
    let message = format!(
        "The events of response '{id}', which this Idempotency-Key has led to, are no longer kept. Read the response with \
         GET /v1/responses/{id}."
    );
    let error =
        ApiError::new(ErrorKind::Conflict, message).with_code("event_log_unavailable").with_param(PARAM);
    ApiError { should_retry: Some(false), ..error }
}

fn deleted() -> ApiError {
    ApiError::not_found(
        "The response that this Idempotency-Key has led to was deleted while it was waited for.",
    )
}

fn not_ended() -> ApiError {
    ApiError::new(
        ErrorKind::Unavailable,
        "The response that this Idempotency-Key has led to is still being ended. Try again shortly.",
    )
    .with_code("response_in_progress")
    .with_retry_after(Duration::from_secs(5))
}
