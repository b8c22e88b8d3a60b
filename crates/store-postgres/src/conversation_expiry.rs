//! Deletes conversations with their items, in bounded steps.
//!
//! The one that was used longest ago comes first. A conversation that is deleted is marked in the first step, and its row
//! goes with its last items. Several processes may do this at once: each takes conversations that no other has.

use tokio_postgres::types::Type;

use super::conversations::DELETED;
use super::session::{Param, Session};
use super::values::{get, text};
use antwort_store::StoreError;
use antwort_store::retention::TenantRetentions;
use antwort_store::row_policy::now;

/// Items that a step deletes.
pub(super) const STEP_ITEMS: i64 = 500;
/// Conversations that a step looks at.
const LOOK_ROWS: i64 = 200;
/// Conversations that a round passes.
const ROUND_ROWS: usize = 2_000;

/// Whether a run goes on in the conversation `c`: its turn is appended at its end.
macro_rules! is_locked {
    () => {
        concat!(
            "EXISTS (SELECT 1 FROM conversation_locks l WHERE l.owner = c.owner AND l.conversation = c.id AND l.until > ",
            super::clock::db_now!(),
            ")"
        )
    };
}
pub(super) use is_locked;

const USED: &str = "SELECT c.key, c.used_at, o.tenant FROM conversations c JOIN owners o ON o.key = c.owner
    WHERE (c.used_at, c.key) > ($1, $2) AND c.used_at <= $3 ORDER BY c.used_at, c.key LIMIT $4";
/// Marks those that were not used since, in which no run goes on.
const MARK: &str = concat!(
    "UPDATE conversations SET used_at = 0, metadata = ''::bytea WHERE key IN (
        SELECT c.key FROM conversations c JOIN unnest($1::bigint[], $2::bigint[]) AS g (key, oldest) ON g.key = c.key
        WHERE c.used_at <= g.oldest AND (c.used_at = 0 OR NOT ",
    is_locked!(),
    ") FOR UPDATE OF c SKIP LOCKED) RETURNING key"
);
const DELETE_ITEMS: &str = "DELETE FROM conversation_items WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM conversation_items WHERE conversation = ANY($1) LIMIT $2 FOR UPDATE))";
const DELETE_EMPTY: &str = "DELETE FROM conversations c WHERE c.key = ANY($1)
    AND NOT EXISTS (SELECT 1 FROM conversation_items i WHERE i.conversation = c.key)";

/// A walk over the conversations that no tenant has used for some time.
#[derive(Debug, Default)]
pub(super) struct ConversationWalk {
    /// The last use and the key of the last one that was passed.
    position: Option<(i64, i64)>,
    /// Rows that may still be passed in this round.
    left: usize,
}

impl ConversationWalk {
    pub(super) fn begin_round(&mut self) {
        self.left = ROUND_ROWS;
    }

    /// One step of deleting expired conversations, in a transaction of its own; [`Self::go_on`] notes it behind the
    /// commit. Those that live on, as their tenants keep them for longer, are passed, and looked at again by the next
    /// walk.
    pub(super) async fn step(
        &self,
        session: Session<'_>,
        retentions: &TenantRetentions,
    ) -> Result<Step, StoreError> {
        let now = now();
        let (used_at, key) = self.position.unwrap_or((DELETED, 0));
        let newest = retentions.newest_expired_use(now);
        let parameters: [Param<'_>; 4] =
            [(&used_at, Type::INT8), (&key, Type::INT8), (&newest, Type::INT8), (&LOOK_ROWS, Type::INT8)];
        let found = session.query(USED, &parameters).await?;
        let (mut expired, mut last) = (Vec::new(), None);
        for row in &found {
            let (key, used_at): (i64, i64) = (get(row, 0)?, get(row, 1)?);
            let oldest = retentions.of(text(row, 2)?).oldest_use(now).max(DELETED);
            if used_at <= oldest {
                expired.push((key, oldest));
            }
            last = Some((used_at, key));
        }
        let handled = delete_unused(session, &expired).await?;
        if handled > 0 {
            // Looked at again from the same place.
            return Ok(Step { position: self.position, handled, is_end: false });
        }
        let position = last.filter(|_| found.len() as i64 == LOOK_ROWS);
        Ok(Step { position, handled: found.len(), is_end: position.is_none() })
    }

    /// Notes a step. Returns whether there may be more to do in this round.
    pub(super) fn go_on(&mut self, step: Step) -> bool {
        self.position = step.position;
        self.left = self.left.saturating_sub(step.handled.max(1));
        !step.is_end && self.left > 0
    }
}

/// What a step has come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    position: Option<(i64, i64)>,
    handled: usize,
    is_end: bool,
}

/// Deletes what is enough for one transaction of these conversations (with their last uses at most), of those that were not
/// used since and that no other process deletes. Returns how many were handled.
async fn delete_unused(session: Session<'_>, expired: &[(i64, i64)]) -> Result<usize, StoreError> {
    if expired.is_empty() {
        return Ok(0);
    }
    let (keys, oldest): (Vec<i64>, Vec<i64>) = expired.iter().copied().unzip();
    let marked = session.query(MARK, &[(&keys, Type::INT8_ARRAY), (&oldest, Type::INT8_ARRAY)]).await?;
    let marked = marked.iter().map(|row| get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
    if !marked.is_empty() {
        delete_parts(session, &marked).await?;
    }
    Ok(marked.len())
}

/// Deletes as much of conversations that are marked as is enough for one transaction. Returns how many are gone.
pub(super) async fn delete_parts(session: Session<'_>, marked: &[i64]) -> Result<u64, StoreError> {
    session.execute(DELETE_ITEMS, &[(&marked, Type::INT8_ARRAY), (&STEP_ITEMS, Type::INT8)]).await?;
    session.execute(DELETE_EMPTY, &[(&marked, Type::INT8_ARRAY)]).await
}

/// The same of one conversation. Returns whether nothing is left of it.
pub(super) async fn delete_part(session: Session<'_>, marked: i64) -> Result<bool, StoreError> {
    if delete_parts(session, &[marked]).await? > 0 {
        return Ok(true);
    }
    let left = session.query_opt(IS_LEFT, &[(&marked, Type::INT8)]).await?;
    Ok(left.is_none())
}

/// Maintenance of another process may have deleted the rest.
const IS_LEFT: &str = "SELECT 1 FROM conversations WHERE key = $1";
