//! When a call that came to nothing is tried again. Pure: time and chance are handed in.

use std::time::Duration;

use super::{ProviderError, ProviderErrorKind};
use crate::config::RetrySettings;
use crate::net::client::ProxyError;

/// The tries of one call.
#[derive(Debug)]
pub(super) struct RetryState {
    settings: RetrySettings,
    made: u32,
}

impl RetryState {
    pub(super) fn new(settings: RetrySettings) -> Self {
        Self { settings, made: 0 }
    }

    /// How long to wait before the next try; `None`: there is none.
    ///
    /// `left` is the time until the run's deadline, `chance` lies between 0 and 1.
    pub(super) fn next_delay(
        &mut self,
        error: &ProviderError,
        left: Option<Duration>,
        chance: f64,
    ) -> Option<Duration> {
        if self.made >= self.settings.max || !is_retryable(error) {
            return None;
        }
        let wait = match error.retry_after {
            // Longer than that is for the client to decide: it gets the header.
            Some(asked) if asked > self.settings.max_retry_after => return None,
            Some(asked) => asked,
            None => self.backoff(chance),
        };
        if left.is_some_and(|left| wait >= left) {
            return None;
        }
        self.made += 1;
        Some(wait)
    }

    /// Whether there was more than one.
    pub(super) fn has_retried(&self) -> bool {
        self.made > 0
    }

    /// Doubles with every try; jitter keeps callers that failed together from coming back together.
    fn backoff(&self, chance: f64) -> Duration {
        let doubled = self.settings.initial_backoff.saturating_mul(1 << self.made.min(16));
        doubled.min(self.settings.max_backoff).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

/// Whether the same request may fare better. What has begun to be generated is not asked for again after a
/// timeout: it would cost twice and take as long.
fn is_retryable(error: &ProviderError) -> bool {
    match error.kind {
        ProviderErrorKind::Connect | ProviderErrorKind::ConnectTimeout | ProviderErrorKind::Cut => true,
        // The same credentials will not be taken the next time.
        ProviderErrorKind::Proxy(error) => error != ProxyError::Credentials,
        // An empty account does not fill by waiting.
        ProviderErrorKind::Status(429) => error.code.as_deref() != Some("insufficient_quota"),
        ProviderErrorKind::Status(status) => matches!(status, 502..=504 | 529),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ProviderErrorKind, retry_after: Option<u64>) -> ProviderError {
        let mut error = ProviderError::new(kind, "");
        error.retry_after = retry_after.map(Duration::from_secs);
        error
    }

    fn tries(max: u32) -> RetryState {
        RetryState::new(RetrySettings {
            max,
            initial_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_millis(300),
            max_retry_after: Duration::from_secs(30),
        })
    }

    #[test]
    fn backoff_doubles_up_to_its_cap_and_ends_after_the_last_try() {
        let mut tries = tries(3);
        let cut = error(ProviderErrorKind::Status(503), None);
        let waits: Vec<_> =
            (0..4).map(|_| tries.next_delay(&cut, None, 1.0).map(|wait| wait.as_millis())).collect();
        assert_eq!(waits, [Some(100), Some(200), Some(300), None]);
    }

    #[test]
    fn what_a_retry_cannot_mend_is_not_tried_again() {
        for kind in [
            ProviderErrorKind::Status(400),
            ProviderErrorKind::Status(500),
            ProviderErrorKind::FirstByteTimeout,
            ProviderErrorKind::Malformed,
        ] {
            assert_eq!(tries(3).next_delay(&error(kind, None), None, 0.0), None, "{kind:?}");
        }
        let mut spent = error(ProviderErrorKind::Status(429), None);
        spent.code = Some("insufficient_quota".into());
        assert_eq!(tries(3).next_delay(&spent, None, 0.0), None);
    }

    #[test]
    fn retry_after_is_honoured_unless_it_is_too_long() {
        assert_eq!(
            tries(1).next_delay(&error(ProviderErrorKind::Status(429), Some(2)), None, 0.0),
            Some(Duration::from_secs(2))
        );
        assert_eq!(
            tries(1).next_delay(&error(ProviderErrorKind::Status(429), Some(223_920)), None, 0.0),
            None
        );
        let left = Some(Duration::from_secs(1));
        assert_eq!(tries(1).next_delay(&error(ProviderErrorKind::Status(429), Some(2)), left, 0.0), None);
    }
}
