//! Locks of conversations: a row each, so that they hold between processes, with a time to live, so that a process that is
//! gone keeps none.
//!
//! Within a process a map decides. So a lock that was dropped, and whose row is not deleted yet, can be taken again at
//! once: the row of the same process is no obstacle. For other processes the write that ends a turn deletes the row
//! (`conversation_turns`); the task that follows the drops is for runs that end otherwise.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::clock::db_now;
use super::session::{Param, Session};
use antwort_store::{ConversationLock, StoreError};

/// The owner and the id of a conversation.
type Place = (i64, Box<[u8]>);

/// A lock whose row is to be deleted.
pub(super) type Released = (Place, Uuid);

/// The locks that this process holds.
#[derive(Debug, Clone)]
pub(super) struct HeldLocks {
    held: Arc<Mutex<HashMap<Place, Uuid>>>,
    released: mpsc::UnboundedSender<Released>,
}

/// The place of a lock in the map, until it is dropped.
struct Held {
    locks: HeldLocks,
    lock: Released,
    /// Whether there may be a row.
    has_row: bool,
}

const TAKE: &str = concat!(
    "INSERT INTO conversation_locks AS l (owner, conversation, instance, holder, until) VALUES ($1, $2, $3, $4, ",
    db_now!(),
    " + $5) ON CONFLICT (owner, conversation) DO UPDATE
        SET instance = excluded.instance, holder = excluded.holder, until = excluded.until
        WHERE l.instance = excluded.instance OR l.until <= ",
    db_now!(),
    " - $6"
);
const RENEW: &str = concat!(
    "UPDATE conversation_locks l SET until = ",
    db_now!(),
    " + $4 FROM unnest($1::bigint[], $2::bytea[], $3::uuid[]) AS h (owner, conversation, holder)
    WHERE l.owner = h.owner AND l.conversation = h.conversation AND l.holder = h.holder"
);
const RELEASE: &str =
    "DELETE FROM conversation_locks l USING unnest($1::bigint[], $2::bytea[], $3::uuid[]) AS h (owner, conversation, holder)
    WHERE l.owner = h.owner AND l.conversation = h.conversation AND l.holder = h.holder";
const RELEASE_ALL: &str = "DELETE FROM conversation_locks WHERE instance = $1";
/// Releases the lock of one run. Without a row of its own it was taken by another run, which has perhaps ended since.
const RELEASE_ONE: &str =
    "DELETE FROM conversation_locks WHERE owner = $1 AND conversation = $2 AND holder = $3";
/// Releases what a run of this process has held, and finds a lock that another process has.
const RELEASE_DROPPED: &str = concat!(
    "WITH dropped AS (
        DELETE FROM conversation_locks WHERE owner = $1 AND conversation = $2 AND instance = $3)
    SELECT 1 FROM conversation_locks
    WHERE owner = $1 AND conversation = $2 AND instance <> $3 AND until > ",
    db_now!()
);
/// Processes that are gone leave theirs. A day later no run can go on that holds one and was not heard of since: its row
/// shows that nobody else has had the conversation.
const SWEEP: &str = concat!(
    "DELETE FROM conversation_locks WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM conversation_locks WHERE until <= ",
    db_now!(),
    " - 86400000 LIMIT 500 FOR UPDATE SKIP LOCKED))"
);

impl HeldLocks {
    /// No locks, and the locks that will have been dropped.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Released>) {
        let (released, drops) = mpsc::unbounded_channel();
        (Self { held: Arc::default(), released }, drops)
    }

    /// Locks a conversation for this process, which is called `instance`, for so many milliseconds unless it is renewed. Another
    /// process must have had it for `grace` milliseconds longer than its time.
    pub(super) async fn lock(
        &self,
        session: Session<'_>,
        (instance, lease, grace): (&str, i64, i64),
        owner: i64,
        id: &str,
    ) -> Result<Option<ConversationLock>, StoreError> {
        let id = id.as_bytes();
        let Some(mut held) = self.reserve((owner, id.into())) else { return Ok(None) };
        let holder = held.lock.1;
        let parameters: [Param<'_>; 6] = [
            (&owner, Type::INT8),
            (&id, Type::BYTEA),
            (&instance, Type::TEXT),
            (&holder, Type::UUID),
            (&lease, Type::INT8),
            (&grace, Type::INT8),
        ];
        // Whoever stops waiting may have taken it.
        held.has_row = true;
        let taken = session.execute(TAKE, &parameters).await?;
        held.has_row = taken > 0;
        Ok((taken > 0).then(|| ConversationLock::new(held)))
    }

    fn reserve(&self, place: Place) -> Option<Held> {
        let holder = Uuid::now_v7();
        let mut held = self.held.lock();
        if held.contains_key(&place) {
            return None;
        }
        held.insert(place.clone(), holder);
        Some(Held { locks: self.clone(), lock: (place, holder), has_row: false })
    }

    /// Releases the row of a conversation in which a run of this process ends. Returns whether no other run has taken the
    /// conversation since this one has.
    pub(super) async fn release(
        &self,
        session: Session<'_>,
        instance: &str,
        owner: i64,
        id: &str,
    ) -> Result<bool, StoreError> {
        let id = id.as_bytes();
        let holder = self.held.lock().get(&(owner, Box::from(id))).copied();
        let place: [Param<'_>; 2] = [(&owner, Type::INT8), (&id, Type::BYTEA)];
        let [owner, id] = place;
        match holder {
            Some(holder) => Ok(session.execute(RELEASE_ONE, &[owner, id, (&holder, Type::UUID)]).await? > 0),
            None => {
                let parameters = [owner, id, (&instance as _, Type::TEXT)];
                Ok(session.query_opt(RELEASE_DROPPED, &parameters).await?.is_none())
            }
        }
    }

    /// Prolongs the locks that this process holds.
    pub(super) async fn renew(&self, session: Session<'_>, lease: i64) -> Result<(), StoreError> {
        let held: Vec<Released> =
            self.held.lock().iter().map(|(place, holder)| (place.clone(), *holder)).collect();
        if held.is_empty() {
            return Ok(());
        }
        let columns = Columns::of(&held);
        let mut parameters = columns.parameters().to_vec();
        parameters.push((&lease, Type::INT8));
        session.execute(RENEW, &parameters).await.map(drop)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.held.lock().remove(&self.lock.0);
        if self.has_row {
            // Without a receiver the store is closed, and its locks are released.
            _ = self.locks.released.send(self.lock.clone());
        }
    }
}

/// Deletes the rows of locks that were dropped. One that was taken again since stays.
pub(super) async fn release(session: Session<'_>, dropped: &[Released]) -> Result<(), StoreError> {
    session.execute(RELEASE, &Columns::of(dropped).parameters()).await.map(drop)
}

/// Deletes all rows of the process of this name.
pub(super) async fn release_all(session: Session<'_>, instance: &str) -> Result<(), StoreError> {
    session.execute(RELEASE_ALL, &[(&instance, Type::TEXT)]).await.map(drop)
}

/// Deletes rows whose time is over.
pub(super) async fn sweep(session: Session<'_>) -> Result<(), StoreError> {
    session.execute(SWEEP, &[]).await.map(drop)
}

/// Locks, as the parameters of a statement.
struct Columns<'a> {
    owners: Vec<i64>,
    conversations: Vec<&'a [u8]>,
    holders: Vec<Uuid>,
}

impl<'a> Columns<'a> {
    fn of(locks: &'a [Released]) -> Self {
        Self {
            owners: locks.iter().map(|((owner, _), _)| *owner).collect(),
            conversations: locks.iter().map(|((_, id), _)| &**id).collect(),
            holders: locks.iter().map(|(_, holder)| *holder).collect(),
        }
    }

    fn parameters(&self) -> [Param<'_>; 3] {
        [
            (&self.owners, Type::INT8_ARRAY),
            (&self.conversations, Type::BYTEA_ARRAY),
            (&self.holders, Type::UUID_ARRAY),
        ]
    }
}
