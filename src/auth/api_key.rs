//! Static API keys: the headers that carry them, and their principals.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aws_lc_rs::digest;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue};

use antwort_config::ApiKeySettings;
use antwort_identity::{Owner, Principal, Scopes};
use antwort_protocol::error::{ApiError, ErrorKind};

/// Principals by the SHA-256 of their key.
///
/// Looking up a hash needs no constant-time comparison: its duration depends on bits of a hash that the caller
/// cannot steer towards a stored one, so that it says nothing about a key.
#[derive(Debug)]
pub(crate) struct ApiKeys(HashMap<[u8; 32], Principal>);

impl ApiKeys {
    pub(super) fn new(keys: &BTreeMap<String, ApiKeySettings>) -> Self {
        let principal = |name: &str, key: &ApiKeySettings| Principal {
            name: name.into(),
            key_hash: Some(key.hash),
            owner: Owner { tenant: Arc::clone(&key.tenant), principal: Arc::clone(&key.owner) },
            scopes: Scopes::new(&key.scopes),
            dialect: key.dialect,
            client_action_status: key.client_action_status,
            store: key.store,
        };
        Self(keys.iter().map(|(name, key)| (key.hash, principal(name, key))).collect())
    }

    /// Looked at for operators' requests, which are few.
    pub(super) fn has_several_tenants(&self) -> bool {
        let mut tenants = self.0.values().map(|caller| &caller.owner.tenant);
        tenants.next().is_some_and(|first| tenants.any(|other| other != first))
    }

    pub(super) fn with_hash(&self, hash: &[u8; 32]) -> Option<&Principal> {
        self.0.get(hash)
    }

    /// Looked for rarely, so among all of them.
    pub(super) fn named(&self, name: &str) -> Option<&Principal> {
        self.0.values().find(|caller| &*caller.name == name)
    }

    /// Nothing is waited for: the keys are in memory.
    pub(super) async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, ApiError> {
        let key = presented(headers).ok_or_else(missing)?;
        let hash: [u8; 32] =
            digest::digest(&digest::SHA256, key).as_ref().try_into().map_err(|_| ApiError::internal())?;
        self.0.get(&hash).cloned().ok_or_else(incorrect_key)
    }
}

/// The key of a request, in the header of OpenAI's, Azure's or Anthropic's clients.
fn presented(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(bearer);
    let named =
        || ["api-key", "x-api-key"].iter().find_map(|name| headers.get(*name)).map(HeaderValue::as_bytes);
    bearer.or_else(named).map(<[u8]>::trim_ascii).filter(|key| !key.is_empty())
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, key) = value.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
}

fn missing() -> ApiError {
    unauthorized(
        "No API key was sent. Send one of this gateway's keys as `Authorization: Bearer <key>` \
         (or in the header `api-key`).",
    )
}

/// The key is not repeated, not even in part: error messages end up in logs and are seen by others.
fn incorrect_key() -> ApiError {
    unauthorized("Incorrect API key. The key that was sent is not one of this gateway's keys.")
}

fn unauthorized(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Unauthenticated, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Authenticator;
    use antwort_config::{AuthSettings, Scope, StorePolicy};

    fn settings(keys: &[(&str, &str)]) -> AuthSettings {
        let key = |name: &str, key: &str| ApiKeySettings {
            hash: digest::digest(&digest::SHA256, key.as_bytes()).as_ref().try_into().expect("32 bytes"),
            tenant: "acme".into(),
            owner: format!("owner-of-{name}").into(),
            scopes: vec![Scope::ResponsesRead],
            dialect: None,
            client_action_status: None,
            store: StorePolicy::Allow,
            max_runs: None,
        };
        let keys = keys.iter().map(|(name, text)| ((*name).to_owned(), key(name, text))).collect();
        AuthSettings { none: false, keys }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[tokio::test]
    async fn each_key_is_its_owner_wherever_it_is_sent() {
        let auth = Authenticator::new(&settings(&[("a", "sk-a"), ("b", "sk-b")]));
        for pair in [
            ("authorization", "Bearer sk-b"),
            ("authorization", "bearer  sk-b "),
            ("api-key", "sk-b"),
            ("x-api-key", "sk-b"),
        ] {
            let principal = auth.authenticate(&headers(&[pair])).await.expect("known");
            assert_eq!((&*principal.name, &*principal.owner.principal), ("b", "owner-of-b"), "{pair:?}");
            assert_eq!(&*principal.owner.tenant, "acme");
        }
        let basic = headers(&[("authorization", "Basic dTpw"), ("api-key", "sk-a")]);
        assert_eq!(&*auth.authenticate(&basic).await.expect("known").name, "a");
    }

    #[tokio::test]
    async fn no_key_and_a_wrong_key_are_refused_without_repeating_it() {
        let auth = Authenticator::new(&settings(&[("a", "sk-a")]));
        for (pairs, part) in [
            (vec![], "No API key"),
            (vec![("authorization", "Bearer ")], "No API key"),
            (vec![("authorization", "Basic sk-a")], "No API key"),
            (vec![("authorization", "Bearer sk-wrong")], "Incorrect API key"),
            (vec![("authorization", "Bearer SK-A")], "Incorrect API key"),
            (vec![("api-key", "")], "No API key"),
        ] {
            let error = auth.authenticate(&headers(&pairs)).await.expect_err("refused");
            assert_eq!((error.kind.status(), error.code()), (401, "invalid_api_key"));
            assert!(error.body.message.contains(part), "{pairs:?}: {}", error.body.message);
            assert!(!error.body.message.contains("wrong"), "{}", error.body.message);
        }
    }

    #[tokio::test]
    async fn where_no_key_is_needed_any_is_ignored() {
        let auth = Authenticator::new(&AuthSettings::default());
        let principal =
            auth.authenticate(&headers(&[("authorization", "Bearer made-up")])).await.expect("let in");
        assert_eq!(principal, Principal::anonymous());
        assert_eq!((&*principal.owner.tenant, &*principal.owner.principal), ("default", "anonymous"));
    }
}
