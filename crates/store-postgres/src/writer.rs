//! A writer: a connection of its own, on which the writes that are queued are committed in groups.
//!
//! All writes that wait when it looks are committed together, so that they share the cost of a commit and of the way to
//! the server; no write waits for a group to fill. If a group fails, its writes are made one by one, so that a bad one
//! does not fail the others. Of a commit whose outcome is unknown, as the connection was lost, the writes are made again:
//! each of them is the same if it is made twice. While the server is away, the writes of runs that have a row wait for it
//! (`postponed`); others fail, as their clients can repeat them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;

use super::connection::Connection;
use super::conversation_locks::HeldLocks;
use super::error::{Cause, closed};
use super::fast_finish::{self, FastFinish};
use super::link::Link;
use super::pending_write::Pending;
use super::pipeline::in_order;
use super::postponed::Postponed;
use super::queue::{Command, run_of};
use super::session::Session;
use super::transaction::{Access, MAX_ATTEMPTS, begin_sql, pause};
use super::{orphans, write};
use antwort_store::StoreError;
use antwort_store::in_flight::InFlightRows;
use antwort_store::operation::{Write, WriteOutcome};
use antwort_store::row_policy::{RowPolicy, now};

/// Writes of a group.
const GROUP_WRITES: usize = 128;
/// Bytes of a group: all of it is in memory twice.
const GROUP_BYTES: usize = 4 << 20;

/// A writer.
pub(super) struct Writer {
    pub link: Link,
    pub policy: Arc<RowPolicy>,
    pub locks: HeldLocks,
    pub in_flight: InFlightRows,
    pub postponed: Postponed,
}

impl Writer {
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let (mut taken, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
        loop {
            let next = commands.recv_many(&mut taken, GROUP_WRITES);
            match self.postponed.until_retry(next).await {
                None => {
                    self.retry_postponed().await;
                    continue;
                }
                Some(0) => break,
                Some(_) => {}
            }
            for command in taken.drain(..) {
                match command {
                    Command::Write(write, answer) => {
                        let size = write.size();
                        if bytes + size > GROUP_BYTES {
                            self.commit(std::mem::take(&mut group)).await;
                            bytes = 0;
                        }
                        bytes += size;
                        group.push(Pending::new(write, answer));
                    }
                    Command::Erase(request) => {
                        self.commit(std::mem::take(&mut group)).await;
                        self.in_flight.erase(&request);
                    }
                    Command::Check(answer) => {
                        self.commit(std::mem::take(&mut group)).await;
                        if !answer.is_closed() {
                            let checked = self.check().await;
                            _ = answer.send(checked);
                        }
                    }
                    Command::Close(done) => {
                        self.commit(std::mem::take(&mut group)).await;
                        commands.close();
                        self.retry_postponed().await;
                        self.give_up_postponed();
                        _ = done.send(());
                        return;
                    }
                }
            }
            self.commit(std::mem::take(&mut group)).await;
            bytes = 0;
        }
        self.give_up_postponed();
    }

    /// Commits the group, and replies to its callers. What is behind a write that waits waits with it.
    async fn commit(&mut self, mut group: Vec<Pending>) {
        if !self.postponed.is_empty() {
            let ready = |pending| self.postponed.add_behind(pending, &self.in_flight);
            group = group.into_iter().filter_map(ready).collect();
        }
        if group.is_empty() {
            return;
        }
        let connection = match self.link.connection().await {
            Ok(connection) => connection,
            Err(error) => {
                for pending in group {
                    self.postpone(pending, &error);
                }
                return;
            }
        };
        let mut rest = self.commit_fast(&connection, group).await;
        if rest.len() > 1 && !rest.iter().any(|pending| pending.lost.is_some()) {
            rest = self.commit_together(&connection, rest).await;
        }
        for pending in rest {
            if let Some(pending) = self.postponed.add_behind(pending, &self.in_flight) {
                self.commit_alone(pending).await;
            }
        }
    }

    /// Tries the first of the writes that wait, and the others if that succeeds.
    async fn retry_postponed(&mut self) {
        let began = Instant::now();
        let (expired, error) = self.postponed.take_expired();
        for pending in expired {
            self.fail(pending, &error);
        }
        let mut waiting = self.postponed.take().into_iter();
        let Some(first) = waiting.next() else { return };
        self.commit_alone(first).await;
        if self.postponed.is_empty() {
            let (mut group, mut bytes) = (Vec::new(), 0);
            for pending in waiting {
                bytes += pending.write.size();
                group.push(pending);
                if group.len() >= GROUP_WRITES || bytes >= GROUP_BYTES {
                    self.commit(std::mem::take(&mut group)).await;
                    bytes = 0;
                }
            }
            self.commit(group).await;
        } else {
            self.postponed.put_back(waiting.collect());
        }
        self.postponed.schedule(began.elapsed());
    }

    /// Commits those that one statement makes. Returns the others.
    async fn commit_fast(&mut self, connection: &Connection, mut group: Vec<Pending>) -> Vec<Pending> {
        let session = Session::new(connection);
        let mut seen = HashSet::new();
        let mut chosen = Vec::new();
        for (place, pending) in group.iter().enumerate() {
            // Another write of the run is made before it.
            let is_first = group.len() == 1 || seen.insert(run_of(&pending.write));
            let Some(record) = fast_finish::record(&pending.write, &self.in_flight).filter(|_| is_first)
            else {
                continue;
            };
            match self.link.owner(session, &record.owner).await {
                Ok(owner) => chosen.push((place, FastFinish::new(&self.policy, owner, record))),
                // Each further one would be waited for as long.
                Err(_) => break,
            }
        }
        if connection.fate.cause() == Some(Cause::Connection) {
            // Each further attempt on this connection would be waited for as long again.
            drop(chosen);
            self.link.leave();
            group.iter_mut().for_each(|pending| pending.lost(None));
            return group;
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
                if is_lost {
                    pending.lost(Some(WriteOutcome::Changed));
                }
            }
            rest.push(pending);
        }
        rest
    }

    /// Commits these in one transaction. Returns them all if that fails.
    async fn commit_together(&mut self, connection: &Connection, mut group: Vec<Pending>) -> Vec<Pending> {
        let mut outcomes = Vec::new();
        match self.make(Session::new(connection), &group, &mut outcomes).await {
            Ok(()) => {
                self.in_flight.commit();
                for (pending, outcome) in group.into_iter().zip(outcomes) {
                    self.succeed(pending, outcome);
                }
                Vec::new()
            }
            Err(_) => {
                self.in_flight.rollback();
                if connection.fate.cause() == Some(Cause::Connection) {
                    let is_sent = outcomes.len() == group.len();
                    let outcomes = outcomes.into_iter().map(|outcome| is_sent.then_some(outcome));
                    for (pending, outcome) in group.iter_mut().zip(outcomes.chain(std::iter::repeat(None))) {
                        pending.lost(outcome);
                    }
                }
                self.roll_back(connection).await;
                group
            }
        }
    }

    /// Commits one write, and again if something was in its way. A server that cannot be used for a while, as it is about
    /// to be replaced or a pooler has none, is waited for as long as one that cannot be reached.
    async fn commit_alone(&mut self, mut pending: Pending) {
        let mut attempts = 0;
        loop {
            let connection = match self.link.connection().await {
                Ok(connection) => connection,
                Err(error) => return self.postpone(pending, &error),
            };
            let mut outcomes = Vec::new();
            let session = Session::new(&connection);
            let made = self.make(session, std::slice::from_ref(&pending), &mut outcomes).await;
            let outcome = outcomes.first().copied();
            let error = match made {
                Ok(()) => {
                    self.in_flight.commit();
                    return self.succeed(pending, outcome.unwrap_or(WriteOutcome::Absent));
                }
                Err(error) => error,
            };
            self.in_flight.rollback();
            let cause = connection.fate.cause();
            if cause == Some(Cause::Connection) {
                pending.lost(outcome);
            }
            self.roll_back(&connection).await;
            attempts += 1;
            match cause {
                Some(Cause::Conflict) if attempts < MAX_ATTEMPTS => {}
                Some(Cause::Connection)
                    if pending.lost.is_some_and(|lost| lost.elapsed() < self.link.limits().statement) => {}
                _ => return self.postpone(pending, &error),
            }
            drop(connection);
            tokio::time::sleep(pause(attempts)).await;
        }
    }

    /// One transaction for these writes; all or nothing. With an outcome of each, its commit was sent.
    async fn make(
        &mut self,
        session: Session<'_>,
        group: &[Pending],
        outcomes: &mut Vec<WriteOutcome>,
    ) -> Result<(), StoreError> {
        if let Some(begin) = begin_sql(Access::Write, self.link.limits()) {
            session.batch(&begin).await?;
        }
        for Pending { write, doubtful, .. } in group {
            let outcome =
                write::apply(session, &self.policy, &self.locks, &mut self.in_flight, write).await?;
            outcomes.push(match doubtful {
                Some(before) => write::repeated(session, write, outcome, *before).await?,
                None => outcome,
            });
        }
        session.batch("COMMIT").await
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

    /// A write of a run that has a row waits for the server; another one fails.
    fn postpone(&mut self, pending: Pending, error: &StoreError) {
        let Some(pending) = self.postponed.add(pending, error, &self.in_flight) else {
            return self.link.failed(error);
        };
        self.fail(pending, error);
    }

    fn give_up_postponed(&mut self) {
        for pending in self.postponed.take() {
            self.fail(pending, &closed());
        }
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
                self.postponed.server_is_back();
            }
            Err(error) => {
                self.link.failed(error);
                self.roll_back(&connection).await;
            }
        }
        checked
    }

    async fn probe(&self, session: Session<'_>) -> Result<(), StoreError> {
        session.batch(&begin_sql(Access::Write, self.link.limits()).unwrap_or_default()).await?;
        session.execute(PROBE, &[(&now(), tokio_postgres::types::Type::INT8)]).await?;
        orphans::release_abandoned(session, &self.policy, self.in_flight.abandoned()).await?;
        session.batch("COMMIT").await
    }
}

const PROBE: &str =
    "INSERT INTO probe (id, written) VALUES (0, $1) ON CONFLICT (id) DO UPDATE SET written = $1";

/// Sends these in one transaction and one round trip. Returns for each whether its row was written.
async fn send(session: Session<'_>, chosen: &[(usize, FastFinish<'_>)]) -> Result<Vec<bool>, StoreError> {
    let [(_, first), others @ ..] = chosen else { return Ok(Vec::new()) };
    let begin = begin_sql(Access::Write, session.limits()).unwrap_or_default();
    if session.is_limited() {
        first.prepare(session).await?;
        if others.is_empty() {
            // A statement alone is a transaction.
            return Ok(vec![first.send(session).await?]);
        }
    } else if !FastFinish::is_prepared(session) {
        // Parsing waits for locks of its tables, too: nothing but a transaction limits that here.
        session.batch(&begin).await?;
        first.prepare(session).await?;
        session.batch("COMMIT").await?;
    }
    let all = chosen.iter().map(|(_, finish)| finish.send(session));
    in_order(session.batch(&begin), all, session.batch("COMMIT")).await
}
