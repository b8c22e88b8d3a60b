//! Approval requests of MCP calls, and claims of their approvals.

use async_trait::async_trait;

use super::error::StoreError;
use antwort_identity::Owner;
use antwort_protocol::id::Id;

/// An approval request that is pending. Of its content only hashes are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApproval {
    /// The id of the request, `mcpr_…`.
    pub id: Id,
    /// Who may answer it.
    pub owner: Owner,
    /// The response that made the request; it need not be stored.
    pub response: Id,
    /// SHA-256 of the call: server, tool and canonical arguments.
    pub arguments: [u8; 32],
    /// Keyed hash of the tool's definition, its server, and the credentials for it.
    pub definition: [u8; 32],
    /// In Unix seconds.
    pub expires_at: i64,
}

/// The claim of an approval, which consumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalClaim {
    /// The id of the approval request.
    pub id: Id,
    /// The hash in the approval request.
    pub arguments: [u8; 32],
    /// The hash in the approval request.
    pub definition: [u8; 32],
}

/// The outcome of claiming one or several approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The approvals existed and matched, and are consumed.
    Granted,
    /// There is none, it is another owner's, or it has expired.
    Unknown,
    /// It was consumed before, by another response.
    Used,
    /// It is for another call or definition, and was not consumed.
    Mismatch,
}

/// Approval requests, each consumed at most once.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// Writes approval requests, all or none, and returns when they are committed.
    ///
    /// Those of a response that was deleted since it was begun or registered are dropped, without an error.
    async fn add_approvals(&self, pending: Vec<PendingApproval>) -> Result<(), StoreError>;

    /// Approval requests of this owner that are neither used nor expired, in the requested order. Those that are used by the
    /// response `by` count as not used.
    async fn approvals(
        &self,
        owner: &Owner,
        ids: &[Id],
        by: Option<&Id>,
    ) -> Result<Vec<Option<PendingApproval>>, StoreError>;

    /// Consumes approvals, all of them or, for the first reason there is, none. Of several claims of one approval, in
    /// whatever processes, exactly one is granted, but that what the response `by` has consumed is granted to it again: its
    /// process may be lost before the calls are committed. A caller that stops waiting may have consumed them nevertheless.
    /// `now` is in Unix seconds.
    async fn claim_approvals(
        &self,
        owner: &Owner,
        by: &Id,
        claims: Vec<ApprovalClaim>,
        now: i64,
    ) -> Result<ClaimOutcome, StoreError>;
}
