//! Webhooks: notices of the end of background responses.
//!
//! A notice is written to the store in the commit that ends its response, and delivered from there (`webhook_delivery`). So none
//! is lost, and none is sent of what was not stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use antwort_config::{WebhookEvent, WebhookSettings};
use antwort_identity::Owner;
use antwort_protocol::id::Id;
use antwort_protocol::response::{Response, ResponseStatus};
use antwort_store::{AsyncCallKey, OutboxNotice};

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

    /// The notices of the end of a response, at this time in Unix seconds: of one that ran in the background, one for each webhook that is told of it.
    pub(super) fn notices(&self, owner: &Owner, response: &Response, now: i64) -> Vec<OutboxNotice> {
        if self.0.is_empty() || !response.echo.background {
            return Vec::new();
        }
        let Some(event) = event(response.status) else { return Vec::new() };
        let data = json!({"id": response.id.as_str()});
        self.told(owner, event).map(|webhook| notice(webhook, event, &data, now)).collect()
    }

    /// The notices of the result of a tool whose work has gone on after its call.
    pub(super) fn tool_call_notices(
        &self,
        call: &AsyncCallKey,
        item: &Id,
        tool: &str,
        now: i64,
    ) -> Vec<OutboxNotice> {
        let event = WebhookEvent::ToolCallCompleted;
        let data = json!({"id": item.as_str(), "response_id": call.response.as_str(), "name": tool});
        self.told(&call.owner, event).map(|webhook| notice(webhook, event, &data, now)).collect()
    }

    /// Those that are told of an event of this owner.
    fn told<'a>(&'a self, owner: &'a Owner, event: WebhookEvent) -> impl Iterator<Item = &'a Webhook> {
        self.0.iter().filter(move |webhook| {
            webhook.events.contains(&event)
                && webhook
                    .tenants
                    .as_ref()
                    .is_none_or(|tenants| tenants.iter().any(|tenant| **tenant == *owner.tenant))
        })
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

fn notice(webhook: &Webhook, event: WebhookEvent, data: &Value, now: i64) -> OutboxNotice {
    let id = Id::generate("evt");
    let body = json!({
        "object": "event",
        "id": id.as_str(),
        "type": event.name(),
        "created_at": now,
        "data": data,
    });
    OutboxNotice { webhook: Arc::clone(&webhook.name), event_id: id, body: body.to_string().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo;
    use antwort_protocol::dialect::Dialect;
    use antwort_protocol::id::IdGenerator;
    use antwort_protocol::request::CreateResponse;

    fn response(background: bool, status: ResponseStatus) -> Response {
        let request = CreateResponse { model: Some("m".to_owned()), ..CreateResponse::default() };
        let mut response = echo::created(&request, &IdGenerator::new(), Dialect::OpenAi, 1, &[]).unwrap();
        response.status = status;
        Arc::make_mut(&mut response.echo).background = background;
        response
    }

    /// The webhooks that are told of a response of this tenant.
    fn told(tenant: &str, background: bool, status: ResponseStatus) -> Vec<String> {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let url = "https://example.com";
        let settings = json!({
            "all": {"url": url, "secret": secret},
            "failures": {"url": url, "secret": secret, "events": ["response.failed", "response.cancelled"]},
            "ours": {"url": url, "secret": secret, "tenants": ["acme"]},
        });
        let webhooks = Webhooks::new(&serde_json::from_value(settings).unwrap());
        let owner = Owner { tenant: tenant.into(), principal: "p".into() };
        let notices = webhooks.notices(&owner, &response(background, status), 7);
        notices.iter().map(|notice| notice.webhook.to_string()).collect()
    }

    #[test]
    fn a_webhook_is_told_of_the_events_and_tenants_that_it_names_and_of_background_responses_alone() {
        use ResponseStatus::{Cancelled, Completed, Failed, InProgress, Incomplete, RequiresAction};
        assert_eq!(told("acme", true, Completed), ["all", "ours"]);
        assert_eq!(told("acme", true, RequiresAction), ["all", "ours"]);
        assert_eq!(told("other", true, Failed), ["all", "failures"]);
        assert_eq!(told("other", true, Cancelled), ["all", "failures"]);
        assert_eq!(told("other", true, Incomplete), ["all"]);
        assert_eq!(told("acme", true, InProgress), [""; 0]);
        assert_eq!(told("acme", false, Completed), [""; 0]);
    }
}
