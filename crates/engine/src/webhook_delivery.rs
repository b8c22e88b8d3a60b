//! Delivers the notices of webhooks from the outbox of the store: each is tried eight times within a day, signed as the
//! specification Standard Webhooks says (`signature`).
//!
//! A notice is taken for a time, so that of several processes one delivers it, and another if that one is gone. So it may be
//! delivered twice; its `webhook-id` is the same then.

mod signature;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::hmac;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::context::unix_now;
use antwort_config::{Settings, WebhookSettings};
use antwort_net::egress::{Egress, EgressOptions};
use antwort_store::{DueNotice, Store, StoreError};
use antwort_telemetry::metrics::Metrics;
use signature::sign;

/// How often the outbox is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Notices that are taken at a time.
const BATCH: usize = 8;
/// Deliveries to one receiver at a time: one that does not answer must not keep notices from the others.
const PLACES: usize = 16;
/// How long a delivery may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long a notice is taken for: longer than that.
const LEASE: Duration = Duration::from_secs(60);
/// The pauses between the tries.
const PAUSES: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(6),
    Duration::from_hours(10),
];
/// The answer of a receiver that wants no more.
const GONE: u16 = 410;

/// The deliveries of a process.
pub struct WebhookDelivery {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    receivers: HashMap<String, Arc<Receiver>>,
    /// Something is delivered no more, so that there is a place.
    done: Arc<Notify>,
}

/// Where notices of one webhook go.
struct Receiver {
    url: String,
    key: hmac::Key,
    egress: Egress,
    places: Arc<Semaphore>,
}

impl WebhookDelivery {
    /// `None` if there are no webhooks.
    pub fn new(
        settings: &Settings,
        store: &Arc<dyn Store>,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Option<Self>> {
        if settings.webhooks.is_empty() {
            return Ok(None);
        }
        let mut receivers = HashMap::new();
        for (name, webhook) in &settings.webhooks {
            let receiver = Receiver::new(webhook, settings).with_context(|| format!("webhooks.{name}"))?;
            receivers.insert(name.clone(), Arc::new(receiver));
        }
        let (store, metrics) = (Arc::clone(store), Arc::clone(metrics));
        Ok(Some(Self { store, metrics, receivers, done: Arc::default() }))
    }

    /// Delivers until `closing`. What is under way then is delivered again later.
    pub async fn run(self, closing: CancellationToken) {
        let mut under_way = JoinSet::new();
        let mut has_more = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.done.notified(), if has_more => {}
                () = closing.cancelled() => return,
            }
            while under_way.try_join_next().is_some() {}
            let busy = self.busy();
            match self.store.take_due_notices(BATCH, LEASE, &busy).await {
                Ok(notices) => {
                    has_more = notices.len() == BATCH || !busy.is_empty();
                    notices.into_iter().for_each(|notice| self.spawn(notice, &mut under_way));
                }
                Err(error) => {
                    has_more = false;
                    tracing::warn!(%error, "store: looking for notices of webhooks failed");
                }
            }
        }
    }

    /// The webhooks that have no room for a batch.
    fn busy(&self) -> Vec<&str> {
        let receivers = self.receivers.iter();
        let busy = receivers.filter(|(_, receiver)| receiver.places.available_permits() < BATCH);
        busy.map(|(name, _)| &**name).collect()
    }

    fn spawn(&self, notice: DueNotice, under_way: &mut JoinSet<()>) {
        let (store, metrics) = (Arc::clone(&self.store), Arc::clone(&self.metrics));
        let (receiver, done) = (self.receivers.get(&notice.webhook).cloned(), Arc::clone(&self.done));
        // There is a place: of a webhook that has fewer than a batch nothing is taken.
        let place =
            receiver.as_ref().and_then(|receiver| Arc::clone(&receiver.places).try_acquire_owned().ok());
        under_way.spawn(async move {
            deliver(&*store, &metrics, receiver, notice).await;
            drop(place);
            done.notify_one();
        });
    }
}

impl Receiver {
    /// It may have any address, as it is configured; the egress policy permits only that one.
    fn new(webhook: &WebhookSettings, settings: &Settings) -> anyhow::Result<Self> {
        let url = Url::parse(&webhook.url).context("url")?;
        let host = url.host_str().context("url: the host is missing")?;
        let port = url.port_or_known_default().unwrap_or_default();
        let mut allow = settings.egress.allow.clone();
        allow.push(format!("{host}:{port}"));
        let options = EgressOptions {
            allow,
            allowed_domains: None,
            max_redirects: 0,
            max_response_bytes: 0,
            timeout: TIMEOUT,
            http: settings.egress.http.clone(),
        };
        let key = webhook.key().context("secret")?;
        Ok(Self {
            url: webhook.url.clone(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            egress: Egress::new(&options).map_err(|error| anyhow::anyhow!("url: {error}"))?,
            places: Arc::new(Semaphore::new(PLACES)),
        })
    }

    async fn send(&self, notice: &DueNotice) -> Result<(), Refusal> {
        let timestamp = unix_now();
        let signature = sign(&self.key, notice.event_id.as_str(), timestamp, &notice.body);
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "application/json"),
            ("webhook-id", notice.event_id.as_str()),
            ("webhook-timestamp", &timestamp.to_string()),
            ("webhook-signature", &signature),
        ] {
            let value = HeaderValue::from_str(value).map_err(|error| Refusal::again(&error))?;
            headers.insert(name, value);
        }
        let body = Bytes::copy_from_slice(notice.body.as_bytes());
        let status = self.egress.post_for_status(&self.url, headers, body).await;
        match status.map_err(|error| Refusal::again(&error))? {
            200..=299 => Ok(()),
            GONE => Err(Refusal { reason: "status 410".to_owned(), is_final: true }),
            status => Err(Refusal { reason: format!("status {status}"), is_final: false }),
        }
    }
}

/// Why a notice was not delivered.
struct Refusal {
    reason: String,
    is_final: bool,
}

impl Refusal {
    fn again(error: &dyn std::fmt::Display) -> Self {
        Self { reason: error.to_string(), is_final: false }
    }
}

async fn deliver(store: &dyn Store, metrics: &Metrics, receiver: Option<Arc<Receiver>>, notice: DueNotice) {
    let sent = match receiver {
        Some(receiver) => receiver.send(&notice).await,
        // Another gateway, of a newer or an older configuration, may know it.
        None => Err(Refusal { reason: "it is not configured here".to_owned(), is_final: false }),
    };
    let pause = usize::try_from(notice.attempt).ok().and_then(|tries| PAUSES.get(tries.saturating_sub(1)));
    let (outcome, written) = match (&sent, pause) {
        (Ok(()), _) => ("delivered", store.remove_notice(&notice).await),
        (Err(refusal), Some(pause)) if !refusal.is_final => {
            log_failure(&notice, &refusal.reason, true);
            ("failed", store.retry_notice(&notice, *pause).await)
        }
        (Err(refusal), _) => {
            log_failure(&notice, &refusal.reason, false);
            ("given_up", store.remove_notice(&notice).await)
        }
    };
    metrics.webhook_delivery(&notice.webhook, outcome);
    if let Err(error) = written {
        // It is taken again when its time is over.
        log_write(&error);
    }
}

fn log_failure(notice: &DueNotice, reason: &str, is_tried_again: bool) {
    tracing::warn!(
        webhook = notice.webhook,
        event_id = notice.event_id.as_str(),
        attempt = notice.attempt,
        reason,
        is_tried_again,
        "a notice of a webhook was not delivered"
    );
}

fn log_write(error: &StoreError) {
    tracing::warn!(%error, "store: noting the delivery of a webhook failed");
}
