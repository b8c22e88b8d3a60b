//! What commands print, and their exit codes.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use antwort_store::{ErasedCounts, ErasureTarget};
use antwort_telemetry::log_queue;
use antwort_util::display;

/// The exit code for invalid settings.
pub(crate) const EXIT_INVALID_CONFIG: u8 = 2;

/// The exit code of `store migrate --check` for a database of an earlier version.
pub(crate) const EXIT_MIGRATION_NEEDED: u8 = 3;

/// What has become of standard output.
static OUTPUT: AtomicU8 = AtomicU8::new(OPEN);
const OPEN: u8 = 0;
/// The reader of a pipe has gone, as `head` does.
const CLOSED: u8 = 1;
const FAILED: u8 = 2;

/// Writes to standard output. A closed pipe is no error.
pub(crate) fn print_line(text: &str) {
    note(writeln!(io::stdout(), "{}", text.trim_end()));
}

/// Writes JSON to standard output. A terminal gets it without characters that it would obey.
pub(crate) fn print_json(json: &str) {
    if io::stdout().is_terminal() { print_line(&display::json(json)) } else { print_line(json) }
}

/// Writes to standard output without a line end, and flushes.
#[cfg(feature = "prompt")]
pub(super) fn print_raw(text: &str) {
    if text.is_empty() {
        return;
    }
    let mut out = io::stdout();
    note(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

fn note(written: io::Result<()>) {
    let Err(error) = written else { return };
    let state = if error.kind() == ErrorKind::BrokenPipe { CLOSED } else { FAILED };
    if OUTPUT.swap(state, Ordering::Relaxed) == OPEN && state == FAILED {
        print_error(&format!("standard output cannot be written: {error}"));
    }
}

/// Whether nobody reads what is printed.
#[cfg(feature = "prompt")]
pub(super) fn is_output_closed() -> bool {
    OUTPUT.load(Ordering::Relaxed) != OPEN
}

/// The exit code of a command, unless its output was lost.
pub(crate) fn exit_code(code: ExitCode) -> ExitCode {
    if OUTPUT.load(Ordering::Relaxed) == FAILED { ExitCode::FAILURE } else { code }
}

/// Writes to standard error, behind the log lines of what has happened before. Nobody may read it.
pub(super) fn print_to_stderr(text: &str) {
    log_queue::print(&format!("{text}\n"));
}

/// Writes to standard error.
pub(crate) fn print_error(text: &str) {
    print_to_stderr(&format!("antwort: {}", display::lines(text.trim_end())));
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
