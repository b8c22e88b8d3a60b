//! A transaction on a connection of the pool, and when a failed one is made again.

use std::time::{Duration, Instant};

use super::error::Cause;
use super::limits::Limits;
use super::pool::{Lease, Pool};
use super::session::Session;
use antwort_store::StoreError;
use antwort_util::backoff::with_jitter;
use antwort_util::random::unit_f64;

/// How often a transaction is made that others are in the way of.
pub(super) const MAX_ATTEMPTS: u32 = 5;

/// The pause before the second attempt; each one after it is longer.
const PAUSE: Duration = Duration::from_millis(10);

/// The longest pause is so many times the first.
const MAX_PAUSES: u32 = 50;

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It writes.
    Write,
    /// It reads all its rows as of one moment.
    Snapshot,
    /// It is one statement, which needs no transaction around it.
    Statement,
}

/// An open transaction. It is rolled back if it is dropped, with its connection.
pub(super) struct Transaction {
    lease: Lease,
    access: Access,
}

/// How often a transaction was made.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    made: u32,
    /// When one was over first whose connection was lost.
    lost: Option<Instant>,
}

impl Attempts {
    /// Whether a connection that was lost may be made up for: a server that is about to be replaced, and a pooler without
    /// one, connect and refuse.
    fn may_go_on(&mut self, limit: Duration) -> bool {
        self.lost.get_or_insert_with(Instant::now).elapsed() < limit
    }

    async fn pause(&mut self) {
        self.made += 1;
        tokio::time::sleep(pause(self.made)).await;
    }
}

impl Pool {
    /// Begins a transaction.
    pub(super) async fn begin(&self, access: Access) -> Result<Transaction, StoreError> {
        let mut attempts = Attempts::default();
        loop {
            let mut lease = self.lease().await?;
            match lease.begin(access).await {
                Ok(access) => return Ok(Transaction { lease, access }),
                // The server has closed it; others that are idle, too, perhaps.
                Err(_) if lease.was_idle => {}
                Err(StoreError::Timeout) => return Err(StoreError::Timeout),
                Err(error) => {
                    let is_lost = lease.cause() == Some(Cause::Connection);
                    drop(lease);
                    if !is_lost || !attempts.may_go_on(self.limits().statement) {
                        return Err(error);
                    }
                    attempts.pause().await;
                }
            }
        }
    }
}

impl Lease {
    /// Begins a transaction, if there is to be one, or the server's limit takes one.
    async fn begin(&mut self, access: Access) -> Result<Access, StoreError> {
        let access = match access {
            Access::Statement if !self.session().is_limited() => Access::Write,
            access => access,
        };
        if let Some(sql) = begin_sql(access, self.session().limits()) {
            self.is_reusable = false;
            self.session().batch(&sql).await?;
        }
        Ok(access)
    }
}

impl Transaction {
    /// Its statements.
    pub(super) fn session(&self) -> Session<'_> {
        self.lease.session()
    }

    /// Commits what has succeeded, and rolls back what has failed. `None`: it is to be made again.
    pub(super) async fn end<T>(
        mut self,
        done: Result<T, StoreError>,
        attempts: &mut Attempts,
    ) -> Option<Result<T, StoreError>> {
        let done = match done {
            Ok(value) => self.check_open().await.map(|()| value),
            failed => failed,
        };
        // Before its commit is sent.
        let was_lost = self.lease.cause() == Some(Cause::Connection) || self.lease.session().is_closed();
        let ended = match done {
            Ok(value) => self.commit().await.map(|()| value),
            Err(error) => {
                self.roll_back().await;
                Err(error)
            }
        };
        let Err(error) = ended else { return Some(ended) };
        let is_again = match self.lease.cause().or(self.lease.before) {
            Some(Cause::Conflict) => attempts.made < MAX_ATTEMPTS,
            // It was waited for long enough, and a statement that stands alone may have been made.
            Some(Cause::Connection) if matches!(error, StoreError::Timeout) => false,
            // Of a connection that is lost at its commit the outcome is unknown.
            Some(Cause::Connection) => {
                was_lost && attempts.may_go_on(self.lease.session().limits().statement)
            }
            _ => false,
        };
        if !is_again {
            return Some(Err(error));
        }
        drop(self);
        attempts.pause().await;
        None
    }

    /// Asks the server, where it may have ended the transaction meanwhile: of a commit that is sent then the outcome would be
    /// unknown.
    async fn check_open(&self) -> Result<(), StoreError> {
        let session = self.lease.session();
        if self.access != Access::Statement && session.may_be_ended() {
            session.batch("SELECT 1").await
        } else {
            Ok(())
        }
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        if self.access != Access::Statement {
            self.lease.session().batch("COMMIT").await?;
        }
        self.lease.is_reusable = true;
        Ok(())
    }

    async fn roll_back(&mut self) {
        self.lease.before = self.lease.cause();
        if self.lease.before == Some(Cause::Connection) {
            return;
        }
        if self.access == Access::Statement || self.lease.session().batch("ROLLBACK").await.is_ok() {
            self.lease.forgive();
            self.lease.is_reusable = true;
        }
    }
}

/// How a transaction begins; `None`: there is none.
pub(super) fn begin_sql(access: Access, limits: Limits) -> Option<String> {
    let begin = match access {
        Access::Write => "BEGIN",
        Access::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        Access::Statement => return None,
    };
    Some(format!("{begin}; {}", limits.set_local()))
}

/// A pause that differs between those that were in each other's way.
pub(super) fn pause(attempt: u32) -> Duration {
    with_jitter(PAUSE * attempt.min(MAX_PAUSES), unit_f64())
}

/// Runs statements in a transaction, and again if others were in its way: `transact!(pool, Access::Write, session =>
/// work(session).await)`. The work may run several times, and must change nothing else. All of it is waited for as long as
/// one statement is.
macro_rules! transact {
    ($pool:expr, $access:expr, $session:ident => $work:expr) => {{
        let operation = async {
            let mut attempts = $crate::transaction::Attempts::default();
            loop {
                let transaction = match $pool.begin($access).await {
                    Ok(transaction) => transaction,
                    Err(error) => break Err(error),
                };
                let done: Result<_, antwort_store::StoreError> = {
                    let $session = transaction.session();
                    async { $work }.await
                };
                if let Some(done) = transaction.end(done, &mut attempts).await {
                    break done;
                }
            }
        };
        $pool.limits().wait(operation).await.flatten()
    }};
}

pub(super) use transact;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::Instant;
    use tokio_util::task::TaskTracker;

    use super::super::url::Target;
    use super::*;

    /// The wait for a connection, each attempt to connect and each statement once had limits of their own.
    #[tokio::test(start_paused = true)]
    async fn an_operation_on_a_server_that_says_nothing_takes_no_longer_than_a_statement_may() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target =
            Target::parse(&format!("postgres://user@{}/db", listener.local_addr().unwrap())).unwrap();
        let limits = Limits::new(Duration::from_secs(5), Duration::from_secs(30));
        let pool = Pool::new(target, 1, limits, true, TaskTracker::new()).unwrap();
        let began = Instant::now();
        let done = transact!(pool, Access::Write, session => session.batch("SELECT 1").await);
        assert!(matches!(done, Err(StoreError::Timeout | StoreError::Unavailable(_))), "{done:?}");
        assert!(began.elapsed() <= Duration::from_secs(7), "{:?}", began.elapsed());
    }
}
