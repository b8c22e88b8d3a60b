//! Retention of single tenants: deletes the responses of a tenant that have expired, and its oldest responses and
//! conversations while it has more than it may have.
//!
//! A walk goes over the rows of the tenant, owner by owner, a limited number in each round of maintenance. It adds up
//! their sizes; at its end the oldest rows are deleted if there are too many bytes. So no write has to count.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::error::database;
use super::keys::{self, BEFORE_ALL};
use super::space::{BATCH_BYTES, used_bytes};
use super::{conversation_expiry, rows, tenant_conversations};
use antwort_store::StoreError;
use antwort_store::conversations::ConversationLocks;
use antwort_store::row_policy::now;

/// Rows that one step looks at.
const STEP_ROWS: usize = 500;
/// Rows that a round looks at.
const ROUND_ROWS: usize = 20_000;
/// Bytes that a row takes beside its texts, about.
const ROW_OVERHEAD: u64 = 100;

const NEXT_OWNER: &str = "SELECT min(key) FROM owners WHERE tenant = ?1 AND key > ?2";

const ROWS: &str = "SELECT key, expires_at <= ?4 AND NOT EXISTS (SELECT 1 FROM runs WHERE response = key),
        octet_length(item_index) + octet_length(items) + octet_length(body)
    FROM responses WHERE owner = ?1 AND key > ?2 AND key < ?3 ORDER BY key LIMIT ?5";

/// The oldest row of an owner that has ended.
const OLDEST: &str =
    "SELECT key, octet_length(item_index) + octet_length(items) + octet_length(body), created_at
    FROM responses WHERE owner = ?1 AND key NOT IN (SELECT response FROM runs) ORDER BY key LIMIT 1";

/// The retention of one tenant, and how far its walk has come.
#[derive(Debug)]
pub(super) struct TenantWalk {
    tenant: Arc<str>,
    /// Only rows older than this many milliseconds are looked at; `None`: all, to add up their sizes.
    older: Option<i64>,
    max_bytes: Option<u64>,
    /// Conversations in which runs go on.
    locks: ConversationLocks,
    stage: Stage,
    /// Rows that may still be looked at in this round.
    left: usize,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Looks at rows: the owner, and the last key that was looked at; the bytes of those that live on.
    Looking { owner: i64, key: i64, bytes: u64 },
    /// Adds up the items of an owner's conversations: the conversation, and the key of the last item.
    Measuring { owner: i64, conversation: i64, item: i64, bytes: u64 },
    /// Deletes the oldest rows, of so many bytes.
    Trimming { excess: u64 },
}

impl Stage {
    const START: Self = Self::Looking { owner: 0, key: BEFORE_ALL, bytes: 0 };
}

impl TenantWalk {
    /// The walk of a tenant; `None` if there is nothing to do for it.
    pub(super) fn new(
        tenant: Arc<str>,
        ttl: Option<i64>,
        max_bytes: Option<u64>,
        locks: ConversationLocks,
    ) -> Option<Self> {
        if ttl.is_none() && max_bytes.is_none() {
            return None;
        }
        let older = ttl.filter(|_| max_bytes.is_none());
        Some(Self { tenant, older, max_bytes, locks, stage: Stage::START, left: 0 })
    }

    /// A walk that adds up all that a tenant has.
    pub(super) fn measuring(tenant: Arc<str>, locks: ConversationLocks) -> Self {
        Self { tenant, older: None, max_bytes: Some(0), locks, stage: Stage::START, left: 0 }
    }

    /// One step of such a walk. Returns the bytes at its end.
    pub(super) fn add_up(&mut self, connection: &mut Connection) -> Result<Option<u64>, StoreError> {
        self.begin_round();
        let has_more = self.step(connection)?;
        Ok(match self.stage {
            // All that it has is more than nothing.
            Stage::Trimming { excess } => Some(excess),
            Stage::Looking { .. } | Stage::Measuring { .. } => (!has_more).then_some(0),
        })
    }

    /// Deletes so many bytes of the oldest rows with the next steps.
    pub(super) fn trim_by(&mut self, excess: u64) {
        self.stage = Stage::Trimming { excess };
    }

    /// Begins a round.
    pub(super) fn begin_round(&mut self) {
        self.left = ROUND_ROWS;
    }

    /// Begins anew, if it is the walk of this tenant.
    pub(super) fn restart(&mut self, tenant: &str) {
        if *self.tenant == *tenant {
            self.stage = Stage::START;
        }
    }

    /// One step: a bounded transaction. Returns whether there is more to do in this round.
    pub(super) fn step(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
        let (stage, handled) = match self.stage {
            Stage::Looking { owner, key, bytes } => self.look(&transaction, owner, key, bytes),
            Stage::Measuring { owner, conversation, item, bytes } => {
                self.measure(&transaction, owner, (conversation, item), bytes)
            }
            Stage::Trimming { excess } => self.trim(&transaction, excess),
        }
        .map_err(database)?;
        transaction.commit().map_err(database)?;
        self.left = self.left.saturating_sub(handled.max(1));
        self.stage = stage.unwrap_or(Stage::START);
        Ok(stage.is_some() && self.left > 0)
    }

    /// Looks at the next rows, and deletes the expired ones. Returns the next stage, `None` at the end of the walk, and
    /// how many rows were handled.
    fn look(
        &self,
        transaction: &Transaction<'_>,
        owner: i64,
        key: i64,
        mut bytes: u64,
    ) -> rusqlite::Result<(Option<Stage>, usize)> {
        let bound = self.older.map_or(i64::MAX, |millis| keys::lowest_at(now().saturating_sub(millis)));
        let found = transaction
            .prepare_cached(ROWS)?
            .query_map(params![owner, key, bound, now(), STEP_ROWS as i64], Found::read)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let enough = used_bytes(transaction)?.saturating_sub(BATCH_BYTES);
        for (place, row) in found.iter().enumerate() {
            if !row.is_expired {
                bytes = bytes.saturating_add(row.bytes);
                continue;
            }
            rows::remove(transaction, row.key)?;
            if used_bytes(transaction)? <= enough {
                return Ok((Some(Stage::Looking { owner, key: row.key, bytes }), place + 1));
            }
        }
        if let Some(last) = found.last().filter(|_| found.len() == STEP_ROWS) {
            return Ok((Some(Stage::Looking { owner, key: last.key, bytes }), found.len()));
        }
        let next = match self.max_bytes {
            Some(_) => Some(Stage::Measuring { owner, conversation: -1, item: -1, bytes }),
            None => self.after_owner(transaction, owner, bytes)?,
        };
        Ok((next, found.len()))
    }

    /// Adds up items of conversations. Returns as `look` does.
    fn measure(
        &self,
        transaction: &Transaction<'_>,
        owner: i64,
        (mut conversation, mut item): (i64, i64),
        mut bytes: u64,
    ) -> rusqlite::Result<(Option<Stage>, usize)> {
        let mut handled = 0;
        while handled < STEP_ROWS {
            let left = STEP_ROWS - handled;
            let (last, count, of_items) =
                tenant_conversations::measure(transaction, conversation, item, left)?;
            bytes = bytes.saturating_add(of_items).saturating_add(ROW_OVERHEAD * count as u64);
            (item, handled) = (last, handled + count);
            if count < left {
                let Some(next) = tenant_conversations::next(transaction, owner, conversation)? else {
                    return Ok((self.after_owner(transaction, owner, bytes)?, handled));
                };
                (conversation, item) = (next, tenant_conversations::before_items(next));
                (bytes, handled) = (bytes.saturating_add(ROW_OVERHEAD), handled + 1);
            }
        }
        Ok((Some(Stage::Measuring { owner, conversation, item, bytes }), handled))
    }

    /// What follows the rows of an owner: those of the next one, or the end.
    fn after_owner(
        &self,
        connection: &Connection,
        owner: i64,
        bytes: u64,
    ) -> rusqlite::Result<Option<Stage>> {
        if let Some(owner) = next_owner(connection, &self.tenant, owner)? {
            return Ok(Some(Stage::Looking { owner, key: BEFORE_ALL, bytes }));
        }
        let excess = self.max_bytes.and_then(|max| bytes.checked_sub(max)).filter(|excess| *excess > 0);
        Ok(excess.map(|excess| Stage::Trimming { excess }))
    }

    /// Deletes the oldest responses, and the conversations that were used longest ago, of all owners of the tenant.
    fn trim(&self, transaction: &Transaction<'_>, excess: u64) -> rusqlite::Result<(Option<Stage>, usize)> {
        let mut oldest = BinaryHeap::new();
        let mut owner = 0;
        while let Some(next) = next_owner(transaction, &self.tenant, owner)? {
            owner = next;
            oldest.extend(oldest_response(transaction, owner)?.map(Reverse));
            let conversations = tenant_conversations::oldest(transaction, owner, &self.locks)?;
            oldest.extend(
                conversations.into_iter().map(|(used_at, key)| {
                    Reverse(Oldest { time: used_at, row: Trimmed::Conversation { key } })
                }),
            );
        }
        let enough = used_bytes(transaction)?.saturating_sub(BATCH_BYTES);
        let (mut excess, mut handled) = (excess, 0);
        while let Some(Reverse(Oldest { row, .. })) = oldest.pop() {
            let bytes = match row {
                Trimmed::Response { key, bytes, owner } => {
                    rows::remove(transaction, key)?;
                    oldest.extend(oldest_response(transaction, owner)?.map(Reverse));
                    bytes
                }
                Trimmed::Conversation { key } => {
                    let first = tenant_conversations::before_items(key);
                    let (_, count, bytes) = tenant_conversations::measure(
                        transaction,
                        key,
                        first,
                        conversation_expiry::STEP_ITEMS,
                    )?;
                    let bytes = bytes.saturating_add(ROW_OVERHEAD * count as u64);
                    handled += count;
                    if !conversation_expiry::delete_part(transaction, key)? {
                        // The next step goes on with it, before all others.
                        return Ok((Some(Stage::Trimming { excess: excess.saturating_sub(bytes) }), handled));
                    }
                    bytes
                }
            };
            handled += 1;
            excess = excess.saturating_sub(bytes);
            if excess == 0 {
                return Ok((None, handled));
            }
            if handled >= STEP_ROWS || used_bytes(transaction)? <= enough {
                return Ok((Some(Stage::Trimming { excess }), handled));
            }
        }
        Ok((None, handled))
    }
}

/// A row that goes first, by its time in Unix milliseconds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Oldest {
    time: i64,
    row: Trimmed,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trimmed {
    Response { key: i64, bytes: u64, owner: i64 },
    Conversation { key: i64 },
}

/// A row that the walk has come to.
struct Found {
    key: i64,
    is_expired: bool,
    bytes: u64,
}

impl Found {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let is_expired = row.get::<_, Option<bool>>(1)?.unwrap_or(false);
        Ok(Self { key: row.get(0)?, is_expired, bytes: size(row, 2)? })
    }
}

/// The bytes of a row, of which this column has those of its texts.
fn size(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let texts = u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0);
    Ok(texts.saturating_add(ROW_OVERHEAD))
}

fn next_owner(connection: &Connection, tenant: &str, after: i64) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(NEXT_OWNER)?.query_row(params![tenant, after], |row| row.get(0))
}

fn oldest_response(connection: &Connection, owner: i64) -> rusqlite::Result<Option<Oldest>> {
    let read = |row: &Row<'_>| {
        let time = row.get::<_, i64>(2)?.saturating_mul(1000);
        Ok(Oldest { time, row: Trimmed::Response { key: row.get(0)?, bytes: size(row, 1)?, owner } })
    };
    connection.prepare_cached(OLDEST)?.query_row([owner], read).optional()
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;

    #[test]
    fn rows_of_a_tenant_are_found_by_their_owners_without_a_sort() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection);
        assert_eq!(
            schema::plan(&connection, NEXT_OWNER),
            ["SEARCH owners USING COVERING INDEX sqlite_autoindex_owners_1 (tenant=?)"]
        );
        assert_eq!(
            schema::plan(&connection, ROWS),
            [
                "SEARCH responses USING INDEX responses_by_owner (owner=? AND key>? AND key<?)",
                "CORRELATED SCALAR SUBQUERY 1",
                "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"
            ]
        );
        assert_eq!(
            schema::plan(&connection, OLDEST)[0],
            "SEARCH responses USING INDEX responses_by_owner (owner=?)"
        );
    }
}
