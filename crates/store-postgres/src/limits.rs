//! How long a statement, a transaction and an operation may take, and how that is measured.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use antwort_store::StoreError;

/// How much longer than the server's own limit a statement is waited for, and an operation of several.
const GRACE: Duration = Duration::from_secs(2);

/// A timer that fires so much later than it should belongs to a process that did not run meanwhile.
const MAX_LATENESS: Duration = Duration::from_millis(500);

/// However short leases are: a process that is only slow is not in anybody's way for longer.
const MIN_TRANSACTION: Duration = Duration::from_millis(500);

/// How long the statements of a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// A statement. The server ends it then.
    pub statement: Duration,
    /// A wait for a lock of another transaction, and a pause between two statements of a transaction: the server ends the
    /// transaction then. What a process that is gone, or that was stopped, has locked is free when its lease is over.
    pub transaction: Duration,
}

impl Limits {
    /// The limits of a process whose leases last so long.
    pub(super) fn new(statement: Duration, lease: Duration) -> Self {
        Self { statement, transaction: (lease / 2).max(MIN_TRANSACTION) }
    }

    /// Sets them until the transaction ends, so that a pooler may give the connection to another client then.
    pub(super) fn set_local(&self) -> String {
        let Self { statement, transaction } = self;
        let (statement, transaction) = (statement.as_millis(), transaction.as_millis());
        format!(
            "SET LOCAL statement_timeout = {statement}; SET LOCAL lock_timeout = {transaction}; \
             SET LOCAL idle_in_transaction_session_timeout = {transaction}"
        )
    }

    /// Waits for a statement, or for an operation: a connection for it, its statements, and more attempts. The server may be
    /// stopped, or the network gone, without a sign.
    pub(super) async fn wait<T>(&self, done: impl Future<Output = T>) -> Result<T, StoreError> {
        timeout_awake(self.statement.saturating_add(GRACE), done).await
    }
}

/// Like [`tokio::time::timeout`], but for the time in which this process was stopped: its statements may have been answered
/// meanwhile.
async fn timeout_awake<T>(limit: Duration, done: impl Future<Output = T>) -> Result<T, StoreError> {
    let mut done = pin!(done);
    loop {
        let due = Instant::now() + limit;
        match timeout_at(due, done.as_mut()).await {
            Ok(value) => return Ok(value),
            Err(_) if due.elapsed() > MAX_LATENESS => {}
            Err(_) => return Err(StoreError::Timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(7);

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_is_waited_for_until_the_limit() {
        let began = Instant::now();
        assert!(matches!(timeout_awake(LIMIT, pending::<()>()).await, Err(StoreError::Timeout)));
        assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_the_process_was_stopped_does_not_count() {
        // The timer is started, and fires long after its time.
        let answer = async {
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_secs(45)).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
        };
        assert!(timeout_awake(LIMIT, answer).await.is_ok());
    }

    #[test]
    fn a_transaction_ends_within_half_a_lease() {
        let limits = Limits::new(Duration::from_secs(5), Duration::from_secs(6));
        let sql = "SET LOCAL statement_timeout = 5000; SET LOCAL lock_timeout = 3000; \
                   SET LOCAL idle_in_transaction_session_timeout = 3000";
        assert_eq!(limits.set_local(), sql);
    }
}
