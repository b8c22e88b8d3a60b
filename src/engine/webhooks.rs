//! Webhooks: notices of the end of background responses.
//!
//! A notice is written to the store in the commit that ends its response, and delivered from there (`delivery`), signed as the
//! specification Standard Webhooks says (`signature`). So none is lost, and none is sent of what was not stored.

mod delivery;
mod signature;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::context::unix_now;
use crate::config::{WebhookEvent, WebhookSettings};
use crate::identity::Owner;
use crate::protocol::id::Id;
use crate::protocol::response::{Response, ResponseStatus};
use crate::store::OutboxNotice;

pub(crate) use delivery::WebhookDelivery;

/// Which webhook is told of what.
#[derive(Debug, Default)]
pub struct Webhooks(Vec<Webhook>);

#[derive(Debug)]
struct Webhook {
    name: Arc<str>,
    events: Vec<WebhookEvent>,
    tenants: Option<Vec<String>>,
}

impl Webhooks {
    /// The configured ones.
    pub fn new(settings: &BTreeMap<String, WebhookSettings>) -> Arc<Self> {
        let webhook = |(name, webhook): (&String, &WebhookSettings)| Webhook {
            name: name.as_str().into(),
            events: webhook.events.clone(),
            tenants: webhook.tenants.clone(),
        };
        Arc::new(Self(settings.iter().map(webhook).collect()))
    }

    /// The notices of the end of a response: of one that ran in the background, one for each webhook that is told of it.
    pub(super) fn notices(&self, owner: &Owner, response: &Response) -> Vec<OutboxNotice> {
        if self.0.is_empty() || !response.echo.background {
            return Vec::new();
        }
        let Some(event) = event(response.status) else { return Vec::new() };
        let is_told = |webhook: &&Webhook| {
            webhook.events.contains(&event)
                && webhook
                    .tenants
                    .as_ref()
                    .is_none_or(|tenants| tenants.iter().any(|tenant| **tenant == *owner.tenant))
        };
        self.0.iter().filter(is_told).map(|webhook| notice(webhook, event, &response.id)).collect()
    }
}

/// `None`: it has not ended.
fn event(status: ResponseStatus) -> Option<WebhookEvent> {
    match status {
        ResponseStatus::Completed | ResponseStatus::RequiresAction => Some(WebhookEvent::Completed),
        ResponseStatus::Failed => Some(WebhookEvent::Failed),
        ResponseStatus::Incomplete => Some(WebhookEvent::Incomplete),
        ResponseStatus::Cancelled => Some(WebhookEvent::Cancelled),
        ResponseStatus::Queued | ResponseStatus::InProgress => None,
    }
}

fn notice(webhook: &Webhook, event: WebhookEvent, response: &Id) -> OutboxNotice {
    let id = Id::generate("evt");
    let body = json!({
        "object": "event",
        "id": id.as_str(),
        "type": event.name(),
        "created_at": unix_now(),
        "data": {"id": response.as_str()},
    });
    OutboxNotice { webhook: Arc::clone(&webhook.name), event_id: id, body: body.to_string().into() }
}
