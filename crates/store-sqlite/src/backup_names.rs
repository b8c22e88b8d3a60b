//! The names of the backups that migrations make.

use std::path::{Path, PathBuf};

use super::lock::beside;

/// The name of the backup that a migration makes first; a second one of the same schema gets a number.
pub(super) fn name(database: &Path, schema: i64, number: u32) -> PathBuf {
    match number {
        0 | 1 => beside(database, &format!("schema-{schema}.backup")),
        _ => beside(database, &format!("schema-{schema}.{number}.backup")),
    }
}

/// The last backup that a migration from this schema has left.
pub(super) fn last_of_schema(database: &Path, schema: i64) -> Option<PathBuf> {
    let names = (1..).map(|number| name(database, schema, number));
    names.take_while(|name| name.exists()).last()
}
