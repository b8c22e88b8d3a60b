//! Webhooks: who is told of the end of background responses.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::masks;

/// How a secret begins.
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of the key in a secret.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// One webhook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Where notices are sent.
    #[serde(serialize_with = "masks::masked_query_of")]
    pub url: String,
    /// Signs notices: `whsec_` and the base64 of 24 to 64 bytes.
    #[serde(serialize_with = "masks::masked")]
    pub secret: SecretString,
    /// The events of which it is told.
    #[serde(default = "all_events")]
    pub events: Vec<WebhookEvent>,
    /// The tenants of whose responses it is told; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<String>>,
}

impl WebhookSettings {
    /// The key in its secret; `None` if that is none.
    pub fn key(&self) -> Option<Vec<u8>> {
        let text = self.secret.expose_secret().strip_prefix(SECRET_PREFIX)?;
        BASE64_STANDARD.decode(text).ok().filter(|key| KEY_BYTES.contains(&key.len()))
    }
}

fn all_events() -> Vec<WebhookEvent> {
    use WebhookEvent::{Cancelled, Completed, Failed, Incomplete, ToolCallCompleted};
    vec![Completed, Failed, Incomplete, Cancelled, ToolCallCompleted]
}

/// An event of which webhooks are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WebhookEvent {
    /// A response was completed, or waits for its client.
    #[serde(rename = "response.completed")]
    Completed,
    /// A response has failed.
    #[serde(rename = "response.failed")]
    Failed,
    /// A response ended early.
    #[serde(rename = "response.incomplete")]
    Incomplete,
    /// A response was cancelled.
    #[serde(rename = "response.cancelled")]
    Cancelled,
    /// A tool whose work has gone on after its call has reported its result, or has not in time.
    #[serde(rename = "antwort:tool_call.completed")]
    ToolCallCompleted,
}

impl WebhookEvent {
    /// Its `type` in notices.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "response.completed",
            Self::Failed => "response.failed",
            Self::Incomplete => "response.incomplete",
            Self::Cancelled => "response.cancelled",
            Self::ToolCallCompleted => "antwort:tool_call.completed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_a_prefix_and_enough_bytes() {
        let key = |secret: &str| {
            let json = serde_json::json!({"url": "https://example.com", "secret": secret});
            serde_json::from_value::<WebhookSettings>(json).unwrap().key().map(|key| key.len())
        };
        assert_eq!(key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Some(24));
        for bad in
            ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_MfKQ", "whsec_not base64, but long enough"]
        {
            assert_eq!(key(bad), None, "{bad}");
        }
    }

    #[test]
    fn its_secret_is_not_shown() {
        let json =
            serde_json::json!({"url": "https://example.com/hook?key=s3cret", "secret": "whsec_s3cret"});
        let webhook: WebhookSettings = serde_json::from_value(json).unwrap();
        let shown = format!("{webhook:?} {}", serde_json::to_string(&webhook).unwrap());
        assert!(
            !serde_json::to_string(&webhook).unwrap().contains("s3cret") && !shown.contains("whsec_s3"),
            "{shown}"
        );
    }
}
