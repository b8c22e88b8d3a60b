//! Identity: who a caller is, what the caller may do, whose rows and whose shares a request uses.
//!
//! Limits, store, authentication and engine share these types; none of them knows how a caller was
//! authenticated, which is in `auth`.

mod callers;
mod owner;
mod principal;
mod requester;
mod scope;
mod scopes;
mod store_policy;

pub use callers::Callers;
pub use owner::Owner;
pub use principal::{Principal, Reach};
pub use requester::Requester;
pub use scope::Scope;
pub use scopes::Scopes;
pub use store_policy::StorePolicy;
