//! Claims of runs that wait for a process.
//!
//! The rows are locked first, and read by another statement behind the locks: what the holder before has committed until
//! then is seen, and what it tries to commit later is refused.

use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::error::corrupt;
use super::keys::id_of;
use super::removal::Place;
use super::session::{Param, Session};
use super::taken_runs::{self, Taken};
use super::values::get;
use antwort_store::row_policy::RowPolicy;
use antwort_store::taken_run::MAX_BATCH_BYTES;
use antwort_store::{ClaimedJob, JobTurns, Lease, StoreError};

/// Which `runs r` are the next ones of their conversations. One that was cancelled ends without being made.
macro_rules! is_next {
    () => {
        "(r.conversation IS NULL OR r.cancel_requested OR NOT EXISTS (SELECT 1 FROM runs e
            WHERE e.owner = r.owner AND e.conversation = r.conversation AND (e.place, e.response) < (r.place, r.response)))"
    };
}

/// Which `runs r` nobody has claimed, or were given back.
macro_rules! is_waiting {
    () => {
        concat!(
            "r.attempt IS NOT NULL AND r.instance = '' AND r.lease_until < ",
            db_now!(),
            " AND ",
            is_next!()
        )
    };
}

/// Whose holder is gone, as the instance $1 sees it, as its lease has expired for so many milliseconds: of its own runs only those
/// that were given up.
macro_rules! is_left {
    ($grace:literal) => {
        concat!(
            "r.attempt IS NOT NULL AND r.instance <> '' AND r.lease_until < ",
            db_now!(),
            " - ",
            $grace,
            " AND (r.instance <> $1 OR r.orphan IS NOT NULL)"
        )
    };
}

/// Which `runs r` nobody has claimed that wait, or are of one of the tenants $3.
macro_rules! is_candidate {
    () => {
        concat!("r.attempt IS NOT NULL AND r.instance = '' AND (r.tenant = ANY($3) OR (", is_waiting!(), "))")
    };
}

/// The tenants of which runs wait, or which are among $3: at most $4 from the name $2 on, and as many from the first on; and
/// those of the runs that are left. Each step of a walk is a look into the index, however many runs a tenant has there.
macro_rules! tenants_from {
    ($name:literal, $start:literal) => {
        concat!(
            $name,
            " (tenant, n) AS ((SELECT r.tenant, 1 FROM runs r WHERE ",
            is_candidate!(),
            " AND r.tenant >= ",
            $start,
            " ORDER BY r.tenant LIMIT 1)
            UNION ALL SELECT t.tenant, w.n + 1 FROM ",
            $name,
            " w CROSS JOIN LATERAL (SELECT r.tenant FROM runs r WHERE ",
            is_candidate!(),
            " AND r.tenant > w.tenant ORDER BY r.tenant LIMIT 1) t WHERE w.n < $4)"
        )
    };
}

/// Behind each tenant, whether the store has rows of several.
pub const TENANTS_IN_TURN: &str = concat!(
    "WITH RECURSIVE ",
    tenants_from!("ahead", "$2"),
    ", ",
    tenants_from!("around", "''::bytea"),
    " SELECT w.tenant, (SELECT o.tenant FROM owners o
        WHERE o.tenant > (SELECT f.tenant FROM owners f WHERE f.tenant > '' ORDER BY f.tenant LIMIT 1)
        ORDER BY o.tenant LIMIT 1) IS NOT NULL
    FROM (SELECT tenant FROM (SELECT tenant FROM ahead UNION ALL SELECT tenant FROM around) AS a (tenant)
        UNION SELECT r.tenant FROM runs r WHERE ",
    is_left!("$5"),
    ") AS w (tenant)"
);

/// The tenants whose runs are claimed next, one for each run. Usually there are none; then no transaction is needed.
pub(super) async fn deal(
    session: Session<'_>,
    policy: &RowPolicy,
    (turns, grace): (&JobTurns, i64),
) -> Result<Vec<Arc<str>>, StoreError> {
    if turns.limit() == 0 {
        return Ok(Vec::new());
    }
    let (first, full) = (turns.first(), turns.full());
    let full: Vec<&[u8]> = full.iter().map(|tenant| tenant.as_bytes()).collect();
    let candidates = i32::try_from(turns.candidates()).unwrap_or(i32::MAX);
    let parameters: [Param<'_>; 5] = [
        (&policy.instance.as_str(), Type::TEXT),
        (&first.as_bytes(), Type::BYTEA),
        (&full, Type::BYTEA_ARRAY),
        (&candidates, Type::INT4),
        (&grace, Type::INT8),
    ];
    let found = session.query(TENANTS_IN_TURN, &parameters).await?;
    let tenant = |row: &Row| Ok(Arc::from(str::from_utf8(get(row, 0)?).map_err(corrupt)?));
    let waiting = found.iter().map(tenant).collect::<Result<_, StoreError>>()?;
    let has_others = found.first().map(|row| get::<bool>(row, 1)).transpose()?;
    Ok(turns.deal(waiting, has_others.unwrap_or(false)))
}

/// The oldest of each tenant that no other process claims or writes at this moment. The bounds of the tenant are not one
/// equation, so that the rows are taken in the order of the index that begins with it.
macro_rules! oldest_sql {
    ($is:expr) => {
        concat!(
            "SELECT * FROM (SELECT r.response, r.owner FROM runs r
                WHERE r.tenant >= g.tenant AND r.tenant <= g.tenant AND ",
            $is,
            " ORDER BY r.tenant, r.response, r.owner LIMIT g.room FOR UPDATE SKIP LOCKED)"
        )
    };
}

/// Of the tenants $2 the oldest runs, of each as many as $3 says.
pub const CLAIM_OLDEST: &str = concat!(
    "SELECT t.response, t.owner, g.place
    FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY AS g (tenant, room, place) CROSS JOIN LATERAL (",
    oldest_sql!(is_waiting!()),
    " AS w UNION ALL ",
    oldest_sql!(is_left!("$4")),
    " AS l ORDER BY response, owner LIMIT g.room) AS t"
);

/// One that was given back for a while is nobody's, and may be claimed before that time.
const LOCK_ONE: &str = concat!(
    "SELECT r.response, r.owner FROM runs r WHERE r.response = $2 AND r.owner = $3
        AND (r.attempt IS NOT NULL AND r.instance = '' AND ",
    is_next!(),
    " OR ",
    is_left!("$4"),
    ") FOR UPDATE"
);

const CLAIMED: &str =
    "SELECT r.response, s.id, r.epoch FROM runs r JOIN responses s ON s.key = r.response AND s.owner = r.owner
    WHERE r.attempt IS NOT NULL AND r.instance <> '' AND r.instance = $1 AND r.orphan IS NULL";

/// The leases of the runs that this process has claimed.
pub(super) async fn claimed(session: Session<'_>, policy: &RowPolicy) -> Result<Vec<Lease>, StoreError> {
    let found = session.query(CLAIMED, &[(&policy.instance.as_str(), Type::TEXT)]).await?;
    let lease = |row: &Row| {
        let epoch = u32::try_from(get::<i32>(row, 2)?).map_err(corrupt)?;
        Ok(Lease { id: id_of(get(row, 0)?, get(row, 1)?)?, epoch })
    };
    found.iter().map(lease).collect()
}

/// Locks the oldest runs of these tenants, one for each time that it is named, in this order.
pub(super) async fn lock_oldest(
    session: Session<'_>,
    policy: &RowPolicy,
    (dealt, grace): (&[Arc<str>], i64),
) -> Result<Vec<Place>, StoreError> {
    let mut rooms: Vec<(&[u8], i64)> = Vec::new();
    for tenant in dealt {
        match rooms.iter_mut().find(|(of, _)| *of == tenant.as_bytes()) {
            Some((_, room)) => *room += 1,
            None => rooms.push((tenant.as_bytes(), 1)),
        }
    }
    let (tenants, counts): (Vec<_>, Vec<_>) = rooms.into_iter().unzip();
    let parameters: [Param<'_>; 4] = [
        (&policy.instance.as_str(), Type::TEXT),
        (&tenants, Type::BYTEA_ARRAY),
        (&counts, Type::INT8_ARRAY),
        (&grace, Type::INT8),
    ];
    let mut found = Vec::new();
    for row in &session.query(CLAIM_OLDEST, &parameters).await? {
        found.push((get::<i64>(row, 2)?, (get(row, 0)?, get(row, 1)?)));
    }
    Ok(in_turn(found))
}

/// What was found of each tenant, the oldest of each first, in the order of their turns.
fn in_turn(mut found: Vec<(i64, Place)>) -> Vec<Place> {
    found.sort_unstable();
    let (mut before, mut round) = (None, 0);
    let mut rounds: Vec<(usize, i64, Place)> = Vec::with_capacity(found.len());
    for (tenant, place) in found {
        round = if before == Some(tenant) { round + 1 } else { 0 };
        before = Some(tenant);
        rounds.push((round, tenant, place));
    }
    rounds.sort_unstable();
    rounds.into_iter().map(|(.., place)| place).collect()
}

/// Locks this run, if it waits.
pub(super) async fn lock_one(
    session: Session<'_>,
    policy: &RowPolicy,
    ((response, owner), grace): (Place, i64),
) -> Result<Vec<Place>, StoreError> {
    let parameters: [Param<'_>; 4] = [
        (&policy.instance.as_str(), Type::TEXT),
        (&response, Type::UUID),
        (&owner, Type::INT8),
        (&grace, Type::INT8),
    ];
    let found = session.query(LOCK_ONE, &parameters).await?;
    found.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// Of these, the first ones whose bytes before them are not too many.
const CLAIM: &str = concat!(
    "WITH sized AS (
        SELECT r.response, r.owner, b.bytes,
            sum(b.bytes) OVER (ORDER BY g.place) - b.bytes AS before
        FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS g (response, owner, place)
        JOIN runs r ON r.response = g.response AND r.owner = g.owner
        JOIN responses s ON s.key = r.response AND s.owner = r.owner
        CROSS JOIN LATERAL (SELECT octet_length(s.items) + octet_length(s.body)
            + coalesce(octet_length(r.state), 0) + coalesce(octet_length(r.job), 0)
            + coalesce((SELECT sum(octet_length(t.items)) FROM turns t
                WHERE t.response = r.response AND t.owner = r.owner), 0)
            + coalesce((SELECT sum(octet_length(c.arguments) + coalesce(octet_length(c.output), 0)) FROM tool_calls c
                WHERE c.response = r.response AND c.owner = r.owner), 0)
            + coalesce((SELECT sum(coalesce(octet_length(c.request), 0) + coalesce(octet_length(c.output), 0)) FROM pending_calls c
                WHERE c.response = r.response AND c.owner = r.owner), 0) AS bytes) b)
    UPDATE runs r SET instance = $1, epoch = r.epoch + 1, lease_until = $4 + ",
    db_now!(),
    ", orphan = NULL, attempt = r.attempt + 1, claim = $5, waits_until = NULL
    FROM sized z, responses s, owners o
    WHERE r.response = z.response AND r.owner = z.owner AND z.before < $6
        AND s.key = r.response AND s.owner = r.owner AND o.key = r.owner
    RETURNING ",
    taken_runs::columns!(),
    ", r.attempt, r.job, r.conversation IS NOT NULL"
);

/// Claims runs that are locked, in this order, as many as are not too large together. One that is damaged has no job, and so
/// it fails.
pub(super) async fn claim(
    session: Session<'_>,
    policy: &RowPolicy,
    claim: Uuid,
    places: &[Place],
) -> Result<Vec<ClaimedJob>, StoreError> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let (responses, owners): (Vec<Uuid>, Vec<i64>) = places.iter().copied().unzip();
    let parameters: [Param<'_>; 6] = [
        (&policy.instance.as_str(), Type::TEXT),
        (&responses, Type::UUID_ARRAY),
        (&owners, Type::INT8_ARRAY),
        (&policy.lease, Type::INT8),
        (&claim, Type::UUID),
        (&(MAX_BATCH_BYTES as i64), Type::INT8),
    ];
    let rows = session.query(CLAIM, &parameters).await?;
    let mut claimed = Vec::with_capacity(rows.len());
    for Taken { row, place, run, is_damaged } in taken_runs::read(session, &rows).await? {
        let attempt = get::<i32>(row, taken_runs::COLUMNS)?.unsigned_abs();
        let spec = get::<Option<&[u8]>>(row, taken_runs::COLUMNS + 1)?.filter(|_| !is_damaged);
        let (spec, in_conversation) = (spec.unwrap_or_default().into(), get(row, taken_runs::COLUMNS + 2)?);
        claimed.push((place, ClaimedJob { run, spec, attempt, in_conversation }));
    }
    let turn = |place: &Place| places.iter().position(|of| of == place);
    claimed.sort_by_cached_key(|(place, _)| turn(place));
    Ok(claimed.into_iter().map(|(_, job)| job).collect())
}

const UNDO: &str =
    "UPDATE runs SET instance = '', claim = NULL, lease_until = 0, attempt = greatest(attempt - 1, 0)
    WHERE instance = $1 AND claim = ANY($2) AND attempt IS NOT NULL";

/// Gives back what claims have got of which nobody was told, as the connection was lost at their commit.
pub(super) async fn undo(
    session: Session<'_>,
    policy: &RowPolicy,
    claims: &[Uuid],
) -> Result<(), StoreError> {
    let parameters: [Param<'_>; 2] = [(&policy.instance.as_str(), Type::TEXT), (&claims, Type::UUID_ARRAY)];
    session.execute(UNDO, &parameters).await.map(drop)
}
