//! No statement of a backend reads a whole table: every statement in the sources is put together, and its plan is asked
//! for on tables that have rows.
//!
//! `ANTWORT_STATEMENTS=FILE` writes the table of statements and plans.

mod postgres;
mod sources;
mod sqlite;

use std::fmt::Write as _;
use std::fs;

/// A statement of the sources.
#[derive(Debug)]
struct Statement {
    /// The file within the backend's folder, and how many statements of it come before, as `list.rs 2`.
    place: String,
    sql: String,
}

/// Appends the plans to the file that the variable names.
fn write_table(backend: &str, plans: &[(&Statement, Vec<String>)]) {
    let Some(file) = std::env::var_os("ANTWORT_STATEMENTS") else { return };
    let mut table = format!("# {backend}\n\n| statement | begins | plan |\n|---|---|---|\n");
    for (statement, plan) in plans {
        let begin: String = words(&statement.sql).chars().take(60).collect();
        writeln!(table, "| {} | `{begin}` | {} |", statement.place, plan.join("; ")).unwrap();
    }
    let path = std::path::Path::new(&file).with_extension(format!("{backend}.md"));
    fs::write(path, table).unwrap();
}

/// Whether a statement is among these.
fn may(statement: &Statement, listed: &[(&str, &str)]) -> bool {
    let sql = words(&statement.sql);
    listed.iter().any(|(listed, _)| match listed.strip_suffix('…') {
        Some(begin) => sql.starts_with(begin),
        None => sql == *listed,
    })
}

/// The words of a statement, each behind one space.
fn words(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}
