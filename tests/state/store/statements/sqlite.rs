//! The plans of SQLite.

use rusqlite::{Connection, params_from_iter};

use super::sources::statements;
use super::{Statement, may, words, write_table};
use crate::store::Folder;

/// Statements that read a whole table, and why they may; `…` stands for what follows.
const MAY_SCAN: &[(&str, &str)] = &[
    ("SELECT DISTINCT tenant FROM owners…", "while the database is too large; an owner is a small row"),
    ("SELECT t.name, c.name, c.type FROM sqlite_schema…", "the tables, once for a copy"),
    ("SELECT key, created_at FROM responses WHERE key NOT IN…", "the first rows by their key"),
    ("DELETE FROM item_ids WHERE response = ?1", "of a row whose index of items is damaged"),
    ("DELETE FROM item_states WHERE response = ?1", "of a row whose index of items is damaged"),
];

/// What is scanned without reading a table that may have many rows: parameters, results of parts, an index in its order up
/// to a limit or of what is open now. There is a row of `runs` for each run that is made or waits, and one of the catalogue for
/// each table.
const SMALL: &[&str] = &["CONSTANT ROW", "json_each", "r", "runs", "sqlite_master"];

#[test]
fn no_statement_of_sqlite_reads_a_whole_table() {
    let folder = Folder::new();
    drop(folder.open(|_| ()));
    let sql = folder.sql();
    let statements = statements("crates/store-sqlite/src");
    assert!(statements.len() > 100, "{} statements were found", statements.len());
    let (mut plans, mut faults) = (Vec::new(), Vec::new());
    for statement in &statements {
        match plan(&sql, statement) {
            Ok(plan) => plans.push((statement, plan)),
            Err(error) => faults.push(format!("{}: {error}", statement.place)),
        }
    }
    write_table("sqlite", &plans);
    let scans = plans.iter().filter(|(_, plan)| plan.iter().any(|step| is_scan(step)));
    faults.extend(scans.filter(|(statement, _)| !may(statement, MAY_SCAN)).map(|(statement, plan)| {
        format!("{}: {}\n    {}", statement.place, words(&statement.sql), plan.join("\n    "))
    }));
    assert!(faults.is_empty(), "these read a whole table:\n{}", faults.join("\n"));
}

/// Whether a step reads all rows of a table.
fn is_scan(step: &str) -> bool {
    let Some(scanned) = step.strip_prefix("SCAN ") else { return false };
    let is_ordered = scanned.contains(" USING INDEX ") || scanned.contains(" USING COVERING INDEX ");
    let is_small = SMALL.iter().any(|small| {
        scanned.strip_prefix(small).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    });
    !is_ordered && !is_small && !scanned.starts_with("(subquery")
}

/// The steps of a statement.
fn plan(sql: &Connection, statement: &Statement) -> rusqlite::Result<Vec<String>> {
    let mut prepared = sql.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql))?;
    let values = vec![rusqlite::types::Null; prepared.parameter_count()];
    prepared.query_map(params_from_iter(values), |row| row.get(3))?.collect()
}
