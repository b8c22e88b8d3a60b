//! The plans of SQLite.

use rusqlite::{Connection, params_from_iter};

use super::sources::statements;
use super::{Statement, words, write_table};
use crate::store::Folder;

/// Statements that read a whole table, and why they may.
const MAY_SCAN: &[(&str, &str)] = &[];

#[test]
fn no_statement_of_sqlite_reads_a_whole_table() {
    let folder = Folder::new();
    drop(folder.open(|_| ()));
    let sql = folder.sql();
    let statements = statements("src/store/sqlite");
    assert!(statements.len() > 100, "{} statements were found", statements.len());
    let plans: Vec<_> = statements.iter().map(|statement| (statement, plan(&sql, statement))).collect();
    write_table("sqlite", &plans);
    let mut scans = Vec::new();
    for (statement, plan) in &plans {
        let may = MAY_SCAN.iter().any(|(begin, _)| words(&statement.sql).starts_with(begin));
        let scan = plan.iter().any(|step| is_scan(step));
        if scan != may {
            scans.push(format!(
                "{}: {}\n    {}",
                statement.place,
                words(&statement.sql),
                plan.join("\n    ")
            ));
        }
    }
    assert!(scans.is_empty(), "these read a whole table, or are listed and do not:\n{}", scans.join("\n"));
}

/// Whether a step reads all rows of a table.
fn is_scan(step: &str) -> bool {
    step.starts_with("SCAN ") && step != "SCAN CONSTANT ROW"
}

/// The steps of a statement.
fn plan(sql: &Connection, statement: &Statement) -> Vec<String> {
    let explain = format!("EXPLAIN QUERY PLAN {}", statement.sql);
    let mut prepared = sql.prepare(&explain).unwrap_or_else(|error| panic!("{}: {error}", statement.place));
    let values = vec![rusqlite::types::Null; prepared.parameter_count()];
    let steps = prepared.query_map(params_from_iter(values), |row| row.get(3)).unwrap();
    steps.map(Result::unwrap).collect()
}
