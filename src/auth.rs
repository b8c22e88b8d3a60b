//! Authentication: turns a request's headers into a [`Principal`], or refuses the request with 401.
//!
//! [`Authenticator`] has a variant for each way to authenticate; each is asked by an `async fn`, as those that look up
//! keys or tokens elsewhere have to wait. Which route needs which scope is decided in `transport`.

mod api_key;

use hyper::HeaderMap;

use antwort_config::AuthSettings;
use antwort_identity::{Callers, Principal};
use antwort_protocol::error::ApiError;

use api_key::ApiKeys;

/// Authenticates callers.
#[derive(Debug)]
pub(crate) enum Authenticator {
    /// No key is configured, or authentication is switched off: every caller is this one.
    Open(Principal),
    /// A key of the configuration is required.
    ApiKeys(ApiKeys),
}

impl Authenticator {
    pub(crate) fn new(settings: &AuthSettings) -> Self {
        if settings.none || settings.keys.is_empty() {
            Self::Open(Principal::anonymous())
        } else {
            Self::ApiKeys(ApiKeys::new(&settings.keys))
        }
    }

    /// Whether callers need no key.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// The caller that sent these headers.
    ///
    /// If no key is required, any key is ignored: SDKs refuse to work without one and are given made-up ones.
    ///
    /// # Errors
    /// 401 if a key is required and none, or an unknown one, was sent.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, ApiError> {
        match self {
            Self::Open(anonymous) => Ok(anonymous.clone()),
            Self::ApiKeys(keys) => keys.authenticate(headers).await,
        }
    }
}

impl Callers for Authenticator {
    fn has_several_tenants(&self) -> bool {
        match self {
            Self::Open(_) => false,
            Self::ApiKeys(keys) => keys.has_several_tenants(),
        }
    }

    fn caller(&self, name: &str, key_hash: Option<&[u8; 32]>) -> Option<&Principal> {
        match (self, key_hash) {
            (Self::Open(anonymous), None) => Some(anonymous).filter(|caller| &*caller.name == name),
            (Self::Open(_), Some(_)) => None,
            (Self::ApiKeys(keys), Some(hash)) => keys.with_hash(hash),
            (Self::ApiKeys(keys), None) => keys.named(name),
        }
    }
}
