//! Signals that tell the process to stop.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once.
pub fn on_signal(tasks: &TaskTracker) -> CancellationToken {
    let token = CancellationToken::new();
    let told = token.clone();
    tasks.spawn(async move {
        signal().await;
        told.cancel();
        signal().await;
        tracing::warn!("told to stop twice; stopping now");
        std::process::exit(130);
    });
    token
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    let _pressed = tokio::signal::ctrl_c().await;
}
