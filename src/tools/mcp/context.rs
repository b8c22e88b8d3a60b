//! What a server is told of whom it works for, where the operator wants that: `_meta["antwort/context"]`.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Map, Value};

use crate::config::McpContext;

/// The name in `_meta`.
pub(super) const META_KEY: &str = "antwort/context";

/// Whom a request is made for.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnBehalfOf<'a> {
    /// The user, as the client calls them; `None`: the principal is the user.
    pub user: Option<&'a str>,
    /// The principal of the caller's key.
    pub principal: &'a str,
    /// Where the conversation takes place.
    pub channel: Option<&'a str>,
    /// Which conversation there.
    pub chat: Option<&'a str>,
}

/// What one server is told of one caller. Lists and calls that differ in it share nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerContext {
    members: Map<String, Value>,
    fingerprint: [u8; 32],
}

impl CallerContext {
    /// What a server is told; `None`: it is configured to be told nothing.
    pub(super) fn new(told: &[McpContext], tenant: &str, of: OnBehalfOf<'_>) -> Option<Arc<Self>> {
        if told.is_empty() {
            return None;
        }
        let member = |what: &McpContext| match what {
            McpContext::Tenant => Some(("tenant", tenant)),
            McpContext::User => Some(("user", of.user.unwrap_or(of.principal))),
            McpContext::Channel => Some(("channel", of.channel?)),
            McpContext::Chat => Some(("chat", of.chat?)),
        };
        // A map in the order of its names, so that the order of the configuration tells no contexts apart.
        let members: Map<String, Value> =
            told.iter().filter_map(member).map(|(name, value)| (name.to_owned(), value.into())).collect();
        let json = Value::Object(members.clone()).to_string();
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, json.as_bytes()).as_ref());
        Some(Arc::new(Self { members, fingerprint }))
    }

    /// As it is sent.
    pub fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// Tells contexts apart.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_told_what_it_is_configured_to_be_told_and_no_more() {
        let of = OnBehalfOf { user: Some("u1"), principal: "ann", channel: Some("c"), chat: None };
        assert_eq!(CallerContext::new(&[], "red", of), None);
        let told = |what: &[McpContext]| {
            Value::Object(CallerContext::new(what, "red", of).expect("a context").members().clone())
        };
        assert_eq!(told(&[McpContext::Tenant]), json!({"tenant": "red"}));
        let all = [McpContext::Chat, McpContext::Channel, McpContext::User, McpContext::Tenant];
        assert_eq!(told(&all), json!({"tenant": "red", "user": "u1", "channel": "c"}));
        let nobody = OnBehalfOf { user: None, ..of };
        let context = CallerContext::new(&[McpContext::User], "red", nobody).expect("a context");
        assert_eq!(context.members()["user"], "ann");
    }

    #[test]
    fn contexts_are_the_same_only_if_all_of_them_is() {
        let fingerprint = |user: &str, chat: Option<&str>| {
            let of = OnBehalfOf { user: Some(user), chat, ..OnBehalfOf::default() };
            let told = [McpContext::User, McpContext::Chat];
            *CallerContext::new(&told, "red", of).expect("a context").fingerprint()
        };
        assert_eq!(fingerprint("a", None), fingerprint("a", None));
        assert_ne!(fingerprint("a", None), fingerprint("b", None));
        assert_ne!(fingerprint("a", None), fingerprint("a", Some("")));
        assert_ne!(fingerprint("a", Some("b")), fingerprint("b", Some("a")));
    }
}
