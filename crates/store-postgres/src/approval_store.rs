//! [`Approvals`] in PostgreSQL.

use async_trait::async_trait;

use super::transaction::{Access, transact};
use super::{PostgresStore, approvals};
use antwort_protocol::id::Id;
use antwort_store::{ApprovalClaim, Approvals, ClaimOutcome, Owner, PendingApproval, StoreError};

#[async_trait]
impl Approvals for PostgresStore {
    async fn add_approvals(&self, pending: Vec<PendingApproval>) -> Result<(), StoreError> {
        let mut owned = Vec::with_capacity(pending.len());
        for approval in &pending {
            owned.push((self.owners.key(&self.pool, &approval.owner).await?, approval));
        }
        transact!(self.pool, Access::Write, session => {
            // A run of this process that has no row may be deleted at any time until now.
            owned.retain(|(_, approval)| !self.is_deleted(&approval.owner, &approval.response));
            approvals::insert(session, &owned).await
        })?;
        // A deletion that was made until the commit has not seen them.
        owned.retain(|(_, approval)| self.is_deleted(&approval.owner, &approval.response));
        for (owner, approval) in owned {
            transact!(self.pool, Access::Statement, session => {
                approvals::delete_by_response(session, owner, approval.response.as_str()).await
            })?;
        }
        Ok(())
    }

    async fn approvals(
        &self,
        owner: &Owner,
        ids: &[Id],
        by: Option<&Id>,
    ) -> Result<Vec<Option<PendingApproval>>, StoreError> {
        transact!(self.pool, Access::Statement, session => {
            match self.owners.find(session, owner).await? {
                Some(key) => approvals::find(session, (key, owner), ids, by).await,
                None => Ok(vec![None; ids.len()]),
            }
        })
    }

    async fn claim_approvals(
        &self,
        owner: &Owner,
        by: &Id,
        claims: Vec<ApprovalClaim>,
        now: i64,
    ) -> Result<ClaimOutcome, StoreError> {
        if claims.is_empty() {
            return Ok(ClaimOutcome::Granted);
        }
        transact!(self.pool, Access::Write, session => {
            match self.owners.find(session, owner).await? {
                Some(key) => approvals::claim(session, (key, by), &claims, now).await,
                None => Ok(ClaimOutcome::Unknown),
            }
        })
    }
}
