//! What went wrong lately with something that is tried again and again, and for how long it is left alone.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::{FailureReason, McpError};

/// Failures after which it is still tried at once.
const IMMEDIATE_RETRIES: u32 = 2;
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Failures in a row.
#[derive(Default)]
pub(super) struct FailureBackoff(Mutex<State>);

#[derive(Default)]
struct State {
    failures: u32,
    until: Option<Instant>,
    message: Option<FailureReason>,
    tries: u64,
}

impl FailureBackoff {
    /// How often it was tried. To be asked before waiting for one's turn.
    pub(super) fn tries(&self) -> u64 {
        self.state().tries
    }

    /// Why it is not to be tried: it is left alone, or somebody tried and failed since there were `tries`. Who waited
    /// for that try shares what came of it.
    pub(super) fn blocking_error(&self, tries: u64) -> Option<McpError> {
        let state = self.state();
        let message = state.message.clone()?;
        let left = state.until.and_then(|until| until.checked_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            let seconds = left.as_secs() + 1;
            return Some(McpError::Connect(message.and(&format!("; it is tried again in {seconds} s"))));
        }
        (state.tries != tries && state.failures > 0).then_some(McpError::Connect(message))
    }

    /// What went wrong last, if it is not over.
    pub(super) fn last_error(&self) -> Option<String> {
        let state = self.state();
        state.message.as_ref().map(|reason| reason.message().to_owned())
    }

    /// It went well.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        *state = State { tries: state.tries + 1, ..State::default() };
    }

    /// It failed after so long. What took its time is left alone for as long: whoever asks would wait again.
    pub(super) fn record(&self, error: &McpError, waited: Duration) {
        let mut state = self.state();
        state.tries += 1;
        state.failures = state.failures.saturating_add(1);
        state.message = Some(reason(error));
        let pause = backoff(state.failures).max(retry_after(error).unwrap_or_default());
        let pause = if waited < MIN_BACKOFF { pause } else { pause.max(waited) };
        state.until = (!pause.is_zero()).then(|| Instant::now() + pause.min(MAX_BACKOFF));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Doubles with every failure, once there were a few.
fn backoff(failures: u32) -> Duration {
    match failures.saturating_sub(IMMEDIATE_RETRIES) {
        0 => Duration::ZERO,
        doublings => MIN_BACKOFF.saturating_mul(1 << (doublings - 1).min(8)),
    }
}

/// For how long the server wants to be left alone.
fn retry_after(error: &McpError) -> Option<Duration> {
    match error {
        McpError::Http { retry_after, .. } => *retry_after,
        _ => None,
    }
}

/// In words that can stand behind those of another error.
fn reason(error: &McpError) -> FailureReason {
    match error {
        McpError::Connect(reason) => reason.clone(),
        // Kept for others: not the server's words.
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
        let trouble = FailureBackoff::default();
        for expected in [0, 0, 1, 2, 4, 8, 16, 30, 30] {
            trouble.record(&refused(), Duration::ZERO);
            let tries = trouble.tries();
            assert_eq!(trouble.blocking_error(tries).is_some(), expected > 0, "{expected}");
            tokio::time::advance(Duration::from_secs(expected)).await;
            assert!(trouble.blocking_error(tries).is_none(), "{expected}");
        }
        trouble.reset();
        assert!(trouble.last_error().is_none() && trouble.blocking_error(trouble.tries()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waited_shares_the_failure_and_who_comes_later_does_not() {
        let trouble = FailureBackoff::default();
        let before = trouble.tries();
        trouble.record(&refused(), Duration::ZERO);
        assert_eq!(
            trouble.blocking_error(before).unwrap().to_string(),
            "the server cannot be reached: nobody listens"
        );
        assert!(trouble.blocking_error(trouble.tries()).is_none());
        trouble.reset();
        assert!(trouble.blocking_error(before).is_none(), "it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn what_hung_or_asked_for_it_is_left_alone_at_once() {
        let trouble = FailureBackoff::default();
        trouble.record(
            &McpError::Timeout { after: Duration::from_secs(10), limit: TimeoutKind::List },
            Duration::from_secs(10),
        );
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(trouble.blocking_error(trouble.tries()).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(trouble.blocking_error(trouble.tries()).is_none());
        trouble.reset();
        let day = Some(Duration::from_hours(24));
        trouble.record(&McpError::Http { status: 429, retry_after: day }, Duration::ZERO);
        tokio::time::advance(Duration::from_secs(29)).await;
        assert!(trouble.blocking_error(trouble.tries()).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(trouble.blocking_error(trouble.tries()).is_none(), "nobody waits for a day");
    }
}
