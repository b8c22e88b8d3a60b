//! Notifications of the database: a connection of its own, over which they come and are sent.

use std::future::poll_fn;

use tokio::sync::mpsc;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};

use super::error::database;
use super::tls::Tls;
use super::url::Target;
use antwort_store::StoreError;

/// The channel; a database has its own.
const CHANNEL: &str = "antwort_signals";
/// Notifications that were received and not taken; those beyond are lost.
const MAX_WAITING: usize = 1024;

/// Where notifications come from.
pub(super) struct NotificationServer {
    target: Target,
    tls: Tls,
}

impl NotificationServer {
    /// Checks the URL; connects to nothing.
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        let target = Target::parse(url)?;
        let tls = Tls::new(&target.verification)?;
        Ok(Self { target, tls })
    }

    /// Connects and listens.
    pub(super) async fn connect(&self) -> Result<Notifications, StoreError> {
        let (client, incoming) = self.open().await?;
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await.map_err(|error| database(&error))?;
        Ok(Notifications { client, incoming })
    }

    /// Connects without listening.
    pub(super) async fn connect_to_send(&self) -> Result<NotificationSender, StoreError> {
        Ok(NotificationSender(self.open().await?.0))
    }

    async fn open(&self) -> Result<(Client, mpsc::Receiver<String>), StoreError> {
        let connected = self.target.config.connect(self.tls.clone()).await;
        let (client, mut connection) = connected.map_err(|error| database(&error))?;
        let (to, incoming) = mpsc::channel(MAX_WAITING);
        #[expect(clippy::disallowed_methods, reason = "ends with the client, or when the server closes it")]
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    // Full: whoever waits also asks the database.
                    _ = to.try_send(notification.payload().to_owned());
                }
            }
        });
        Ok((client, incoming))
    }
}

/// An open connection that listens.
pub(super) struct Notifications {
    client: Client,
    incoming: mpsc::Receiver<String>,
}

impl Notifications {
    /// Both directions.
    pub(super) fn split(self) -> (NotificationSender, mpsc::Receiver<String>) {
        (NotificationSender(self.client), self.incoming)
    }
}

/// The way out.
pub(super) struct NotificationSender(Client);

impl NotificationSender {
    /// Sends a text of less than 8000 bytes to all who listen, this process included.
    pub(super) async fn send(&self, text: &str) -> Result<(), StoreError> {
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&CHANNEL, Type::TEXT), (&text, Type::TEXT)];
        let sent = self.0.query_typed("SELECT pg_notify($1, $2)", &parameters).await;
        sent.map(|_| ()).map_err(|error| database(&error))
    }
}
