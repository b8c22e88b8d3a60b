//! The clock of the database, for what several processes compare: their own clocks may differ.

/// The time in Unix milliseconds, in a statement.
macro_rules! db_now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// The same when the statement began, which an index can be searched with.
macro_rules! db_statement_time {
    () => {
        "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
}

pub(super) use {db_now, db_statement_time};
