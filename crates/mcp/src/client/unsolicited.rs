//! Rate limits for unsolicited messages of a server: its requests, notifications, stray bytes. Applied before the SDK
//! sees them, because the SDK spawns a task for each.
//!
//! Excess requests close the connection, since each costs a response. Excess notifications are dropped first, as a chatty
//! server need not be malicious; only a sustained flood closes the connection.

use std::collections::HashSet;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::RequestId;

use super::rate::TokenBucket;

/// Maximum number of open requests of a server.
pub(super) const MAX_OPEN_REQUESTS: usize = 16;
/// The same where users are asked, who take their time.
pub(super) const MAX_OPEN_QUESTIONS: usize = 256;
/// Burst and requests per second.
const REQUEST_RATE: (u32, u32) = (256, 20);
/// Burst and notifications per second; excess ones are dropped.
const NOTIFICATION_RATE: (u32, u32) = (1_000, 100);
/// Unsolicited bytes per second; beyond this and a burst, notifications are dropped.
const BYTES_PER_SECOND: u32 = 1 << 20;
/// Minimum burst of unsolicited bytes; the limit of messages may raise it.
const BYTES_AT_ONCE: u32 = 8 << 20;
/// Burst and notifications per second that count as a flood.
const FLOOD_RATE: (u32, u32) = (20_000, 1_000);
/// Factor over the byte limit at which bytes count as a flood.
const FLOOD_BYTES_FACTOR: u32 = 8;

/// The decision about an unsolicited message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FloodVerdict {
    /// Handle it.
    Accept,
    /// Ignore it.
    Drop,
    /// Close the connection, for this reason.
    GiveUp(&'static str),
}

/// The limits of one connection.
#[derive(Debug)]
pub(super) struct UnsolicitedLimiter(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// Requests that the SDK handles.
    open: HashSet<RequestId>,
    max_open: usize,
    /// Responses being sent.
    answering: usize,
    requests: TokenBucket,
    notices: TokenBucket,
    bytes: TokenBucket,
    flood: TokenBucket,
    flood_bytes: TokenBucket,
}

/// Guard of a response being sent.
pub(super) struct AnsweringGuard<'a>(&'a UnsolicitedLimiter);

impl UnsolicitedLimiter {
    /// Limits for a server with this limit of messages, which may ask users.
    pub(super) fn new(max_message_bytes: usize, asks_users: bool) -> Self {
        let max_bytes = u32::try_from(max_message_bytes).unwrap_or(u32::MAX);
        let burst = max_bytes.saturating_add(BYTES_PER_SECOND).max(BYTES_AT_ONCE);
        Self(Mutex::new(Counts {
            open: HashSet::new(),
            max_open: if asks_users { MAX_OPEN_QUESTIONS } else { MAX_OPEN_REQUESTS },
            answering: 0,
            requests: TokenBucket::new(REQUEST_RATE.0, REQUEST_RATE.1),
            notices: TokenBucket::new(NOTIFICATION_RATE.0, NOTIFICATION_RATE.1),
            bytes: TokenBucket::new(burst, BYTES_PER_SECOND),
            flood: TokenBucket::new(FLOOD_RATE.0, FLOOD_RATE.1),
            flood_bytes: TokenBucket::new(
                burst.saturating_mul(FLOOD_BYTES_FACTOR),
                BYTES_PER_SECOND.saturating_mul(FLOOD_BYTES_FACTOR),
            ),
        }))
    }

    /// A request of the server. The caller must have it answered.
    pub(super) fn request(&self, id: RequestId, bytes: usize) -> FloodVerdict {
        let mut counts = self.counts();
        if counts.open.len() + counts.answering >= counts.max_open {
            return FloodVerdict::GiveUp("too many open requests");
        }
        if !counts.requests.try_take(1) || !counts.flood_bytes.try_take(bytes) {
            return FloodVerdict::GiveUp("too many requests per second");
        }
        // A duplicate id is ignored: the response to the first answers both.
        if counts.open.insert(id) { FloodVerdict::Accept } else { FloodVerdict::Drop }
    }

    /// A message that is neither a request nor a response.
    pub(super) fn notification(&self, bytes: usize) -> FloodVerdict {
        self.count(1, bytes)
    }

    /// Bytes that belong to no message.
    pub(super) fn stray_bytes(&self, bytes: usize) -> FloodVerdict {
        self.count(0, bytes)
    }

    /// The server cancels a request; `false` if it is not open.
    pub(super) fn cancel(&self, id: &RequestId) -> bool {
        self.counts().open.remove(id)
    }

    /// A response is about to be sent. The request stays open until the guard is dropped.
    pub(super) fn answering(&self, id: Option<&RequestId>) -> AnsweringGuard<'_> {
        let mut counts = self.counts();
        id.map(|id| counts.open.remove(id));
        counts.answering += 1;
        AnsweringGuard(self)
    }

    fn count(&self, messages: u32, bytes: usize) -> FloodVerdict {
        let mut counts = self.counts();
        if !counts.flood.try_take(messages as usize) || !counts.flood_bytes.try_take(bytes) {
            return FloodVerdict::GiveUp("too many unsolicited messages or bytes");
        }
        match counts.notices.try_take(messages as usize) && counts.bytes.try_take(bytes) {
            true => FloodVerdict::Accept,
            false => FloodVerdict::Drop,
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock()
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
        let limiter = UnsolicitedLimiter::new(MIB, false);
        for id in 0..16 {
            assert_eq!(limiter.request(number(id), 100), FloodVerdict::Accept);
        }
        assert!(matches!(limiter.request(number(16), 100), FloodVerdict::GiveUp(_)));
        let answering = limiter.answering(Some(&number(0)));
        assert!(
            matches!(limiter.request(number(17), 100), FloodVerdict::GiveUp(_)),
            "it is still on its way"
        );
        drop(answering);
        assert_eq!(limiter.request(number(1), 100), FloodVerdict::Drop, "one of this id is open");
        assert_eq!(limiter.request(number(18), 100), FloodVerdict::Accept);
        assert!(limiter.cancel(&number(18)) && !limiter.cancel(&number(18)));
        assert_eq!(limiter.request(number(19), 100), FloodVerdict::Accept);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_are_answered_at_once_still_have_a_rate() {
        let limiter = UnsolicitedLimiter::new(MIB, false);
        let ask = |id| {
            let verdict = limiter.request(number(id), 100);
            drop(limiter.answering(Some(&number(id))));
            verdict
        };
        assert_eq!((0..1000).filter(|id| ask(*id) == FloodVerdict::Accept).count(), 256);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..1000).filter(|id| ask(*id) == FloodVerdict::Accept).count(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_chatty_is_dropped_and_only_a_flood_ends_the_connection() {
        let limiter = UnsolicitedLimiter::new(MIB, false);
        let mut taken = 0;
        // Five times the rate that is accepted, for a minute.
        for _ in 0..60 {
            for _ in 0..500 {
                match limiter.notification(200) {
                    FloodVerdict::Accept => taken += 1,
                    FloodVerdict::Drop => {}
                    FloodVerdict::GiveUp(why) => panic!("{why}"),
                }
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!((6_900..=7_100).contains(&taken), "{taken}");
        let flood = (0..100_000).position(|_| matches!(limiter.notification(200), FloodVerdict::GiveUp(_)));
        assert!(flood.is_some_and(|at| at <= 20_000), "{flood:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_count_however_few_messages_they_are() {
        let limiter = UnsolicitedLimiter::new(MIB, false);
        assert_eq!(limiter.notification(MIB), FloodVerdict::Accept);
        let flood = (0..1000).position(|_| matches!(limiter.stray_bytes(MIB), FloodVerdict::GiveUp(_)));
        assert_eq!(flood, Some(63));
        let large = UnsolicitedLimiter::new(64 * MIB, false);
        assert_eq!(large.notification(64 * MIB), FloodVerdict::Accept, "what may be sent can be taken");
    }
}
