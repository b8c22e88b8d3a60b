//! Large stored responses that are being sent: those who read one at the same time share its text and its reservation, so
//! that many readers of one response need the memory of one.

use std::sync::Arc;

use antwort_identity::Owner;
use antwort_limits::Permit;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_util::shared_reads::SharedReads;

/// The texts that are being read or sent.
pub(crate) type SharedBodies = SharedReads<ResponseText, ReadText>;
pub(super) type ReadText = Result<Option<ReservedText>, ApiError>;

/// A response that is being made changes; one that has another size is another text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ResponseText {
    pub owner: Owner,
    pub id: Id,
    pub bytes: u64,
}

/// A stored text with its reservation.
#[derive(Debug, Clone)]
pub(crate) struct ReservedText {
    pub text: Arc<str>,
    pub reserved: Option<Arc<Permit>>,
}
