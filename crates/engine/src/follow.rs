//! Follows the stream of a response in its log: the events that are there, then those that come, from any event on.
//!
//! The log is the truth, in whichever process the run goes on. If it goes on in this one, `live_runs` says when there is
//! more; otherwise the bus does, and the log is looked at from time to time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::context::EngineParts;
use super::followed_page::FollowedPage;
use super::large_pages::{LargePage, LargePageError, ReservePage};
use super::live_runs::{RunEnding, RunProgress};
use super::log_tails::LogTail;
use antwort_bus::RunWatch;
use antwort_identity::Owner;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_store::{KeyUse, LogKept, StoreError};

/// The header of a key, as errors name it.
pub(super) const KEY_PARAM: &str = "idempotency-key";
/// The code of a create whose key has led to a response that was deleted.
pub const RESPONSE_DELETED: &str = "response_deleted";
/// How long is waited for events that were told of and cannot be read yet.
const POLL: Duration = Duration::from_millis(250);

/// A reader of the stream of a response.
pub struct Follower {
    /// The response's id.
    pub id: Id,
    pub(super) parts: Arc<EngineParts>,
    pub(super) owner: Owner,
    /// Its run, if it goes on in this process.
    pub(super) live: Option<watch::Receiver<RunProgress>>,
    asked: Asked,
    /// The sequence number of the next event to be sent.
    next: u64,
    /// Events from this number on are not those that were logged first.
    replaced_from: Option<u64>,
    is_at_end: bool,
    /// What other processes tell of the run.
    pub(super) watch: RunWatch,
    /// Whether it was told of more that was not there.
    was_woken: bool,
    /// What all its followers in this process share.
    tail: Arc<LogTail>,
}

/// How the stream is asked for, which decides the words of errors.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// By the idempotency key of the create.
    ByKey(Arc<str>),
    /// By the id of the response.
    ById,
}

/// What a read of the log has led to.
enum PageRead {
    Found(FollowedPage),
    /// There are no more events, or they are not kept.
    Nothing,
    /// The events were replaced by larger ones meanwhile.
    Changed,
}

/// [`Engine::follow`](crate::Engine::follow).
pub(crate) async fn follow(
    parts: &Arc<EngineParts>,
    owner: &Owner,
    id: Id,
    starting_after: Option<u64>,
) -> Result<Option<Follower>, ApiError> {
    // Before the log is looked at: a run that ends in between is found either way.
    let live = parts.in_flight.live().get(&id);
    let Some(found) = parts.store.log_state(owner, &id).await? else { return Ok(None) };
    let LogKept::Kept(extent) = found.log else {
        return Err(if found.log == LogKept::Never { not_logged(&id) } else { expired(&id) });
    };
    let next = starting_after.map_or(0, |last| last.saturating_add(1));
    if extent.replaced_from.is_some_and(|replaced| next > replaced) {
        return Err(replaced(&id));
    }
    let mut follower = Follower::new(Arc::clone(parts), owner.clone(), id, Asked::ById);
    follower.live = live.filter(|_| found.is_running);
    (follower.next, follower.replaced_from) = (next, extent.replaced_from);
    Ok(Some(follower))
}

impl Follower {
    /// The number of the next event.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A follower from the first event on.
    pub(super) fn new(parts: Arc<EngineParts>, owner: Owner, id: Id, asked: Asked) -> Self {
        let watch = parts.in_flight.bus().watch_run(&id);
        let tail = parts.in_flight.log_tails().of(&owner, &id);
        Self {
            id,
            parts,
            owner,
            live: None,
            asked,
            next: 0,
            replaced_from: None,
            is_at_end: false,
            watch,
            was_woken: false,
            tail,
        }
    }

    /// The next events of its stream, as they were sent, in pieces of about so many bytes; `None` behind the terminal event.
    /// Waits for them while the run goes on. A larger event is reserved by `reserve`. Nothing is lost if the future is dropped.
    pub async fn next_events(
        &mut self,
        max_bytes: u64,
        reserve: &ReservePage,
    ) -> Result<Option<Bytes>, ApiError> {
        while !self.is_at_end {
            self.wait_for_more().await?;
            match self.next_page(max_bytes, reserve).await? {
                PageRead::Found(page) => {
                    self.check_replaced(&page)?;
                    if page.bytes.is_empty() || self.is_left(&page) {
                        self.wait_for_signal().await;
                        // A background run may have begun in this process.
                        self.live = self.live.take().or_else(|| self.parts.in_flight.live().get(&self.id));
                        continue;
                    }
                    let known = self.next.saturating_sub(page.first);
                    (self.next, self.is_at_end, self.was_woken) = (page.next, page.is_end, false);
                    return Ok(Some(behind(page.bytes, known)));
                }
                PageRead::Nothing => self.check_end().await?,
                PageRead::Changed => {}
            }
        }
        Ok(None)
    }

    /// The page with the next event.
    async fn next_page(&self, max_bytes: u64, reserve: &ReservePage) -> Result<PageRead, ApiError> {
        let read = |max_bytes| {
            let (store, owner) = (Arc::clone(&self.parts.store), self.owner.clone());
            let (id, next) = (self.id.clone(), self.next);
            async move { store.logged_events(&owner, &id, next, max_bytes).await }
        };
        let is_final = |page: &FollowedPage| !self.is_left(page);
        let found = match self.tail.page(self.next, self.replaced_from, is_final, read(max_bytes)).await {
            Err(StoreError::TooLarge { bytes }) => {
                let page = LargePage { next: self.next, replaced_from: self.replaced_from, bytes };
                match self.tail.large_pages().get(page, is_final, reserve, || read(bytes)).await {
                    Err(LargePageError::Store(StoreError::TooLarge { .. })) => return Ok(PageRead::Changed),
                    Err(LargePageError::Store(error)) => return Err(error.into()),
                    Err(LargePageError::Refused(error)) => return Err(*error),
                    Ok(found) => found,
                }
            }
            found => found?,
        };
        Ok(found.map_or(PageRead::Nothing, PageRead::Found))
    }

    /// Waits until another process tells of more, or it is time to look.
    async fn wait_for_signal(&mut self) {
        let told = self.watch.advanced_beyond(self.next);
        let interval = self.parts.in_flight.bus().poll_interval();
        let is_woken = tokio::time::timeout(interval, told).await.is_ok();
        if is_woken && self.was_woken {
            // What it tells of cannot be read yet.
            tokio::time::sleep(POLL).await;
        }
        self.was_woken = is_woken;
    }

    /// Waits until the run, if it goes on in this process, has logged more or has ended.
    async fn wait_for_more(&mut self) -> Result<(), ApiError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        let next = self.next;
        let is_more = |progress: &RunProgress| progress.logged > next || progress.ending.is_some();
        let progress = live.wait_for(|progress| progress.is_log_lost || is_more(progress)).await;
        let Ok(progress) = progress.map(|progress| progress.clone()) else {
            // It has ended without a word; another process will end its response.
            self.live = None;
            return Ok(());
        };
        match progress.ending {
            _ if progress.logged > next => Ok(()),
            // It is made again, or the recovery ends it: what comes is read from the log.
            Some(RunEnding::NotStored) if matches!(self.asked, Asked::ById) => {
                self.live = None;
                Ok(())
            }
            Some(ending) => {
                self.live = None;
                result(ending)
            }
            None => Err(self.lost()),
        }
    }

    /// Whether the run is one of this process that has ended without its end being stored: the recovery will end it, and may
    /// replace the events that were logged last.
    fn is_left(&self, page: &FollowedPage) -> bool {
        page.is_own_run && self.live.is_none() && self.parts.in_flight.live().get(&self.id).is_none()
    }

    /// What was sent before must be what the events to come follow on.
    fn check_replaced(&mut self, page: &FollowedPage) -> Result<(), ApiError> {
        if self.was_replaced(page.replaced_from) {
            return Err(self.lost());
        }
        self.replaced_from = page.replaced_from;
        Ok(())
    }

    fn was_replaced(&self, from: Option<u64>) -> bool {
        from != self.replaced_from && from.is_some_and(|from| from < self.next)
    }

    /// The run goes on no more, and there are no more events: all were sent, or they are not kept.
    async fn check_end(&mut self) -> Result<(), ApiError> {
        let Some(found) = self.parts.store.log_state(&self.owner, &self.id).await? else {
            return Err(self.gone().await);
        };
        match found.log {
            LogKept::Kept(extent) if extent.next <= self.next && !self.was_replaced(extent.replaced_from) => {
                self.is_at_end = true;
                Ok(())
            }
            // The row is that of the failure which it was withdrawn for.
            LogKept::Never if self.is_withdrawn().await => Err(self.gone().await),
            // Events between could not be logged, or were replaced.
            LogKept::Kept(_) | LogKept::Gone | LogKept::Never => Err(self.lost()),
        }
    }

    /// Whether the key by which it is followed leads to it no more.
    async fn is_withdrawn(&self) -> bool {
        let Asked::ByKey(key) = &self.asked else { return false };
        let found = self.parts.store.keyed_response(&self.owner, key).await;
        found.is_ok_and(|found| found.is_none_or(|found| found.id != self.id))
    }

    fn lost(&self) -> ApiError {
        match self.asked {
            Asked::ById => expired(&self.id),
            Asked::ByKey(_) => lost_of_key(&self.id),
        }
    }

    /// Why there is no such response any more. That of a key was deleted, or was withdrawn by the process that has made it.
    pub async fn gone(&self) -> ApiError {
        let Asked::ByKey(key) = &self.asked else {
            return deleted_meanwhile(&self.id);
        };
        match self.parts.store.key_use(&self.owner, key).await {
            Ok(Some(KeyUse::Deleted { .. })) => response_deleted(),
            Ok(_) => withdrawn(),
            Err(error) => error.into(),
        }
    }
}

/// What those who wait for a run in this process get at its end, if not its response.
pub(super) fn result(ending: RunEnding) -> Result<(), ApiError> {
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

/// An encoded event ends with an empty line, and has no other.
const END_OF_EVENT: &[u8] = b"\n\n";

/// What is behind the first `count` of these events.
fn behind(mut events: Bytes, count: u64) -> Bytes {
    for _ in 0..count {
        let Some(end) = memchr::memmem::find(&events, END_OF_EVENT) else { return Bytes::new() };
        events = events.slice(end + END_OF_EVENT.len()..);
    }
    events
}

fn not_logged(id: &Id) -> ApiError {
    ApiError::unsupported(
        "stream",
        format!(
            "Response '{id}' cannot be streamed: its events were not kept. Events are kept of background responses, of streams \
             with an Idempotency-Key, and of those that go on when their client disconnects. Read it without 'stream'."
        ),
    )
}

fn expired(id: &Id) -> ApiError {
    let message = format!(
        "The events of response '{id}' are no longer kept. Read the response with GET /v1/responses/{id}, without 'stream'."
    );
    ApiError::new(ErrorKind::Gone, message).with_code("stream_expired").with_param("stream")
}

/// The client may have seen events that are not in the log any more.
fn replaced(id: &Id) -> ApiError {
    let message = format!(
        "The stream of response '{id}' cannot be resumed there: the gateway was stopped, and the last events have others in \
         their place. Read it without 'starting_after'."
    );
    ApiError::new(ErrorKind::Gone, message).with_code("stream_expired").with_param("starting_after")
}

/// A response was deleted while its client waited for it.
pub fn deleted_meanwhile(id: &Id) -> ApiError {
    let message = format!("Response '{id}' was deleted while it was followed.");
    let error = ApiError::new(ErrorKind::Gone, message).with_code(RESPONSE_DELETED);
    ApiError { should_retry: Some(false), ..error }
}

/// The response that a key has led to was deleted: it is not made again.
pub(super) fn response_deleted() -> ApiError {
    let message =
        "The response that this Idempotency-Key has led to was deleted. To make it anew, send a new key.";
    let error = ApiError::new(ErrorKind::Gone, message).with_code(RESPONSE_DELETED).with_param(KEY_PARAM);
    ApiError { should_retry: Some(false), ..error }
}

/// The run was refused, and nothing of it is kept. Why, only the process knows that has made it.
fn withdrawn() -> ApiError {
    ApiError::new(
        ErrorKind::Conflict,
        "The request with this Idempotency-Key that this one has waited for was refused. Send it again: it is a new attempt.",
    )
    .with_code("idempotency_key_released")
    .with_param(KEY_PARAM)
}

fn lost_of_key(id: &Id) -> ApiError {
    let message = format!(
        "The events of response '{id}', which this Idempotency-Key has led to, are no longer kept. Read the response with \
         GET /v1/responses/{id}."
    );
    let error =
        ApiError::new(ErrorKind::Conflict, message).with_code("event_log_unavailable").with_param(KEY_PARAM);
    ApiError { should_retry: Some(false), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_behind_an_event_that_was_logged_together_with_others() {
        let events = b"event: a\ndata: {\"t\":\"\\n\\n\"}\n\nevent: b\ndata: {}\n\nevent: c\ndata: {}\n\n";
        let rest = |count| String::from_utf8(behind(Bytes::from_static(events), count).to_vec()).unwrap();
        assert_eq!(rest(0).as_bytes(), events);
        assert_eq!(rest(1), "event: b\ndata: {}\n\nevent: c\ndata: {}\n\n");
        assert_eq!(rest(2), "event: c\ndata: {}\n\n");
        assert_eq!((rest(3), rest(4)), (String::new(), String::new()));
    }
}
