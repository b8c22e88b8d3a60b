//! Runs statements on a connection, inside or outside a transaction.
//!
//! With prepared statements each text is parsed once per connection; without, each statement is one unnamed round
//! trip, which poolers that hand a connection to another client after each transaction allow.

use futures_util::future::try_join;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use super::connection::Connection;
use super::error::{Cause, cause, database};
use super::limits::Limits;
use antwort_store::StoreError;

/// A parameter with its type.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Statements on one connection, one after another.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    connection: &'a Connection,
}

impl<'a> Session<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection }
    }

    /// The limits of its statements and transactions.
    pub(super) fn limits(&self) -> Limits {
        self.connection.limits
    }

    /// Whether so much time has passed since the last statement was sent that the server may have ended the transaction: this
    /// process was stopped.
    pub(super) fn may_be_ended(&self) -> bool {
        self.connection.sent.lock().elapsed() >= self.connection.limits.transaction / 2
    }

    /// Whether the connection is closed, so that nothing can be sent.
    pub(super) fn is_closed(&self) -> bool {
        self.connection.client.is_closed()
    }

    /// Whether the server ends a statement at the limit that stands alone. In a transaction it always does.
    pub(super) fn is_limited(&self) -> bool {
        self.connection.is_limited
    }

    /// All rows of a statement.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        self.limited(self.run(sql, params)).await
    }

    /// The first row of a statement; `None` if it has none.
    pub(super) async fn query_opt(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Runs a statement that takes locks, and behind it, in the same round trip, one that reads what is so under them: one
    /// statement alone may see rows as they were before it had to wait.
    pub(super) async fn query_behind(
        &self,
        (lock, lock_params): (&'static str, &[Param<'_>]),
        (sql, params): (&'static str, &[Param<'_>]),
    ) -> Result<Vec<Row>, StoreError> {
        let both = async {
            // Both are prepared before either is sent, so that they are sent in this order.
            self.statement(lock, lock_params).await?;
            self.statement(sql, params).await?;
            try_join(self.run(lock, lock_params), self.run(sql, params)).await
        };
        Ok(self.limited(both).await?.1)
    }

    /// Runs a statement, and returns how many rows it has changed.
    pub(super) async fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, StoreError> {
        self.limited(self.change(sql, params)).await
    }

    /// Runs several statements without parameters.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.limited(self.connection.client.batch_execute(sql)).await
    }

    /// Runs what may take as long as it takes.
    pub(super) async fn batch_unlimited(&self, sql: &str) -> Result<(), StoreError> {
        self.noted(self.connection.client.batch_execute(sql).await)
    }

    async fn run(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.statement(sql, params).await? {
            Some(statement) => {
                let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
                self.connection.client.query(&statement, &values).await
            }
            None => self.connection.client.query_typed(sql, params).await,
        }
    }

    async fn change(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, tokio_postgres::Error> {
        match self.statement(sql, params).await? {
            Some(statement) => {
                let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
                self.connection.client.execute(&statement, &values).await
            }
            None => self.connection.client.execute_typed(sql, params).await,
        }
    }

    /// Prepares a statement, so that the next one of this text is sent as soon as it is asked for.
    pub(super) async fn prepare(&self, sql: &'static str, params: &[Param<'_>]) -> Result<(), StoreError> {
        self.limited(self.statement(sql, params)).await.map(drop)
    }

    /// Whether a statement of this text is sent as soon as it is asked for.
    pub(super) fn is_prepared(&self, sql: &'static str) -> bool {
        self.connection.statements.as_ref().is_none_or(|statements| statements.get(sql).is_some())
    }

    /// The prepared statement of this text; `None` if none are to be used.
    async fn statement(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<Statement>, tokio_postgres::Error> {
        let Some(statements) = &self.connection.statements else { return Ok(None) };
        if let Some(known) = statements.get(sql) {
            return Ok(Some(known));
        }
        let types: Vec<Type> = params.iter().map(|(_, of)| of.clone()).collect();
        let statement = self.connection.client.prepare_typed(sql, &types).await?;
        statements.add(sql, statement.clone());
        Ok(Some(statement))
    }

    /// Waits for a statement, but not for ever: the network may be gone without a sign.
    async fn limited<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        self.connection.fate.begin();
        *self.connection.sent.lock() = Instant::now();
        match self.connection.limits.wait(statement).await {
            Ok(done) => {
                self.connection.fate.end();
                self.noted(done)
            }
            Err(error) => {
                self.connection.fate.note(Cause::Connection);
                Err(error)
            }
        }
    }

    pub(super) fn noted<T>(&self, done: Result<T, tokio_postgres::Error>) -> Result<T, StoreError> {
        done.map_err(|error| {
            self.connection.fate.note(cause(&error));
            database(&error)
        })
    }
}
