//! The migrations that a program knows. What is done with them is in `schema`.

use std::sync::OnceLock;

/// A migration: in one transaction with those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its statements.
    pub sql: &'static str,
    /// Whether it rewrites the rows of the database, so that it needs room for all of them.
    pub rewrites_rows: bool,
}

/// The migrations that a program knows, in order. The n-th leads to schema version n; a released one is never edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrations(pub &'static [Migration]);

/// Those of the program, if they are others than the released ones.
static OF_PROGRAM: OnceLock<Migrations> = OnceLock::new();

impl Migrations {
    /// Those of this version.
    pub const RELEASED: Self = Self(&[Migration {
        sql: include_str!("../../../migrations/sqlite/0001_schema.sql"),
        rewrites_rows: false,
    }]);

    /// Those that this program knows.
    pub fn of_program() -> Self {
        OF_PROGRAM.get().copied().unwrap_or(Self::RELEASED)
    }

    /// Makes this program one of another version, before it opens a database. For tests of upgrades.
    pub fn set_of_program(self) {
        OF_PROGRAM.set(self).ok();
    }

    /// The schema version that a program with these migrations writes.
    pub fn latest(self) -> i64 {
        i64::try_from(self.0.len()).unwrap_or(i64::MAX)
    }

    /// Whether the migrations after this version rewrite the rows of the database.
    pub(super) fn rewrites_rows(self, from: i64) -> bool {
        self.after(from).any(|migration| migration.rewrites_rows)
    }

    /// Those after this version.
    pub(super) fn after(self, version: i64) -> impl Iterator<Item = &'static Migration> {
        self.0.iter().skip(usize::try_from(version).unwrap_or(0))
    }
}
