//! Failure backoff for operations with one shared result, such as connecting or listing: consecutive failures block
//! further attempts for a growing time, and everybody who waited for an attempt shares its error.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::error::{FailureReason, McpError};
use antwort_util::backoff::exponential;

/// Number of failures before the first pause.
const IMMEDIATE_RETRIES: u32 = 2;
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Consecutive failures of one operation.
#[derive(Default)]
pub(super) struct FailureBackoff(Mutex<State>);

#[derive(Default)]
struct State {
    failures: u32,
    blocked_until: Option<Instant>,
    message: Option<FailureReason>,
    tries: u64,
}

impl FailureBackoff {
    /// Number of attempts so far. To be read before waiting for the lock of the operation.
    pub(super) fn tries(&self) -> u64 {
        self.state().tries
    }

    /// Why no attempt is to be made: the backoff has not elapsed, or another caller's attempt has failed since there were
    /// `tries` attempts, in which case the waiting caller shares that error.
    pub(super) fn blocking_error(&self, tries: u64) -> Option<McpError> {
        let state = self.state();
        let message = state.message.clone()?;
        let remaining = state.blocked_until.and_then(|until| until.checked_duration_since(Instant::now()));
        if let Some(remaining) = remaining.filter(|remaining| !remaining.is_zero()) {
            let seconds = remaining.as_secs() + 1;
            return Some(McpError::Connect(message.and(&format!("; next attempt in {seconds} s"))));
        }
        (state.tries != tries && state.failures > 0).then_some(McpError::Connect(message))
    }

    /// The last error, for operators, unless the operation has succeeded since.
    pub(super) fn last_error(&self) -> Option<String> {
        let state = self.state();
        state.message.as_ref().map(FailureReason::for_operators)
    }

    /// Records a success.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        *state = State { tries: state.tries + 1, ..State::default() };
    }

    /// Records a failure after `waited`. The pause is at least that long, since the next attempt would probably hang, too.
    pub(super) fn record(&self, error: &McpError, waited: Duration) {
        let mut state = self.state();
        state.tries += 1;
        state.failures = state.failures.saturating_add(1);
        state.message = Some(reason(error));
        let pause = backoff(state.failures).max(retry_after(error).unwrap_or_default());
        let pause = if waited < MIN_BACKOFF { pause } else { pause.max(waited) };
        state.blocked_until = (!pause.is_zero()).then(|| Instant::now() + pause.min(MAX_BACKOFF));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// The pause after so many failures: zero for the first ones, then doubling.
fn backoff(failures: u32) -> Duration {
    match failures.saturating_sub(IMMEDIATE_RETRIES) {
        0 => Duration::ZERO,
        doublings => exponential(MIN_BACKOFF, MAX_BACKOFF, doublings - 1),
    }
}

/// The server's `Retry-After`.
fn retry_after(error: &McpError) -> Option<Duration> {
    match error {
        McpError::Http { retry_after, .. } => *retry_after,
        _ => None,
    }
}

/// The error as a reason that can be embedded in another error.
fn reason(error: &McpError) -> FailureReason {
    match error {
        McpError::Connect(reason) => reason.clone(),
        // Shared with other callers, so without the server's own text, which may quote a call.
        other => FailureReason::new(other.for_log(), other.cause()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::TimeoutKind;
    use super::*;

    fn refused() -> McpError {
        McpError::Connect("nobody listens".into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_failures_are_free_and_then_pauses_double() {
        let backoff_state = FailureBackoff::default();
        for expected in [0, 0, 1, 2, 4, 8, 16, 30, 30] {
            backoff_state.record(&refused(), Duration::ZERO);
            let tries = backoff_state.tries();
            assert_eq!(backoff_state.blocking_error(tries).is_some(), expected > 0, "{expected}");
            tokio::time::advance(Duration::from_secs(expected)).await;
            assert!(backoff_state.blocking_error(tries).is_none(), "{expected}");
        }
        backoff_state.reset();
        assert!(
            backoff_state.last_error().is_none()
                && backoff_state.blocking_error(backoff_state.tries()).is_none()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_waited_shares_the_failure_and_who_comes_later_does_not() {
        let backoff_state = FailureBackoff::default();
        let before = backoff_state.tries();
        backoff_state.record(&refused(), Duration::ZERO);
        assert_eq!(
            backoff_state.blocking_error(before).unwrap().to_string(),
            "the server cannot be reached: nobody listens"
        );
        assert!(backoff_state.blocking_error(backoff_state.tries()).is_none());
        backoff_state.reset();
        assert!(backoff_state.blocking_error(before).is_none(), "it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn what_hung_or_asked_for_it_is_left_alone_at_once() {
        let backoff_state = FailureBackoff::default();
        backoff_state.record(
            &McpError::Timeout { after: Duration::from_secs(10), limit: TimeoutKind::List },
            Duration::from_secs(10),
        );
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(backoff_state.blocking_error(backoff_state.tries()).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(backoff_state.blocking_error(backoff_state.tries()).is_none());
        backoff_state.reset();
        let day = Some(Duration::from_hours(24));
        backoff_state.record(&McpError::Http { status: 429, retry_after: day }, Duration::ZERO);
        tokio::time::advance(Duration::from_secs(29)).await;
        assert!(backoff_state.blocking_error(backoff_state.tries()).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(backoff_state.blocking_error(backoff_state.tries()).is_none(), "nobody waits for a day");
    }
}
