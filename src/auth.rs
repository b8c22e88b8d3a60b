//! Authentication and authorization: turns a request's headers into a [`Principal`] or a 401, and checks its scopes.
//!
//! Which route needs which scope is decided in `transport`.

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

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The key's name in the configuration, or `anonymous`; for logs.
    pub name: Arc<str>,
    /// The owner of the caller's responses.
    pub owner: Owner,
    pub scopes: Scopes,
    /// Names on the wire for this caller; `None`: the configured default.
    pub dialect: Option<Dialect>,
    /// The status of responses that wait for the caller's functions, if the key sets one.
    pub client_action_status: Option<ClientActionStatus>,
}

impl Principal {
    /// The caller of a gateway without keys: an owner like any other, so that its rows have one, too.
    pub(crate) fn anonymous() -> Self {
        let name: Arc<str> = "anonymous".into();
        let owner = Owner { tenant: "default".into(), principal: Arc::clone(&name) };
        Self { name, owner, scopes: Scopes::new(&[Scope::All]), dialect: None, client_action_status: None }
    }

    /// Checks that the caller has this scope.
    ///
    /// # Errors
    /// 403 `insufficient_scope` with the scope's name.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.allow(scope) { Ok(()) } else { Err(scope::missing(scope)) }
    }
}

/// Authenticates callers.
#[derive(Debug)]
pub(crate) struct Authenticator(Mode);

#[derive(Debug)]
enum Mode {
    /// No key is configured, or authentication is switched off.
    Open(Principal),
    /// A key is required.
    Keys(ApiKeys),
}

impl Authenticator {
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

    /// The caller that sent these headers.
    ///
    /// If no key is required, any key is ignored: SDKs refuse to work without one and are given made-up ones.
    ///
    /// # Errors
    /// 401 if a key is required and none, or an unknown one, was sent.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, ApiError> {
        match &self.0 {
            Mode::Open(anonymous) => Ok(anonymous.clone()),
            Mode::Keys(keys) => keys.find(headers),
        }
    }
}
