//! The caller that a request was authenticated as.

use std::sync::Arc;

use super::scopes::{self, Scopes};
use super::{Owner, Requester, Scope, StorePolicy};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::ClientActionStatus;

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The key's name in the configuration, or `anonymous`; for logs.
    pub name: Arc<str>,
    /// SHA-256 of the API key; `None`: no key was asked for.
    pub key_hash: Option<[u8; 32]>,
    /// The owner of the caller's responses.
    pub owner: Owner,
    /// What the caller may do.
    pub scopes: Scopes,
    /// Names on the wire for this caller; `None`: the configured default.
    pub dialect: Option<Dialect>,
    /// The status of responses that wait for the caller's functions, if the key sets one.
    pub client_action_status: Option<ClientActionStatus>,
    /// Whether the caller's responses may be stored.
    pub store: StorePolicy,
}

/// Whose data an operator's scope covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach<'a> {
    /// That of all tenants: the key names the scope.
    AllTenants,
    /// That of the key's own tenant: it has the scope by `*`.
    Tenant(&'a str),
}

impl Reach<'_> {
    /// Whether what belongs to a tenant is covered.
    pub fn covers(self, tenant: &str) -> bool {
        match self {
            Self::AllTenants => true,
            Self::Tenant(own) => own == tenant,
        }
    }
}

impl Principal {
    /// The caller of a gateway without keys: an owner like any other, so that its rows have one, too.
    pub fn anonymous() -> Self {
        let name: Arc<str> = "anonymous".into();
        let owner = Owner { tenant: "default".into(), principal: Arc::clone(&name) };
        Self {
            name,
            key_hash: None,
            owner,
            // All data is this caller's, and who else would operate the gateway?
            scopes: Scopes::new(&[
                Scope::All,
                Scope::DataAdmin,
                Scope::McpAdmin,
                Scope::MetricsRead,
                Scope::ToolsAdmin,
            ]),
            dialect: None,
            client_action_status: None,
            store: StorePolicy::Allow,
        }
    }

    /// Checks that the caller has this scope.
    ///
    /// # Errors
    /// 403 `insufficient_scope` with the scope's name.
    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.allow(scope) { Ok(()) } else { Err(scopes::missing(scope)) }
    }

    /// Checks that the scope itself was granted: `*`, which keys have by default, makes nobody an operator.
    ///
    /// # Errors
    /// 403 `insufficient_scope` with the scope's name.
    pub fn require_named(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.names(scope) { Ok(()) } else { Err(scopes::not_named(scope)) }
    }

    /// What the caller sees and changes by an operator's scope, which it has.
    pub fn reach(&self, scope: Scope) -> Reach<'_> {
        if self.scopes.names(scope) { Reach::AllTenants } else { Reach::Tenant(&self.owner.tenant) }
    }

    /// The tenant and key that the caller's admission quotas are counted for.
    pub fn requester(&self) -> Requester {
        Requester::new(&self.owner.tenant, &self.name)
    }
}
