//! The released migrations, and one more.

use std::sync::LazyLock;

use antwort_store_postgres as postgres;
use antwort_store_sqlite as sqlite;

/// What the additional migration does to a SQLite database: it rewrites the rows of responses, too.
const SQLITE: &str = include_str!("next_version/sqlite.sql");

/// What it does to a PostgreSQL database, which gateways of the version before go on using.
pub const POSTGRES: &str = include_str!("next_version/postgres.sql");

pub fn sqlite() -> sqlite::Migrations {
    static ALL: LazyLock<Vec<sqlite::Migration>> = LazyLock::new(|| {
        let next = sqlite::Migration { sql: SQLITE, rewrites_rows: true };
        sqlite::Migrations::RELEASED.0.iter().copied().chain([next]).collect()
    });
    sqlite::Migrations(&ALL)
}

pub fn postgres() -> postgres::Migrations {
    static ALL: LazyLock<Vec<postgres::Migration>> = LazyLock::new(|| {
        let next = postgres::Migration { sql: POSTGRES, compatible_with: 1 };
        postgres::Migrations::RELEASED.0.iter().copied().chain([next]).collect()
    });
    postgres::Migrations(&ALL)
}
