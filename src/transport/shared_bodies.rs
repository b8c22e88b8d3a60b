//! Large stored responses that are being sent: those who read one at the same time share its text and its reservation, so
//! that many readers of one response need the memory of one.

use std::sync::Arc;

use axum::body::Bytes;

use crate::admission::Permit;
use crate::identity::Owner;
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::util::shared_reads::{SharedRead, SharedReads};

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
    pub _reserved: Option<Arc<Permit>>,
}

/// The bytes of a text, which others may share as long as they are being sent.
struct SharedText {
    read: ReservedText,
    _shared: Option<SharedRead<ReadText>>,
}

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.read.text.as_bytes()
    }
}

/// The bytes of a text. `shared`: the read by which others get it.
pub(super) fn bytes(read: ReservedText, shared: Option<SharedRead<ReadText>>) -> Bytes {
    Bytes::from_owner(SharedText { read, _shared: shared })
}
