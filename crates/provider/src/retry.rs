//! The retry policy of provider calls: exponential backoff with jitter. Pure: time and randomness are parameters.

use std::time::Duration;

use super::{ProviderError, ProviderErrorKind};
use antwort_config::RetrySettings;
use antwort_net::client::ProxyError;
use antwort_util::backoff;

/// The retries of one call.
#[derive(Debug)]
pub(super) struct RetryState {
    settings: RetrySettings,
    retries: u32,
}

impl RetryState {
    pub(super) fn new(settings: RetrySettings) -> Self {
        Self { settings, retries: 0 }
    }

    /// The delay before the next retry; `None`: do not retry.
    ///
    /// `time_left` is the time until the run's deadline, `random` is between 0 and 1.
    pub(super) fn next_delay(
        &mut self,
        error: &ProviderError,
        time_left: Option<Duration>,
        random: f64,
    ) -> Option<Duration> {
        if self.retries >= self.settings.max || !is_retryable(error) {
            return None;
        }
        let delay = match error.retry_after {
            // A longer wait is left to the client, which gets the header.
            Some(requested) if requested > self.settings.max_retry_after => return None,
            Some(requested) => requested,
            // The server closed an idle connection, and is not in trouble.
            None if error.kind == ProviderErrorKind::Stale => Duration::ZERO,
            None => self.backoff(random),
        };
        if time_left.is_some_and(|left| delay >= left) {
            return None;
        }
        self.retries += 1;
        Some(delay)
    }

    /// Whether the call was retried.
    pub(super) fn has_retried(&self) -> bool {
        self.retries > 0
    }

    fn backoff(&self, random: f64) -> Duration {
        let RetrySettings { initial_backoff, max_backoff, .. } = self.settings;
        backoff::with_jitter(backoff::exponential(initial_backoff, max_backoff, self.retries), random)
    }
}

/// Whether the same request may succeed on a retry. A request that timed out while it was being generated is not retried: it
/// would cost twice and take as long.
fn is_retryable(error: &ProviderError) -> bool {
    match error.kind {
        ProviderErrorKind::Connect
        | ProviderErrorKind::ConnectTimeout
        | ProviderErrorKind::Cut
        | ProviderErrorKind::Stale => true,
        // The same credentials would be refused again.
        ProviderErrorKind::Proxy(error) => error != ProxyError::Credentials,
        // Waiting does not restore an exhausted quota.
        ProviderErrorKind::Status(429) => error.code.as_deref() != Some("insufficient_quota"),
        ProviderErrorKind::Status(status) => matches!(status, 502..=504 | 520..=524 | 529),
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
    fn a_stale_connection_is_replaced_at_once_and_counts_as_a_try() {
        let mut tries = tries(1);
        let stale = error(ProviderErrorKind::Stale, None);
        let waits = [(); 2].map(|()| tries.next_delay(&stale, None, 1.0));
        assert_eq!(waits, [Some(Duration::ZERO), None]);
    }

    #[test]
    fn what_a_retry_cannot_mend_is_not_tried_again() {
        for kind in [
            ProviderErrorKind::Status(400),
            ProviderErrorKind::Status(500),
            ProviderErrorKind::Status(525),
            ProviderErrorKind::Status(402),
            ProviderErrorKind::Redirect,
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
    fn a_proxy_that_does_not_reach_its_server_is_tried_again() {
        for status in [502, 503, 504, 520, 521, 522, 523, 524, 529] {
            let failed = error(ProviderErrorKind::Status(status), None);
            assert!(tries(1).next_delay(&failed, None, 0.0).is_some(), "{status}");
        }
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
