//! The bus over NATS: one subject that all processes publish to and subscribe.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr, Subscriber};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::link::{Inbound, LinkStatus, lose, next_message};
use super::signal::Signal;
use antwort_util::{backoff, random};

/// Messages that wait in the client, each of a few kilobytes at most.
const CLIENT_CAPACITY: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a dead connection may go unnoticed.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(5);

/// How NATS is reached.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// The servers, with user and password, or a token as the user, in the URL. `tls://` asks for TLS.
    pub servers: Vec<ServerAddr>,
    /// The subject of the signals.
    pub subject: String,
}

impl NatsOptions {
    /// Of URLs that are separated by commas.
    ///
    /// # Errors
    /// If one is no URL of a NATS server. Does not quote it, since it may hold a password.
    pub fn new(urls: &str, subject: &str) -> Result<Self, NotNats> {
        let servers = urls.split(',').map(|url| url.trim().parse().map_err(|_| NotNats));
        Ok(Self { servers: servers.collect::<Result<_, _>>()?, subject: subject.to_owned() })
    }
}

/// A URL is not one of a NATS server.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("expected the URLs of NATS servers, separated by commas, such as nats://host:4222")]
pub struct NotNats;

/// Sends and receives until the bus is gone.
pub(super) async fn run(
    options: NatsOptions,
    mut signals: mpsc::Receiver<Signal>,
    inbound: Inbound,
    status: Arc<LinkStatus>,
) {
    let mut retries = 0;
    loop {
        match connect(&options, &status).await {
            Ok((client, messages)) => {
                exchange(&client, &options.subject, messages, &mut signals, &inbound, &status).await;
                status.set_connected(false);
                retries = 0;
            }
            Err(error) => {
                // Not what was tried: the URL may hold a password.
                tracing::warn!(error, "bus: NATS cannot be used; trying again");
            }
        }
        let delay = backoff::exponential(MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY, retries);
        retries += 1;
        tokio::select! {
            () = tokio::time::sleep(backoff::with_jitter(delay, random::unit_f64())) => {}
            () = lose(&mut signals, &status) => return,
        }
    }
}

/// A client, which connects in the background and reconnects by itself, and its subscription, which it renews.
async fn connect(options: &NatsOptions, status: &Arc<LinkStatus>) -> Result<(Client, Subscriber), String> {
    let of_events = Arc::clone(status);
    let client = ConnectOptions::new()
        .name("antwort")
        .no_echo()
        .retry_on_initial_connect()
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .client_capacity(CLIENT_CAPACITY)
        .ignore_discovered_servers()
        .reconnect_delay_callback(|attempts| {
            let retries = u32::try_from(attempts).unwrap_or(u32::MAX);
            let delay = backoff::exponential(MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY, retries);
            backoff::with_jitter(delay, random::unit_f64())
        })
        .event_callback(move |event| {
            match event {
                Event::Connected => of_events.set_connected(true),
                Event::Disconnected | Event::Closed => of_events.set_connected(false),
                Event::ServerError(error) => tracing::warn!(%error, "bus: NATS refuses"),
                Event::ClientError(error) => tracing::debug!(%error, "bus: NATS"),
                Event::SlowConsumer(_) | Event::LameDuckMode | Event::Draining => {}
            }
            std::future::ready(())
        })
        .connect(&options.servers[..])
        .await
        .map_err(|error| error.kind().to_string())?;
    let messages = client.subscribe(options.subject.clone()).await.map_err(|error| error.to_string())?;
    Ok((client, messages))
}

async fn exchange(
    client: &Client,
    subject: &str,
    mut messages: Subscriber,
    signals: &mut mpsc::Receiver<Signal>,
    inbound: &Inbound,
    status: &LinkStatus,
) {
    let receive = async {
        while let Some(message) = messages.next().await {
            inbound.accept(&message.payload);
        }
    };
    let send = async {
        while let Some(message) = next_message(signals).await {
            // Signals that come late help nobody: none are kept for when the connection is back.
            if !status.is_connected() || client.publish(subject.to_owned(), message.into()).await.is_err() {
                status.signal_lost();
            }
        }
    };
    tokio::select! {
        () = receive => {}
        () = send => {}
    }
}
