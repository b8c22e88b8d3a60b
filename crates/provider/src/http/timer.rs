//! The timeouts of one attempt, with one timer for all its waits.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::{ProviderError, ProviderErrorKind};
use antwort_net::FailureCause;

/// In place of a time that the clock cannot express.
const FAR_AWAY: Duration = Duration::from_hours(24 * 365);

/// A timer that is registered once: most waits end later than the one before, so that it is left as it is, and set again
/// when it fires too early.
#[derive(Default)]
pub(super) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Runs work within a timeout and what is left of the total one; the error says which of them expired.
    pub(super) async fn run<T>(
        &mut self,
        limit: Duration,
        kind: ProviderErrorKind,
        total: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, ProviderError> {
        let wait = Wait::new(limit, kind, total);
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll(&wait, cx).map(Err),
        })
        .await
    }

    /// The error if a wait has lasted too long.
    pub(super) fn poll(&mut self, wait: &Wait, cx: &mut Context<'_>) -> Poll<ProviderError> {
        self.poll_at(wait.end, cx).map(|()| wait.error())
    }

    fn poll_at(&mut self, end: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if end < sleep.deadline() {
            sleep.as_mut().reset(end);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= end {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(end);
        }
        Poll::Pending
    }
}

/// A wait with its timeout.
pub(super) struct Wait {
    end: Instant,
    limit: Duration,
    kind: ProviderErrorKind,
}

impl Wait {
    /// A wait that begins now, for at most this time and what is left of the total one.
    pub(super) fn new(limit: Duration, kind: ProviderErrorKind, total: Duration) -> Self {
        let (limit, kind) =
            if total < limit { (total, ProviderErrorKind::TotalTimeout) } else { (limit, kind) };
        let now = Instant::now();
        Self { end: now.checked_add(limit).unwrap_or(now + FAR_AWAY), limit, kind }
    }

    fn error(&self) -> ProviderError {
        timeout_error(self.kind, self.limit)
    }
}

fn timeout_error(kind: ProviderErrorKind, limit: Duration) -> ProviderError {
    let setting = match kind {
        ProviderErrorKind::FirstByteTimeout => "timeouts.first_byte",
        ProviderErrorKind::IdleTimeout => "timeouts.idle",
        _ => "timeouts.total",
    };
    let error = ProviderError::new(kind, "the provider took too long");
    let cause = FailureCause::from_timeout(error.kind_name(), setting, limit);
    ProviderError { cause: Some(Box::new(cause)), ..error }
}
