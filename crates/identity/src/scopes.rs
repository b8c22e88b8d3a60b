//! Scopes: what a caller may do; nothing unless it is granted.

use super::Scope;
use antwort_protocol::error::{ApiError, ErrorKind};

/// A set of scopes; the default is the empty one, which allows nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u32);

impl Scopes {
    /// The set of exactly these scopes; `*` is kept as a scope of its own.
    pub fn new(scopes: &[Scope]) -> Self {
        Self(scopes.iter().fold(0, |set, scope| set | bit(*scope)))
    }

    pub(crate) fn allow(self, scope: Scope) -> bool {
        self.names(scope) || self.names(Scope::All)
    }

    /// Whether the scope itself was granted; `*` does not count.
    pub fn names(self, scope: Scope) -> bool {
        self.0 & bit(scope) != 0
    }
}

fn bit(scope: Scope) -> u32 {
    1 << scope as u16
}

/// The error of a caller that lacks a scope.
pub(super) fn missing(scope: Scope) -> ApiError {
    let message = format!("This API key lacks the scope `{}`, which this operation needs.", scope.name());
    ApiError::new(ErrorKind::PermissionDenied, message)
}

/// The error of a caller that has an operator's scope by `*` alone.
pub(super) fn not_named(scope: Scope) -> ApiError {
    let message = format!(
        "This gateway has keys of several tenants, and this operation is about all of them: the API key must name the scope \
         `{}`; `*` does not contain it here.",
        scope.name()
    );
    ApiError::new(ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use super::super::Scope;
    use super::Scopes;
    use crate::Principal;

    const EACH: [Scope; 14] = [
        Scope::ResponsesCreate,
        Scope::ResponsesRead,
        Scope::ResponsesDelete,
        Scope::ModelsRead,
        Scope::ChatCreate,
        Scope::EmbeddingsCreate,
        Scope::PassThroughCreate,
        Scope::MetricsRead,
        Scope::ToolsRead,
        Scope::ToolsExecute,
        Scope::ToolsAdmin,
        Scope::McpAdmin,
        Scope::AgentsRead,
        Scope::DataAdmin,
    ];

    #[test]
    fn what_is_not_said_is_denied() {
        for scope in EACH {
            assert!(!Scopes::default().allow(scope), "{scope:?}");
            assert!(Scopes::new(&[Scope::All]).allow(scope), "{scope:?}");
            let only = Scopes::new(&[scope]);
            assert_eq!(EACH.iter().filter(|other| only.allow(**other)).count(), 1, "{scope:?}");
            assert!(only.allow(scope) && !only.allow(Scope::All));
        }
    }

    #[test]
    fn a_refusal_names_the_scope() {
        let caller = Principal { scopes: Scopes::new(&[Scope::ResponsesRead]), ..Principal::anonymous() };
        assert!(caller.require(Scope::ResponsesRead).is_ok());
        let error = caller.require(Scope::ResponsesDelete).expect_err("refused");
        assert_eq!(
            (error.kind.status(), &*error.body.kind, error.code()),
            (403, "permission_error", "insufficient_scope")
        );
        assert!(error.body.message.contains("`responses:delete`"), "{}", error.body.message);
    }
}
