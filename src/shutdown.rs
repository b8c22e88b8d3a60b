//! Signals that tell the process to stop.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The exit code of a process that was told to stop twice.
const STOPPED_AT_ONCE: i32 = 130;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal of either kind ends the process at once.
pub fn on_signal(tasks: &TaskTracker) -> CancellationToken {
    let token = CancellationToken::new();
    let told = token.clone();
    // Listened for once: between two listeners a signal could be lost.
    let mut signals = StopSignals::new();
    tasks.spawn(async move {
        signals.next().await;
        told.cancel();
        signals.next().await;
        tracing::warn!(exit_code = STOPPED_AT_ONCE, "told to stop twice; stopping now");
        std::process::exit(STOPPED_AT_ONCE);
    });
    token
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
                    |error| tracing::error!(%error, "signals cannot be listened for; one stops at once"),
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
