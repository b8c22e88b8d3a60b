//! Who may have responses made in the background, and whether a response that nobody has sent may be made for whoever sent the first one
//! of its chain.

use super::spec::JobSpec;
use crate::context::EngineParts;
use antwort_config::{Scope, StorePolicy};
use antwort_identity::Owner;
use antwort_protocol::error::{ApiError, ErrorKind};

/// Checks that whoever asked for the first response might ask for it now, as the configuration is.
///
/// # Errors
/// `key_removed` if the key is gone, or is another owner's; `insufficient_scope`; why nothing is stored for the key.
pub(super) fn check_asker(parts: &EngineParts, spec: &JobSpec, owner: &Owner) -> Result<(), ApiError> {
    let found = parts.callers.caller(spec.key(), spec.key_hash()).filter(|caller| caller.owner == *owner);
    let Some(caller) = found else {
        let message =
            "The API key of the request is not configured any more, or is another tenant's or owner's.";
        return Err(ApiError::new(ErrorKind::PermissionDenied, message).with_code("key_removed"));
    };
    caller.require(Scope::ResponsesCreate)?;
    check_policy(caller.store)
}

/// What nobody waits for is kept until it is read.
pub(super) fn check_policy(policy: StorePolicy) -> Result<(), ApiError> {
    match policy {
        StorePolicy::Allow => Ok(()),
        StorePolicy::Never | StorePolicy::Refuse => Err(ApiError::unsupported(
            "background",
            "A background response is kept until it is read, and nothing is stored for this API key: send 'background': \
             false.",
        )),
    }
}
