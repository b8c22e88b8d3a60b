//! Shutdown signals (SIGTERM, SIGINT).

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use antwort_telemetry::log_queue;

/// Exit code after a second shutdown signal.
const EXIT_IMMEDIATELY: i32 = 130;

/// A token that SIGTERM or SIGINT cancels. A second signal of either kind exits the process immediately.
pub fn on_signal(tasks: &TaskTracker) -> CancellationToken {
    let token = CancellationToken::new();
    let shutdown = token.clone();
    // One listener for both signals: between two listeners a signal could be lost.
    let mut signals = StopSignals::new();
    tasks.spawn(async move {
        signals.next().await;
        shutdown.cancel();
        signals.next().await;
        tracing::warn!(exit_code = EXIT_IMMEDIATELY, "second shutdown signal; exiting immediately");
        log_queue::wait_written();
        std::process::exit(EXIT_IMMEDIATELY);
    });
    token
}

/// Waits for SIGTERM or SIGINT.
#[cfg(feature = "doctor")]
pub(crate) async fn signal() {
    StopSignals::new().next().await;
}

#[cfg(unix)]
struct StopSignals(Option<[tokio::signal::unix::Signal; 2]>);

#[cfg(unix)]
impl StopSignals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let both = || Ok([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]);
        let listening: std::io::Result<_> = both();
        Self(
            listening
                .inspect_err(
                    |error| tracing::error!(%error, "cannot listen for shutdown signals; a signal ends the process without draining"),
                )
                .ok(),
        )
    }

    async fn next(&mut self) {
        let Some([terminate, interrupt]) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct StopSignals;

#[cfg(not(unix))]
impl StopSignals {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) {
        let _pressed = tokio::signal::ctrl_c().await;
    }
}
