//! The caller that a request was authenticated as.

use std::sync::Arc;

use super::scopes::{self, Scopes};
use super::{Owner, Requester};
use crate::config::{Scope, StorePolicy};
use crate::protocol::dialect::Dialect;
use crate::protocol::error::ApiError;
use crate::protocol::request::ClientActionStatus;

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The key's name in the configuration, or `anonymous`; for logs.
    pub name: Arc<str>,
    /// SHA-256 of the API key; `None`: no key was asked for.
    pub key_hash: Option<[u8; 32]>,
    /// The owner of the caller's responses.
    pub owner: Owner,
    pub scopes: Scopes,
    /// Names on the wire for this caller; `None`: the configured default.
    pub dialect: Option<Dialect>,
    /// The status of responses that wait for the caller's functions, if the key sets one.
    pub client_action_status: Option<ClientActionStatus>,
    /// Whether the caller's responses may be stored.
    pub store: StorePolicy,
}

impl Principal {
    /// The caller of a gateway without keys: an owner like any other, so that its rows have one, too.
    pub(crate) fn anonymous() -> Self {
        let name: Arc<str> = "anonymous".into();
        let owner = Owner { tenant: "default".into(), principal: Arc::clone(&name) };
        Self {
            name,
            key_hash: None,
            owner,
            // All data is this caller's.
            scopes: Scopes::new(&[Scope::All, Scope::DataAdmin]),
            dialect: None,
            client_action_status: None,
            store: StorePolicy::Allow,
        }
    }

    /// Checks that the caller has this scope.
    ///
    /// # Errors
    /// 403 `insufficient_scope` with the scope's name.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.allow(scope) { Ok(()) } else { Err(scopes::missing(scope)) }
    }

    /// The tenant and key that the caller's admission quotas are counted for.
    pub(crate) fn requester(&self) -> Requester {
        Requester::new(&self.owner.tenant, &self.name)
    }
}
