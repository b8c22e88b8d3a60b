//! The table of owners: each row names its owner by a number. No row is ever deleted, so that processes may keep the
//! numbers.

use moka::sync::Cache;
use tokio_postgres::types::Type;

use super::pool::Pool;
use super::session::{Param, Session};
use super::transaction::{Access, transact};
use super::values::get;
use antwort_store::{Owner, StoreError};

/// Owners whose numbers a process keeps.
const MAX_KEPT: u64 = 10_000;

const FIND: &str = "SELECT key FROM owners WHERE tenant = $1 AND principal = $2";

const ADD: &str =
    "INSERT INTO owners (tenant, principal) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING key";

/// The numbers of owners.
pub(super) struct OwnerKeys(Cache<Owner, i64>);

impl OwnerKeys {
    pub(super) fn new() -> Self {
        Self(Cache::new(MAX_KEPT))
    }

    /// The number of this owner; `None` if it has never stored anything.
    pub(super) async fn find(&self, session: Session<'_>, owner: &Owner) -> Result<Option<i64>, StoreError> {
        if let Some(known) = self.0.get(owner) {
            return Ok(Some(known));
        }
        let (tenant, principal) = (owner.tenant.as_bytes(), owner.principal.as_bytes());
        let params: [Param<'_>; 2] = [(&tenant, Type::BYTEA), (&principal, Type::BYTEA)];
        let Some(row) = session.query_opt(FIND, &params).await? else { return Ok(None) };
        let key = get(&row, 0)?;
        // In a transaction, too, the row is one that was committed.
        self.0.insert(owner.clone(), key);
        Ok(Some(key))
    }

    /// The number of this owner, which is new if it stores something for the first time. It is committed when this
    /// returns, and not part of any transaction.
    pub(super) async fn key(&self, pool: &Pool, owner: &Owner) -> Result<i64, StoreError> {
        match self.0.get(owner) {
            Some(known) => Ok(known),
            None => {
                let new = transact!(pool, Access::Statement, session => key(session, owner).await)?;
                self.0.insert(owner.clone(), new);
                Ok(new)
            }
        }
    }

    /// The same, on a connection on which no transaction is open.
    pub(super) async fn key_on(&self, session: Session<'_>, owner: &Owner) -> Result<i64, StoreError> {
        let (tenant, principal) = (owner.tenant.as_bytes(), owner.principal.as_bytes());
        let params: [Param<'_>; 2] = [(&tenant, Type::BYTEA), (&principal, Type::BYTEA)];
        loop {
            if let Some(known) = self.find(session, owner).await? {
                return Ok(known);
            }
            // If another process adds the same, it is found next.
            if let Some(row) = session.query_opt(ADD, &params).await? {
                let key = get(&row, 0)?;
                self.0.insert(owner.clone(), key);
                return Ok(key);
            }
        }
    }
}

/// The number of this owner; `None` if it has never stored anything.
pub(super) async fn find(session: Session<'_>, owner: &Owner) -> Result<Option<i64>, StoreError> {
    let (tenant, principal) = (owner.tenant.as_bytes(), owner.principal.as_bytes());
    let row = session.query_opt(FIND, &[(&tenant, Type::BYTEA), (&principal, Type::BYTEA)]).await?;
    row.map(|row| get(&row, 0)).transpose()
}

/// The number of this owner, which is new if it stores something for the first time.
pub(super) async fn key(session: Session<'_>, owner: &Owner) -> Result<i64, StoreError> {
    let (tenant, principal) = (owner.tenant.as_bytes(), owner.principal.as_bytes());
    loop {
        if let Some(known) = find(session, owner).await? {
            return Ok(known);
        }
        // If another process adds the same, it is found next.
        let added = session.query_opt(ADD, &[(&tenant, Type::BYTEA), (&principal, Type::BYTEA)]).await?;
        if let Some(row) = added {
            return get(&row, 0);
        }
    }
}
