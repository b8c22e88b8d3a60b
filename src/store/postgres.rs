//! The store that several processes share: a PostgreSQL database.
//!
//! Writes of runs are committed in groups (`writer`); reads and the writes of clients have connections of a small pool.
//! Nothing that a session keeps is relied on outside a transaction, so that poolers may stand between.

mod clock;
mod connection;
mod error;
mod keys;
mod options;
mod owners;
mod pool;
mod schema;
mod session;
mod tls;
mod transaction;
mod url;
mod values;

use std::sync::Arc;

pub use self::options::PostgresOptions;
pub use self::schema::DatabaseSchema;

use self::owners::OwnerKeys;
use self::pool::Pool;
use super::row_policy::RowPolicy;

/// A store in PostgreSQL.
pub struct PostgresStore {
    pool: Pool,
    policy: Arc<RowPolicy>,
    owners: Arc<OwnerKeys>,
}
