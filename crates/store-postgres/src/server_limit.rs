//! The server's own limit of statements that stand alone, without a transaction that sets one.
//!
//! It is asked for with an option of the connection, so that no statement costs more. A pooler may refuse the option, and
//! is not asked again then, or drop it: so each connection looks whether it has a limit. Without one, statements that
//! stand alone get a transaction of their own, which sets it for its time. `SET` is not used: behind a pooler it would stay
//! with a connection that other clients get.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::Config;

use super::limits::Limits;
use super::session::Session;
use super::values::get;
use antwort_store::StoreError;

/// In milliseconds; 0: there is none.
const SET: &str = "SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'";

/// How the limit is asked for.
pub(super) struct ServerLimit {
    limits: Limits,
    is_refused: AtomicBool,
}

impl ServerLimit {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, is_refused: AtomicBool::new(false) }
    }

    /// The configuration with which it is asked for; `None`: it is refused.
    pub(super) fn config(&self, config: &Config) -> Option<Config> {
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let mut config = config.clone();
        let before = config.get_options().map_or_else(String::new, |options| format!("{options} "));
        let Limits { statement, transaction } = self.limits;
        let (statement, lock) = (statement.as_millis(), transaction.as_millis());
        config.options(format!("{before}-c statement_timeout={statement} -c lock_timeout={lock}"));
        Some(config)
    }

    /// A pooler has refused it.
    pub(super) fn refused(&self) {
        if !self.is_refused.swap(true, Ordering::Relaxed) {
            tracing::info!("store: the pooler takes no options; statements get transactions that limit them");
        }
    }

    /// Whether a connection has it, or a lower one of its role.
    pub(super) async fn is_set(&self, session: Session<'_>) -> Result<bool, StoreError> {
        let Some(row) = session.query_opt(SET, &[]).await? else { return Ok(false) };
        let set: i64 = get(&row, 0)?;
        Ok(set > 0 && u128::from(set.unsigned_abs()) <= self.limits.statement.as_millis())
    }
}
