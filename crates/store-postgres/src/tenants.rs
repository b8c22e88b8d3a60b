//! Retention of single tenants: deletes the responses of a tenant that have expired, and its oldest responses and
//! conversations while it has more than it may have.
//!
//! A walk goes over the rows of the tenant, owner by owner, a limited number in each round of maintenance. It adds up
//! their sizes; at its end the oldest rows are deleted if there are too many bytes. So no write has to count. Of several
//! processes one adds up the rows of a tenant: two would delete twice as much as is too much.

use std::sync::Arc;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::session::{Param, Session};
use super::tenant_trim::ROW_OVERHEAD;
use super::values::{get, unsigned};
use super::{expiry, keys, tenant_trim};
use antwort_store::StoreError;
use antwort_store::row_policy::now;

/// Rows that one step looks at.
const STEP_ROWS: i64 = 500;
/// Rows that a round looks at.
const ROUND_ROWS: usize = 20_000;

const NEXT_OWNER: &str = "SELECT min(key) FROM owners WHERE tenant = $1 AND key > $2";

const ROWS: &str = "SELECT s.key,
        coalesce(s.expires_at <= $4, false)
            AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.response = s.key AND r.owner = s.owner),
        octet_length(s.item_index)::bigint + octet_length(s.items) + octet_length(s.body)
    FROM responses s WHERE s.owner = $1 AND s.key > $2 AND s.key < $3 ORDER BY s.key LIMIT $5";

const ITEMS: &str = "SELECT i.conversation, i.position,
        octet_length(i.wire)::bigint + coalesce(octet_length(i.model_view), 0) + coalesce(octet_length(i.state), 0)
    FROM conversations c JOIN conversation_items i ON i.conversation = c.key
    WHERE c.owner = $1 AND c.key >= $2 AND (i.conversation, i.position) > ($2, $3)
    ORDER BY i.conversation, i.position LIMIT $4";

/// Takes, or keeps, the walk over a tenant's rows.
const TAKE: &str = concat!(
    "INSERT INTO tenant_walks AS w (tenant, holder, until) VALUES ($1, $2, ",
    db_now!(),
    " + $3) ON CONFLICT (tenant) DO UPDATE SET holder = excluded.holder, until = excluded.until
        WHERE w.holder = excluded.holder OR w.until <= ",
    db_now!()
);
const HOLDS: &str = concat!(
    "SELECT 1 FROM tenant_walks WHERE tenant = $1 AND holder = $2 AND until > ",
    db_now!(),
    " FOR UPDATE"
);

/// The retention of one tenant, and how far its walk has come.
#[derive(Debug)]
pub(super) struct TenantWalk {
    tenant: Arc<str>,
    /// Only rows older than this many milliseconds are looked at; `None`: all, to add up their sizes.
    older: Option<i64>,
    max_bytes: Option<u64>,
    /// This process, as the holder of the walk.
    holder: Uuid,
    stage: Stage,
    /// Rows that may still be looked at in this round.
    left: usize,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Looks at responses: the owner, and the last key that was looked at; the bytes of those that live on.
    Looking { owner: i64, key: Uuid, bytes: u64 },
    /// Adds up the items of an owner's conversations: the conversation, and the position of the last item.
    Measuring { owner: i64, conversation: i64, position: i64, bytes: u64 },
    /// Deletes the oldest rows, of so many bytes.
    Trimming { excess: u64 },
}

impl Stage {
    const START: Self = Self::Looking { owner: 0, key: Uuid::nil(), bytes: 0 };
}

impl TenantWalk {
    /// The walk of a tenant; `None` if there is nothing to do for it.
    pub(super) fn new(tenant: Arc<str>, ttl: Option<i64>, max_bytes: Option<u64>) -> Option<Self> {
        if ttl.is_none() && max_bytes.is_none() {
            return None;
        }
        let older = ttl.filter(|_| max_bytes.is_none());
        Some(Self { tenant, older, max_bytes, holder: Uuid::now_v7(), stage: Stage::START, left: 0 })
    }

    /// Begins a round. Returns whether the walk is this process's, for so many milliseconds; another may have it.
    pub(super) async fn begin_round(&mut self, session: Session<'_>, lease: i64) -> Result<bool, StoreError> {
        self.left = ROUND_ROWS;
        let tenant = self.tenant.as_bytes();
        let parameters: [Param<'_>; 3] =
            [(&tenant, Type::BYTEA), (&self.holder, Type::UUID), (&lease, Type::INT8)];
        let is_own = session.execute(TAKE, &parameters).await? > 0;
        if !is_own {
            // Whoever has it counts from the start.
            self.stage = Stage::START;
        }
        Ok(is_own)
    }

    /// Begins anew, if it is the walk of this tenant.
    pub(super) fn restart(&mut self, tenant: &str) {
        if *self.tenant == *tenant {
            self.stage = Stage::START;
        }
    }

    /// One step, in a transaction of its own. Returns the next stage and how many rows were handled, for [`Self::go_on`]
    /// behind the commit.
    pub(super) async fn step(&self, session: Session<'_>) -> Result<(Option<NextStage>, usize), StoreError> {
        let (stage, handled) = match self.stage {
            Stage::Looking { owner, key, bytes } => self.look(session, owner, key, bytes).await?,
            Stage::Measuring { owner, conversation, position, bytes } => {
                self.measure(session, owner, (conversation, position), bytes).await?
            }
            Stage::Trimming { excess } => self.trim(session, excess).await?,
        };
        Ok((stage.map(NextStage), handled))
    }

    /// Notes a step that is committed. Returns whether there is more to do in this round.
    pub(super) fn go_on(&mut self, (stage, handled): (Option<NextStage>, usize)) -> bool {
        self.left = self.left.saturating_sub(handled.max(1));
        let is_end = stage.is_none();
        self.stage = stage.map_or(Stage::START, |stage| stage.0);
        !is_end && self.left > 0
    }

    /// Looks at the next responses, and deletes the expired ones. Returns the next stage, `None` at the end of the walk,
    /// and how many rows were handled.
    async fn look(
        &self,
        session: Session<'_>,
        owner: i64,
        key: Uuid,
        mut bytes: u64,
    ) -> Result<(Option<Stage>, usize), StoreError> {
        let now = now();
        let bound = self.older.map_or(Uuid::max(), |millis| keys::lowest_at(now.saturating_sub(millis)));
        let parameters: [Param<'_>; 5] = [
            (&owner, Type::INT8),
            (&key, Type::UUID),
            (&bound, Type::UUID),
            (&now, Type::INT8),
            (&STEP_ROWS, Type::INT8),
        ];
        let found = session.query(ROWS, &parameters).await?;
        let (mut expired, mut last) = (Vec::new(), key);
        for row in &found {
            last = get(row, 0)?;
            if get(row, 1)? {
                expired.push((last, owner));
            } else {
                bytes = bytes.saturating_add(unsigned(get(row, 2)?)).saturating_add(ROW_OVERHEAD);
            }
        }
        expiry::delete(session, &expired, now).await?;
        if found.len() as i64 == STEP_ROWS {
            return Ok((Some(Stage::Looking { owner, key: last, bytes }), found.len()));
        }
        let next = match self.max_bytes {
            Some(_) => Some(Stage::Measuring { owner, conversation: -1, position: -1, bytes }),
            None => self.after_owner(session, owner, bytes).await?,
        };
        Ok((next, found.len()))
    }

    /// Adds up items of conversations. Returns as `look` does.
    async fn measure(
        &self,
        session: Session<'_>,
        owner: i64,
        (mut conversation, mut place): (i64, i64),
        mut bytes: u64,
    ) -> Result<(Option<Stage>, usize), StoreError> {
        let parameters: [Param<'_>; 4] = [
            (&owner, Type::INT8),
            (&conversation, Type::INT8),
            (&place, Type::INT8),
            (&STEP_ROWS, Type::INT8),
        ];
        let found = session.query(ITEMS, &parameters).await?;
        for row in &found {
            (conversation, place) = (get(row, 0)?, get(row, 1)?);
            bytes = bytes.saturating_add(unsigned(get(row, 2)?)).saturating_add(ROW_OVERHEAD);
        }
        if found.len() as i64 == STEP_ROWS {
            return Ok((Some(Stage::Measuring { owner, conversation, position: place, bytes }), found.len()));
        }
        Ok((self.after_owner(session, owner, bytes).await?, found.len()))
    }

    /// What follows the rows of an owner: those of the next one, or the end.
    async fn after_owner(
        &self,
        session: Session<'_>,
        owner: i64,
        bytes: u64,
    ) -> Result<Option<Stage>, StoreError> {
        let tenant = self.tenant.as_bytes();
        let row = session.query_opt(NEXT_OWNER, &[(&tenant, Type::BYTEA), (&owner, Type::INT8)]).await?;
        let next = row.as_ref().map(|row| get::<Option<i64>>(row, 0)).transpose()?.flatten();
        if let Some(owner) = next {
            return Ok(Some(Stage::Looking { owner, key: Uuid::nil(), bytes }));
        }
        let excess = self.max_bytes.and_then(|max| bytes.checked_sub(max)).filter(|excess| *excess > 0);
        Ok(excess.map(|excess| Stage::Trimming { excess }))
    }

    /// Deletes the oldest rows, if the walk is still this process's.
    async fn trim(&self, session: Session<'_>, excess: u64) -> Result<(Option<Stage>, usize), StoreError> {
        let tenant = self.tenant.as_bytes();
        let holder: [Param<'_>; 2] = [(&tenant, Type::BYTEA), (&self.holder, Type::UUID)];
        if session.query_opt(HOLDS, &holder).await?.is_none() {
            return Ok((None, 0));
        }
        let trimmed = tenant_trim::trim(session, tenant, excess).await?;
        let left = excess.saturating_sub(trimmed.bytes);
        let next = (left > 0 && trimmed.rows > 0).then_some(Stage::Trimming { excess: left });
        Ok((next, trimmed.rows))
    }
}

/// The stage of a walk behind a step.
pub(super) struct NextStage(Stage);
