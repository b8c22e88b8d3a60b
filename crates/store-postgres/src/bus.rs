//! The bus over notifications of PostgreSQL.
//!
//! A notification is sent by a statement of its own, which has nothing to write: one in the transaction of a write would make
//! all commits wait for one another. Behind a pooler in transaction mode notifications are lost, and nobody says so. So the bus
//! counts as connected only after it has heard another connection, and while it hears itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::notifications::{NotificationSender, NotificationServer};
use antwort_bus::{Bus, Inbound, LinkStatus, Signal, lose, next_message};
use antwort_store::StoreError;
use antwort_telemetry::metrics::Metrics;
use antwort_util::{backoff, random};

/// The target of its log lines: that of the bus.
const TARGET: &str = "antwort::bus::postgres";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often is tried whether it still hears itself.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long the bus may not hear itself. A statement that takes longer has failed.
const ECHO_TIMEOUT: Duration = Duration::from_secs(12);
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// A bus over notifications of a PostgreSQL server, which must not be reached through a pooler in transaction mode. Connects in the
/// background, and again whenever the connection is lost.
pub fn bus(url: &str, poll_interval: Duration, metrics: &Arc<Metrics>) -> Result<Bus, StoreError> {
    let server = NotificationServer::new(url)?;
    Ok(Bus::linked(poll_interval, metrics, |signals, inbound, status| run(server, signals, inbound, status)))
}

/// Sends and receives until the bus is gone.
async fn run(
    server: NotificationServer,
    mut signals: mpsc::Receiver<Signal>,
    inbound: Inbound,
    status: Arc<LinkStatus>,
) {
    let mut retries = 0;
    loop {
        match timeout(CONNECT_TIMEOUT, server.connect()).await {
            Ok(Ok(connection)) => {
                let (sender, mut messages) = connection.split();
                if !hears_others(&server, &mut messages, &inbound).await {
                    tracing::warn!(
                        target: TARGET,
                        "bus: no notification comes from PostgreSQL: is there a pooler in between?"
                    );
                } else if exchange(&sender, messages, &mut signals, &inbound, &status).await {
                    retries = 0;
                }
                status.set_connected(false);
            }
            Ok(Err(error)) => {
                tracing::warn!(target: TARGET, %error, "bus: PostgreSQL cannot be listened to; trying again");
            }
            Err(_) => tracing::warn!(target: TARGET, "bus: connecting to PostgreSQL timed out; trying again"),
        }
        let delay = backoff::exponential(MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY, retries);
        retries += 1;
        let again = sleep(backoff::with_jitter(delay, random::unit_f64()));
        tokio::select! {
            () = again => {}
            () = lose(&mut signals, &status) => return,
        }
    }
}

/// Whether it hears what is sent over another connection. A pooler may give one the same session again and again, so that
/// it hears itself by chance, and nobody else.
async fn hears_others(
    server: &NotificationServer,
    messages: &mut mpsc::Receiver<String>,
    inbound: &Inbound,
) -> bool {
    let ping = ping();
    let sending = async {
        match server.connect_to_send().await {
            Ok(sender) => send(&sender, &ping).await,
            Err(_) => false,
        }
    };
    let hearing = async {
        while let Some(message) = messages.recv().await {
            if message == ping {
                return true;
            }
            inbound.accept(message.as_bytes());
        }
        false
    };
    let both = async { tokio::join!(sending, hearing).1 };
    timeout(ECHO_TIMEOUT, both).await.unwrap_or(false)
}

/// A message that says nothing to other processes: no line of a signal begins so.
fn ping() -> String {
    format!("ping {}", random::token().unwrap_or_default())
}

/// Returns, when the connection is lost or does not work, whether it had worked.
async fn exchange(
    sender: &NotificationSender,
    messages: mpsc::Receiver<String>,
    signals: &mut mpsc::Receiver<Signal>,
    inbound: &Inbound,
    status: &LinkStatus,
) -> bool {
    let ping = ping();
    let sending = async {
        while let Some(message) = next_message(signals).await {
            if !send(sender, &message).await {
                status.signal_lost();
                break;
            }
        }
    };
    let pings = async {
        while send(sender, &ping).await {
            sleep(PING_INTERVAL).await;
        }
    };
    tokio::select! {
        () = receive(messages, &ping, inbound, status) => {}
        () = sending => {}
        () = pings => {}
    }
    status.is_connected()
}

async fn send(sender: &NotificationSender, message: &str) -> bool {
    matches!(timeout(ECHO_TIMEOUT, sender.send(message)).await, Ok(Ok(())))
}

/// Passes messages on for as long as pings come back.
async fn receive(mut messages: mpsc::Receiver<String>, ping: &str, inbound: &Inbound, status: &LinkStatus) {
    let mut echo_by = Instant::now() + ECHO_TIMEOUT;
    loop {
        match timeout_at(echo_by, messages.recv()).await {
            Ok(Some(message)) if message == ping => {
                echo_by = Instant::now() + ECHO_TIMEOUT;
                status.set_connected(true);
            }
            Ok(Some(message)) => inbound.accept(message.as_bytes()),
            Ok(None) => return,
            Err(_) => {
                tracing::warn!(
                        target: TARGET,
                    "bus: no notification comes back from PostgreSQL: is there a pooler in between?"
                );
                return;
            }
        }
    }
}
