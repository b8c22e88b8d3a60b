//! What a server sends that nobody asked for: its own requests, notifications, stray bytes. Counted before the SDK
//! sees any of it, for the SDK spawns a task for each.
//!
//! Requests are given up on early, since each costs an answer. Notifications are dropped first, as a chatty server is
//! no hostile one; only a sustained flood ends the connection.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;

use super::rate::TokenBucket;

/// Requests of a server that may be open at the same time.
pub(super) const MAX_OPEN_REQUESTS: usize = 16;
/// Requests of a server at once, and a second.
const REQUEST_RATE: (u32, u32) = (256, 20);
/// Notifications at once, and a second; those beyond are dropped.
const NOTIFICATION_RATE: (u32, u32) = (1_000, 100);
/// Bytes of what was not asked for, a second; beyond this and a burst, notifications are dropped.
const BYTES_PER_SECOND: u32 = 1 << 20;
/// Bytes of it at once, if messages may not be longer.
const BYTES_AT_ONCE: u32 = 8 << 20;
/// Notifications at once, and a second, that are a flood.
const FLOOD_RATE: (u32, u32) = (20_000, 1_000);
/// By how much bytes have to exceed what is dropped to be a flood.
const FLOOD_BYTES_FACTOR: u32 = 8;

/// What is to become of something that was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FloodVerdict {
    /// It is dealt with.
    Accept,
    /// It is not looked at.
    Drop,
    /// The connection is given up, and why.
    GiveUp(&'static str),
}

/// The counts of one connection.
#[derive(Debug)]
pub(super) struct UnsolicitedLimiter(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// Requests that the SDK works on.
    open: HashSet<RequestId>,
    /// Answers on their way to the server.
    answering: usize,
    requests: TokenBucket,
    notices: TokenBucket,
    bytes: TokenBucket,
    flood: TokenBucket,
    flood_bytes: TokenBucket,
}

/// An answer on its way to the server.
pub(super) struct AnsweringGuard<'a>(&'a UnsolicitedLimiter);

impl UnsolicitedLimiter {
    /// Nothing yet, of a server whose messages may be so long.
    pub(super) fn new(max_message_bytes: usize) -> Self {
        let longest = u32::try_from(max_message_bytes).unwrap_or(u32::MAX);
        let at_once = longest.saturating_add(BYTES_PER_SECOND).max(BYTES_AT_ONCE);
        Self(Mutex::new(Counts {
            open: HashSet::new(),
            answering: 0,
            requests: TokenBucket::new(REQUEST_RATE.0, REQUEST_RATE.1),
            notices: TokenBucket::new(NOTIFICATION_RATE.0, NOTIFICATION_RATE.1),
            bytes: TokenBucket::new(at_once, BYTES_PER_SECOND),
            flood: TokenBucket::new(FLOOD_RATE.0, FLOOD_RATE.1),
            flood_bytes: TokenBucket::new(
                at_once.saturating_mul(FLOOD_BYTES_FACTOR),
                BYTES_PER_SECOND.saturating_mul(FLOOD_BYTES_FACTOR),
            ),
        }))
    }

    /// A request of the server. Whoever takes it sees to it that it is answered.
    pub(super) fn request(&self, id: RequestId, bytes: usize) -> FloodVerdict {
        let mut counts = self.counts();
        if counts.open.len() + counts.answering >= MAX_OPEN_REQUESTS {
            return FloodVerdict::GiveUp("more than 16 of its requests are open");
        }
        if !counts.requests.try_take(1) || !counts.flood_bytes.try_take(bytes) {
            return FloodVerdict::GiveUp("its requests come too fast");
        }
        // The answer to the first is the answer to both.
        if counts.open.insert(id) { FloodVerdict::Accept } else { FloodVerdict::Drop }
    }

    /// A message that is neither a request nor an answer to one.
    pub(super) fn notification(&self, bytes: usize) -> FloodVerdict {
        self.count(1, bytes)
    }

    /// Bytes that are no message at all.
    pub(super) fn stray_bytes(&self, bytes: usize) -> FloodVerdict {
        self.count(0, bytes)
    }

    /// The server withdraws a request; `false` if it is not open.
    pub(super) fn withdraw(&self, id: &RequestId) -> bool {
        self.counts().open.remove(id)
    }

    /// An answer is about to be sent. It is open until this is dropped.
    pub(super) fn answering(&self, id: Option<&RequestId>) -> AnsweringGuard<'_> {
        let mut counts = self.counts();
        id.map(|id| counts.open.remove(id));
        counts.answering += 1;
        AnsweringGuard(self)
    }

    fn count(&self, messages: u32, bytes: usize) -> FloodVerdict {
        let mut counts = self.counts();
        if !counts.flood.try_take(messages as usize) || !counts.flood_bytes.try_take(bytes) {
            return FloodVerdict::GiveUp("it sends too much that was not asked for");
        }
        match counts.notices.try_take(messages as usize) && counts.bytes.try_take(bytes) {
            true => FloodVerdict::Accept,
            false => FloodVerdict::Drop,
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AnsweringGuard<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.answering = counts.answering.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MIB: usize = 1 << 20;

    fn number(id: i64) -> RequestId {
        RequestId::Number(id)
    }

    #[tokio::test(start_paused = true)]
    async fn sixteen_requests_may_be_open_until_their_answers_have_left() {
        let unasked = UnsolicitedLimiter::new(MIB);
        for id in 0..16 {
            assert_eq!(unasked.request(number(id), 100), FloodVerdict::Accept);
        }
        assert!(matches!(unasked.request(number(16), 100), FloodVerdict::GiveUp(_)));
        let answering = unasked.answering(Some(&number(0)));
        assert!(
            matches!(unasked.request(number(17), 100), FloodVerdict::GiveUp(_)),
            "it is still on its way"
        );
        drop(answering);
        assert_eq!(unasked.request(number(1), 100), FloodVerdict::Drop, "one of this id is open");
        assert_eq!(unasked.request(number(18), 100), FloodVerdict::Accept);
        assert!(unasked.withdraw(&number(18)) && !unasked.withdraw(&number(18)));
        assert_eq!(unasked.request(number(19), 100), FloodVerdict::Accept);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_are_answered_at_once_still_have_a_rate() {
        let unasked = UnsolicitedLimiter::new(MIB);
        let ask = |id| {
            let verdict = unasked.request(number(id), 100);
            drop(unasked.answering(Some(&number(id))));
            verdict
        };
        assert_eq!((0..1000).filter(|id| ask(*id) == FloodVerdict::Accept).count(), 256);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..1000).filter(|id| ask(*id) == FloodVerdict::Accept).count(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_chatty_is_dropped_and_only_a_flood_ends_the_connection() {
        let unasked = UnsolicitedLimiter::new(MIB);
        let mut taken = 0;
        // Five times of what is dealt with, for a minute.
        for _ in 0..60 {
            for _ in 0..500 {
                match unasked.notification(200) {
                    FloodVerdict::Accept => taken += 1,
                    FloodVerdict::Drop => {}
                    FloodVerdict::GiveUp(why) => panic!("{why}"),
                }
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!((6_900..=7_100).contains(&taken), "{taken}");
        let flood = (0..100_000).position(|_| matches!(unasked.notification(200), FloodVerdict::GiveUp(_)));
        assert!(flood.is_some_and(|at| at <= 20_000), "{flood:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_count_however_few_messages_they_are() {
        let unasked = UnsolicitedLimiter::new(MIB);
        assert_eq!(unasked.notification(MIB), FloodVerdict::Accept);
        let flood = (0..1000).position(|_| matches!(unasked.stray_bytes(MIB), FloodVerdict::GiveUp(_)));
        assert_eq!(flood, Some(63));
        let large = UnsolicitedLimiter::new(64 * MIB);
        assert_eq!(large.notification(64 * MIB), FloodVerdict::Accept, "what may be sent can be taken");
    }
}
