//! The caller context that servers receive if configured: `_meta["antwort/context"]`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use antwort_config::McpContext;
use antwort_tools::CallbackAddress;
use antwort_util::digest::sha256;

/// Key in `_meta` of a call: where the result of work is reported that goes on.
pub(super) const CALLBACK_KEY: &str = "antwort/callback";

/// The value of [`CALLBACK_KEY`].
pub(super) fn callback_value(address: &CallbackAddress) -> Value {
    json!({"url": address.url, "expires_at": address.expires_at})
}

/// Key in `_meta`.
pub(super) const META_KEY: &str = "antwort/context";

/// The caller of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnBehalfOf<'a> {
    /// User id from the request; `None`: the principal is the user.
    pub user: Option<&'a str>,
    /// Principal of the API key.
    pub principal: &'a str,
    /// `metadata.channel` of the request.
    pub channel: Option<&'a str>,
    /// `metadata.chat_id` of the request.
    pub chat: Option<&'a str>,
}

/// The context that one server receives about one caller. Lists and calls with different contexts share no state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerContext {
    members: Map<String, Value>,
    fingerprint: [u8; 32],
}

impl CallerContext {
    /// The context; `None` if the server is configured to receive none.
    pub(super) fn new(parts: &[McpContext], tenant: &str, of: OnBehalfOf<'_>) -> Option<Arc<Self>> {
        if parts.is_empty() {
            return None;
        }
        let member = |what: &McpContext| match what {
            McpContext::Tenant => Some(("tenant", tenant)),
            McpContext::User => Some(("user", of.user.unwrap_or(of.principal))),
            McpContext::Channel => Some(("channel", of.channel?)),
            McpContext::Chat => Some(("chat", of.chat?)),
        };
        // The map is sorted by key, so that the order in the configuration does not affect the fingerprint.
        let members: Map<String, Value> =
            parts.iter().filter_map(member).map(|(name, value)| (name.to_owned(), value.into())).collect();
        let json = Value::Object(members.clone()).to_string();
        Some(Arc::new(Self { members, fingerprint: sha256(json.as_bytes()) }))
    }

    /// The members sent to the server.
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// Hash of the context.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_what_it_is_configured_to_be_told_and_no_more() {
        let of = OnBehalfOf { user: Some("u1"), principal: "ann", channel: Some("c"), chat: None };
        assert_eq!(CallerContext::new(&[], "red", of), None);
        let parts = |what: &[McpContext]| {
            Value::Object(CallerContext::new(what, "red", of).expect("a context").members().clone())
        };
        assert_eq!(parts(&[McpContext::Tenant]), json!({"tenant": "red"}));
        let all = [McpContext::Chat, McpContext::Channel, McpContext::User, McpContext::Tenant];
        assert_eq!(parts(&all), json!({"tenant": "red", "user": "u1", "channel": "c"}));
        let nobody = OnBehalfOf { user: None, ..of };
        let context = CallerContext::new(&[McpContext::User], "red", nobody).expect("a context");
        assert_eq!(context.members()["user"], "ann");
    }

    #[test]
    fn contexts_are_the_same_only_if_all_of_them_is() {
        let fingerprint = |user: &str, chat: Option<&str>| {
            let of = OnBehalfOf { user: Some(user), chat, ..OnBehalfOf::default() };
            let parts = [McpContext::User, McpContext::Chat];
            *CallerContext::new(&parts, "red", of).expect("a context").fingerprint()
        };
        assert_eq!(fingerprint("a", None), fingerprint("a", None));
        assert_ne!(fingerprint("a", None), fingerprint("b", None));
        assert_ne!(fingerprint("a", None), fingerprint("a", Some("")));
        assert_ne!(fingerprint("a", Some("b")), fingerprint("b", Some("a")));
    }
}
