//! What the links to other processes have in common: the way in, their status, and batches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::local::LocalBus;
use super::signal::{self, Signal};
use antwort_telemetry::metrics::Metrics;

/// How long signals are collected for one message.
const COLLECT_TIME: Duration = Duration::from_millis(10);
/// Bytes of a message: those of a PostgreSQL notification are less than 8000.
const MAX_MESSAGE_BYTES: usize = 7_500;

/// Whether the other processes are reached.
#[derive(Debug)]
pub struct LinkStatus {
    is_connected: AtomicBool,
    metrics: Arc<Metrics>,
}

impl LinkStatus {
    /// The status of a link that has to connect first.
    pub(super) fn connecting(metrics: &Arc<Metrics>) -> Arc<Self> {
        metrics.bus_connected(0);
        Arc::new(Self { is_connected: AtomicBool::new(false), metrics: Arc::clone(metrics) })
    }

    /// Notes whether they are.
    pub fn set_connected(&self, is_connected: bool) {
        if self.is_connected.swap(is_connected, Ordering::Relaxed) != is_connected {
            self.metrics.bus_connected(if is_connected { 1 } else { -1 });
            match is_connected {
                true => tracing::info!("bus: connected"),
                false => tracing::warn!("bus: the connection is lost; the database is asked instead"),
            }
        }
    }

    /// Whether they are reached now.
    pub fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Relaxed)
    }

    /// Counts a signal that reaches nobody.
    pub fn signal_lost(&self) {
        self.metrics.bus_signal_lost();
    }
}

/// The way of messages into this process. Does not keep the bus alive.
pub struct Inbound(Weak<LocalBus>);

impl Inbound {
    pub(super) fn new(local: &Arc<LocalBus>) -> Self {
        Self(Arc::downgrade(local))
    }

    /// Passes the signals of a message on. What is not understood is left out: other versions may know more.
    pub fn accept(&self, message: &[u8]) {
        let Some(local) = self.0.upgrade() else { return };
        for signal in signal::decode(message) {
            local.accept(&signal);
        }
    }
}

/// The next message: what is published within [`COLLECT_TIME`], each signal once. `None`: the bus is gone.
pub async fn next_message(signals: &mut mpsc::Receiver<Signal>) -> Option<String> {
    let mut batch = signal::Batch::default();
    batch.add(signals.recv().await?);
    let until = Instant::now() + COLLECT_TIME;
    while batch.bytes() < MAX_MESSAGE_BYTES {
        match tokio::time::timeout_at(until, signals.recv()).await {
            Ok(Some(signal)) => batch.add(signal),
            Ok(None) | Err(_) => break,
        }
    }
    Some(batch.encode())
}

/// Drops what is published. Returns when the bus is gone.
pub async fn lose(signals: &mut mpsc::Receiver<Signal>, status: &LinkStatus) {
    while signals.recv().await.is_some() {
        status.signal_lost();
    }
}
