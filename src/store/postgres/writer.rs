//! A writer: a connection of its own, on which the writes that are queued are committed in groups.
//!
//! All writes that wait when it looks are committed together, so that they share the cost of a commit and of the way to
//! the server; no write waits for a group to fill. If a group fails, its writes are made one by one, so that a bad one
//! does not fail the others. Of a commit whose outcome is unknown, as the connection was lost, the writes are made again:
//! each of them is the same if it is made twice.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::connection::Connection;
use super::error::Cause;
use super::conversation_locks::HeldLocks;
use super::fast_finish::{self, FastFinish};
use super::link::Link;
use super::pipeline::in_order;
use super::queue::{Command, Reply, run_of};
use super::session::Session;
use super::transaction::{Access, MAX_ATTEMPTS, begin_sql, pause};
use super::{orphans, write};
use crate::store::StoreError;
use crate::store::in_flight::InFlightRows;
use crate::store::operation::{Write, WriteOutcome};
use crate::store::row_policy::{RowPolicy, now};

/// Writes of a group.
const GROUP_WRITES: usize = 128;
/// Bytes of a group: all of it is in memory twice.
const GROUP_BYTES: usize = 4 << 20;

/// A writer.
pub(super) struct Writer {
    pub link: Link,
    pub policy: Arc<RowPolicy>,
    pub in_flight: InFlightRows,
    pub locks: HeldLocks,
}

/// A write that waits for its commit.
struct Pending {
    write: Write,
    answer: Reply,
    /// Whether it was made already, and perhaps committed.
    is_repeated: bool,
}

impl Writer {
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let (mut taken, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
        while commands.recv_many(&mut taken, GROUP_WRITES).await > 0 {
            for command in taken.drain(..) {
                match command {
                    Command::Write(write, answer) => {
                        let size = write.size();
                        if bytes + size > GROUP_BYTES {
                            self.commit(std::mem::take(&mut group)).await;
                            bytes = 0;
                        }
                        bytes += size;
                        group.push(Pending { write, answer, is_repeated: false });
                    }
                    Command::Erase(request) => {
                        self.commit(std::mem::take(&mut group)).await;
                        self.in_flight.erase(&request);
                    }
                    Command::Check(answer) => {
                        self.commit(std::mem::take(&mut group)).await;
                        let checked = self.check().await;
                        _ = answer.send(checked);
                    }
                    Command::Close(done) => {
                        self.commit(std::mem::take(&mut group)).await;
                        commands.close();
                        _ = done.send(());
                        return;
                    }
                }
            }
            self.commit(std::mem::take(&mut group)).await;
            bytes = 0;
        }
    }

    /// Commits the group, and replies to its callers.
    async fn commit(&mut self, group: Vec<Pending>) {
        if group.is_empty() {
            return;
        }
        let connection = match self.link.connection().await {
            Ok(connection) => connection,
            Err(error) => {
                for pending in group {
                    self.fail(pending, &error);
                }
                return;
            }
        };
        let mut rest = self.commit_fast(&connection, group).await;
        if rest.len() > 1 && !rest.iter().any(|pending| pending.is_repeated) {
            rest = self.commit_together(&connection, rest).await;
        }
        for pending in rest {
            self.commit_alone(pending).await;
        }
    }

    /// Commits those that one statement makes. Returns the others.
    async fn commit_fast(&mut self, connection: &Connection, group: Vec<Pending>) -> Vec<Pending> {
        let session = Session::new(connection);
        let mut seen = HashSet::new();
        let mut chosen = Vec::new();
        for (place, pending) in group.iter().enumerate() {
            // Another write of the run is made before it.
            let is_first = group.len() == 1 || seen.insert(run_of(&pending.write));
            if let Some(record) = fast_finish::record(&pending.write, &self.in_flight).filter(|_| is_first)
                && let Ok(owner) = self.link.owner(session, &record.owner).await
            {
                chosen.push((place, FastFinish::new(&self.policy, owner, record)));
            }
        }
        if chosen.is_empty() {
            return group;
        }
        let made = send(session, &chosen).await;
        let is_lost = connection.fate.cause() == Some(Cause::Connection);
        if made.is_err() {
            self.roll_back(connection).await;
        }
        let chosen: Vec<usize> = chosen.iter().map(|(place, _)| *place).collect();
        let mut rest = Vec::new();
        let mut made = made.unwrap_or_default().into_iter();
        for (place, mut pending) in group.into_iter().enumerate() {
            if chosen.contains(&place) {
                if made.next() == Some(true) {
                    self.succeed(pending, WriteOutcome::Changed);
                    continue;
                }
                pending.is_repeated = is_lost;
            }
            rest.push(pending);
        }
        rest
    }

    /// Commits these in one transaction. Returns them all if that fails.
    async fn commit_together(&mut self, connection: &Connection, group: Vec<Pending>) -> Vec<Pending> {
        let session = Session::new(connection);
        let made = self.make(session, group.iter().map(|pending| &pending.write)).await;
        match made {
            Ok(outcomes) => {
                self.in_flight.commit();
                for (pending, outcome) in group.into_iter().zip(outcomes) {
                    self.succeed(pending, outcome);
                }
                Vec::new()
            }
            Err(_) => {
                self.in_flight.rollback();
                let is_repeated = connection.fate.cause() == Some(Cause::Connection);
                self.roll_back(connection).await;
                group.into_iter().map(|pending| Pending { is_repeated, ..pending }).collect()
            }
        }
    }

    /// Commits one write, and again if something was in its way.
    async fn commit_alone(&mut self, mut pending: Pending) {
        let mut attempts = 0;
        loop {
            let connection = match self.link.connection().await {
                Ok(connection) => connection,
                Err(error) => return self.fail(pending, &error),
            };
            let session = Session::new(&connection);
            let made = self.make(session, std::iter::once(&pending.write)).await;
            let made = match made {
                Ok(outcomes) => {
                    self.in_flight.commit();
                    let outcome = outcomes.first().copied().unwrap_or(WriteOutcome::Absent);
                    match pending.is_repeated {
                        true => write::repeated(session, &pending.write, outcome).await,
                        false => Ok(outcome),
                    }
                }
                Err(error) => {
                    self.in_flight.rollback();
                    Err(error)
                }
            };
            let error = match made {
                Ok(outcome) => return self.succeed(pending, outcome),
                Err(error) => error,
            };
            let cause = connection.fate.cause();
            self.roll_back(&connection).await;
            attempts += 1;
            match cause {
                Some(Cause::Conflict) if attempts < MAX_ATTEMPTS => {}
                Some(Cause::Connection) if attempts < MAX_ATTEMPTS => pending.is_repeated = true,
                _ => return self.fail(pending, &error),
            }
            drop(connection);
            tokio::time::sleep(pause(attempts)).await;
        }
    }

    /// One transaction for these writes; all or nothing.
    async fn make(
        &mut self,
        session: Session<'_>,
        writes: impl ExactSizeIterator<Item = &Write>,
    ) -> Result<Vec<WriteOutcome>, StoreError> {
        if let Some(begin) = begin_sql(Access::Write, self.link.limit()) {
            session.batch(&begin).await?;
        }
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            outcomes.push(write::apply(session, &self.policy, &self.locks, &mut self.in_flight, write).await?);
        }
        session.batch("COMMIT").await?;
        Ok(outcomes)
    }

    /// Ends the transaction that has failed. A connection that is of no more use is left.
    async fn roll_back(&mut self, connection: &Connection) {
        if connection.fate.cause() == Some(Cause::Connection) {
            return self.link.leave();
        }
        match Session::new(connection).batch("ROLLBACK").await {
            Ok(()) => connection.fate.forgive(),
            Err(_) => self.link.leave(),
        }
    }

    fn succeed(&mut self, pending: Pending, outcome: WriteOutcome) {
        if let Write::Finish(record) = &pending.write {
            self.in_flight.remove(&record.lease);
            self.in_flight.commit();
        }
        self.link.health.recover();
        _ = pending.answer.send(Ok(outcome));
    }

    fn fail(&mut self, pending: Pending, error: &StoreError) {
        tracing::error!(%error, "store: a write failed");
        self.in_flight.abandon(&pending.write);
        self.link.failed(error);
        _ = pending.answer.send(Err(error.clone()));
    }

    /// Whether a write is possible now. Releases the runs whose end could not be written.
    async fn check(&mut self) -> Result<(), StoreError> {
        let connection = self.link.connection().await?;
        let session = Session::new(&connection);
        let checked = self.probe(session).await;
        match &checked {
            Ok(()) => {
                self.in_flight.forget_abandoned();
                self.link.health.recover();
            }
            Err(error) => {
                self.link.failed(error);
                self.roll_back(&connection).await;
            }
        }
        checked
    }
}

const PROBE: &str =
    "INSERT INTO probe (id, written) VALUES (0, $1) ON CONFLICT (id) DO UPDATE SET written = $1";

/// Sends these in one transaction and one round trip. Returns for each whether its row was written.
async fn send(session: Session<'_>, chosen: &[(usize, FastFinish<'_>)]) -> Result<Vec<bool>, StoreError> {
    let [(_, first), others @ ..] = chosen else { return Ok(Vec::new()) };
    first.prepare(session).await?;
    if others.is_empty() && session.is_limited() {
        // A statement alone is a transaction.
        return Ok(vec![first.send(session).await?]);
    }
    let begin = begin_sql(Access::Write, session.limit()).unwrap_or_default();
    let all = chosen.iter().map(|(_, finish)| finish.send(session));

    async fn probe(&self, session: Session<'_>) -> Result<(), StoreError> {
        session.batch(&begin_sql(Access::Write, self.link.limit()).unwrap_or_default()).await?;
        session.execute(PROBE, &[(&now(), tokio_postgres::types::Type::INT8)]).await?;
        orphans::release_abandoned(session, &self.policy, self.in_flight.abandoned()).await?;
        session.batch("COMMIT").await
    }
    in_order(session.batch(&begin), all, session.batch("COMMIT")).await
}
