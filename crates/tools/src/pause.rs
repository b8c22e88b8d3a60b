//! The time for which a call waits for the user, which does not count for its timeouts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Stops the timeouts of a call while it waits for the user. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct PauseClock(Arc<watch::Sender<PauseState>>);

#[derive(Debug, Default)]
struct PauseState {
    /// Questions that are open now.
    open: u32,
    /// Since when there are any.
    since: Option<Instant>,
    /// The time of the pauses before.
    total: Duration,
    has_paused: bool,
}

/// A pause, until it is dropped.
#[derive(Debug)]
pub struct Pause(PauseClock);

impl PauseClock {
    /// Begins a pause. Pauses may overlap.
    pub fn pause(&self) -> Pause {
        self.0.send_modify(|state| {
            if state.open == 0 {
                state.since = Some(Instant::now());
            }
            state.open += 1;
            state.has_paused = true;
        });
        Pause(self.clone())
    }

    /// Whether there was a pause.
    pub(super) fn has_paused(&self) -> bool {
        self.0.borrow().has_paused
    }

    /// How long the pauses were that have ended.
    pub(super) fn total(&self) -> Duration {
        self.0.borrow().total
    }

    /// How long the pauses were, including one that goes on.
    pub(super) fn so_far(&self) -> Duration {
        let state = self.0.borrow();
        state.total + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns when so much time has passed, without pauses, since `start`; `before` is [`Self::total`] as of then.
    pub(super) async fn elapsed(&self, start: Instant, before: Duration, limit: Duration) {
        let mut changes = self.0.subscribe();
        loop {
            let (is_paused, paused) = {
                let state = changes.borrow_and_update();
                (state.open > 0, state.total.saturating_sub(before))
            };
            let end = start.checked_add(limit.saturating_add(paused));
            let Some(end) = end.filter(|_| !is_paused) else {
                // An error cannot be: this clock holds the sender.
                _ = changes.changed().await;
                continue;
            };
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(end) => return,
            }
        }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| {
            state.open -= 1;
            if state.open == 0
                && let Some(since) = state.since.take()
            {
                state.total += since.elapsed();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_for_which_a_call_waits_for_the_user_does_not_count() {
        let (clock, start) = (PauseClock::default(), Instant::now());
        let limit = Duration::from_secs(10);
        let elapsed = clock.elapsed(start, Duration::ZERO, limit);
        tokio::pin!(elapsed);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(elapsed.as_mut().now_or_never().is_none());
        let (first, second) = (clock.pause(), clock.pause());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(elapsed.as_mut().now_or_never().is_none(), "it is paused");
        drop(first);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(elapsed.as_mut().now_or_never().is_none(), "one question is still open");
        drop(second);
        assert_eq!(clock.total(), Duration::from_secs(120));
        assert!(elapsed.as_mut().now_or_never().is_none(), "a second is left");
        tokio::time::advance(Duration::from_secs(1)).await;
        elapsed.await;
        assert_eq!(start.elapsed(), Duration::from_secs(130));
    }
}
