//! Who calls, and what they may do.
//!
//! Turns a request's headers into a [`Principal`] or a 401, and a principal's scopes into a yes or a 403.
//! Floor 3: which route needs which scope is the transport's business.

mod api_key;
mod scope;

use std::sync::Arc;

use hyper::HeaderMap;

use crate::config::{AuthSettings, Scope};
use crate::protocol::dialect::Dialect;
use crate::protocol::error::ApiError;
use crate::protocol::request::ClientActionStatus;
use crate::store::Owner;

use api_key::ApiKeys;
pub(crate) use scope::Scopes;

/// A caller, as far as the gateway knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The key's name in the configuration, or `anonymous`; for logs.
    pub name: Arc<str>,
    /// Whose rows the caller's responses are.
    pub owner: Owner,
    /// What the caller may do.
    pub scopes: Scopes,
    /// Which names the caller's responses use, if not the general ones.
    pub dialect: Option<Dialect>,
    /// Status of the caller's responses that wait for its functions, if the key says one.
    pub client_action_status: Option<ClientActionStatus>,
}

impl Principal {
    /// The caller of a gateway that asks for no key: an owner like any other, so that its rows have one too.
    pub(crate) fn anonymous() -> Self {
        let name: Arc<str> = "anonymous".into();
        let owner = Owner { tenant: "default".into(), principal: Arc::clone(&name) };
        Self { name, owner, scopes: Scopes::new(&[Scope::All]), dialect: None, client_action_status: None }
    }

    /// Whether the caller may do this.
    ///
    /// # Errors
    /// 403 that names the scope.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.allow(scope) { Ok(()) } else { Err(scope::missing(scope)) }
    }
}

/// Tells callers apart.
#[derive(Debug)]
pub(crate) struct Authenticator(Mode);

#[derive(Debug)]
enum Mode {
    /// No key is configured, or that none is needed was said.
    Open(Principal),
    /// A key is needed.
    Keys(ApiKeys),
}

impl Authenticator {
    /// Callers as configured.
    pub(crate) fn new(settings: &AuthSettings) -> Self {
        Self(if settings.none || settings.keys.is_empty() {
            Mode::Open(Principal::anonymous())
        } else {
            Mode::Keys(ApiKeys::new(&settings.keys))
        })
    }

    /// Whether callers need no key.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.0, Mode::Open(_))
    }

    /// Who sent these headers.
    ///
    /// Where no key is needed, any key is ignored: SDKs refuse to work without one and are given inventions.
    ///
    /// # Errors
    /// 401 if a key is needed and none, or a wrong one, was sent.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, ApiError> {
        match &self.0 {
            Mode::Open(anonymous) => Ok(anonymous.clone()),
            Mode::Keys(keys) => keys.find(headers),
        }
    }
}
