//! Creates with an idempotency key: the first starts a run, the same again lead to its response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::context::RunContext;
use super::disconnect::refuse_cancel;
use super::follow::{self, Asked, Follower, KEY_PARAM as PARAM, response_deleted};
use super::run::Logged;
use super::run_handle::RunHandle;
use crate::context::EngineParts;
use crate::start;
use antwort_config::StorePolicy;
use antwort_identity::Owner;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::request::CreateResponse;
use antwort_store::{IdempotencyKey, KeyUse, StoreError};

/// How long a response is waited for whose run does not go on in this process, behind the longest that a run takes: another
/// process executes it, or has died, and the recovery ends it soon.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is looked at meanwhile, at least.
const MAX_POLL: Duration = Duration::from_secs(1);
/// How long is waited for an end that was told of and cannot be read yet.
const RECOVERY_POLL: Duration = Duration::from_millis(200);

/// What a create that may have a key has led to.
pub enum Keyed<T> {
    /// What it has made.
    New(T),
    /// The response of an earlier one with the same key.
    Known(Box<KnownResponse>),
}

/// A response that a key has led to before.
pub struct KnownResponse {
    /// Reads its stream from the beginning.
    pub follower: Follower,
    key: Arc<str>,
    is_running: bool,
}

/// [`Engine::start_keyed`](crate::Engine::start_keyed).
pub(crate) async fn start_keyed(
    parts: &Arc<EngineParts>,
    mut request: Box<CreateResponse>,
    caller: RunContext,
    key: IdempotencyKey,
) -> Result<Keyed<RunHandle>, ApiError> {
    let started = Instant::now();
    check_policy(caller.store)?;
    start::apply_store_policy(caller.store, &mut request)?;
    if !request.store {
        return Err(ApiError::unsupported(
            PARAM,
            "A response with an Idempotency-Key is stored: leave the header out, or send 'store': true.",
        ));
    }
    refuse_cancel(
        &request,
        "A response with an Idempotency-Key goes on when its client disconnects, as the client may send the request again: \
         leave 'on_disconnect': 'cancel' out, or the header.",
    )?;
    let owner = caller.owner.clone();
    if let Some(found) = find_keyed(parts, &owner, &key).await? {
        return known(parts, owner, key, found);
    }
    let (answer, answered) = oneshot::channel();
    let wanted = Logged::Wanted { key: Some(key.clone()), answer: Some(answer) };
    let run = match start::launch(parts, request, caller, started, Some(wanted)).await {
        Ok(run) => run,
        // Another request with this key may have been first, and have used up what this one needs.
        Err(error) => match find_keyed(parts, &owner, &key).await? {
            Some(found) => return known(parts, owner, key, found),
            None => return Err(error),
        },
    };
    match answered.await.map_err(|_| ApiError::internal())?? {
        None => Ok(Keyed::New(run)),
        Some(found) => known(parts, owner, key, found),
    }
}

/// What the key has led to. A run that was withdrawn while it was looked up has left nothing.
pub(super) async fn find_keyed(
    parts: &Arc<EngineParts>,
    owner: &Owner,
    key: &IdempotencyKey,
) -> Result<Option<KeyUse>, StoreError> {
    let found = parts.store.key_use(owner, &key.key).await?;
    match found {
        Some(KeyUse::Response(found))
            if found.is_running && parts.in_flight.live().get(&found.id).is_none() =>
        {
            parts.store.key_use(owner, &key.key).await
        }
        found => Ok(found),
    }
}

/// The response that the key has led to, if the request is the same.
pub(super) fn known<T>(
    parts: &Arc<EngineParts>,
    owner: Owner,
    key: IdempotencyKey,
    found: KeyUse,
) -> Result<Keyed<T>, ApiError> {
    if *found.fingerprint() != key.fingerprint {
        return Err(key_reused());
    }
    let found = found.response().ok_or_else(response_deleted)?;
    let live = parts.in_flight.live().get(&found.id).filter(|_| found.is_running);
    let asked = Asked::ByKey(Arc::clone(&key.key));
    let mut follower = Follower::new(Arc::clone(parts), owner, found.id, asked);
    follower.live = live;
    let known = KnownResponse { follower, key: key.key, is_running: found.is_running };
    Ok(Keyed::Known(Box::new(known)))
}

impl KnownResponse {
    /// Whether its run went on when it was found.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// Waits until the response is stored in its final state.
    pub async fn ended(&mut self) -> Result<(), ApiError> {
        let Follower { live, parts, owner, id, watch, .. } = &mut self.follower;
        if let Some(mut live) = live.take() {
            let ending = live.wait_for(|progress| progress.ending.is_some()).await;
            // An error: the run has ended without a word, and is ended by the recovery.
            if let Some(ending) = ending.ok().and_then(|progress| progress.ending.clone()) {
                self.is_running = false;
                return follow::result(ending);
            }
        }
        let until = Instant::now() + parts.options.engine.run_timeout + RECOVERY_TIMEOUT;
        let mut is_told = false;
        while self.is_running {
            let found = parts.store.keyed_response(owner, &self.key).await?;
            match found.filter(|found| found.id == *id) {
                None => return Err(self.follower.gone().await),
                Some(found) => self.is_running = found.is_running,
            }
            if self.is_running {
                if Instant::now() >= until {
                    return Err(not_ended());
                }
                if is_told {
                    tokio::time::sleep(RECOVERY_POLL).await;
                } else {
                    let poll = parts.in_flight.bus().poll_interval().min(MAX_POLL);
                    is_told = tokio::time::timeout(poll, watch.ended()).await.is_ok();
                }
            }
        }
        Ok(())
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

fn not_ended() -> ApiError {
    ApiError::new(
        ErrorKind::Unavailable,
        "The response that this Idempotency-Key has led to is still being ended. Try again shortly.",
    )
    .with_code("response_in_progress")
    .with_retry_after(Duration::from_secs(5))
}
