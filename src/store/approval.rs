//! Calls that wait for a person's approval, and what comes of asking for one.

use super::Owner;
use crate::protocol::id::Id;

/// A call that waits for a person's approval. Of its content only hashes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApproval {
    /// The id of the request for approval, `mcpr_…`.
    pub id: Id,
    /// Who may approve it.
    pub owner: Owner,
    /// The response that asks; it need not be stored.
    pub response: Id,
    /// SHA-256 of the arguments in their canonical form.
    pub arguments: [u8; 32],
    /// Keyed hash of the tool's definition, its server, and the credentials for that.
    pub definition: [u8; 32],
    /// Unix seconds from which it counts no more.
    pub expires_at: i64,
}

/// The use of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalClaim {
    /// The id of the request for approval.
    pub id: Id,
    /// As it was asked for.
    pub arguments: [u8; 32],
    /// As it was asked for.
    pub definition: [u8; 32],
}

/// What came of using an approval, or several at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// It was there and matched, and is used up now.
    Granted,
    /// There is none, it is another owner's, or it has expired.
    Unknown,
    /// It was used before.
    Used,
    /// It is for other arguments or another definition, and stays unused.
    Mismatch,
}
