//! What commands print, and their exit codes.

use std::fmt::Display;
use std::io::{self, Write};

use crate::store::{ErasedCounts, ErasureTarget};

/// The exit code for invalid settings.
pub(crate) const EXIT_INVALID_CONFIG: u8 = 2;

/// The exit code of `store migrate --check` for a database of an earlier version.
pub(crate) const EXIT_MIGRATION_NEEDED: u8 = 3;

/// Writes to standard output. A closed pipe is no error.
pub(crate) fn print_line(text: &str) {
    _ = writeln!(io::stdout(), "{}", text.trim_end());
}

/// Writes to standard output without a line end, and flushes.
pub(super) fn print_raw(text: &str) {
    if text.is_empty() {
        return;
    }
    let mut out = io::stdout();
    _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes to standard error.
pub(crate) fn print_error(text: &str) {
    _ = writeln!(io::stderr(), "antwort: {}", text.trim_end());
}

/// Says what was erased.
pub(super) fn print_erased(database: &dyn Display, target: &ErasureTarget, erased: ErasedCounts) {
    let ErasedCounts { responses, conversations } = erased;
    let of = target.principal.as_ref().map_or_else(String::new, |owner| format!(", owner {owner}"));
    print_line(&format!(
        "erased from {database} of tenant {}{of}: {responses} responses, {conversations} conversations",
        target.tenant
    ));
}
