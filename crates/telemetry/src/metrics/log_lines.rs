//! Lines of the log that were dropped. The queue counts them: it is one for the process, and is there before any gateway.

use super::registry::{Counter, Exposed, Family};
use crate::log_queue::{self, LineKind};

#[derive(Debug)]
pub(super) struct LogLines {
    dropped: Family<Counter>,
}

impl LogLines {
    pub(super) fn new() -> Self {
        let dropped = Family::counter(
            "antwort_log_lines_dropped_total",
            "Log lines that were dropped because standard error did not take them fast enough, or not at all.",
            &["kind"],
        );
        Self { dropped }
    }

    /// As the queue has counted by now.
    pub(super) fn families(&self) -> [&dyn Exposed; 1] {
        let dropped = log_queue::dropped();
        for kind in LineKind::ALL {
            self.dropped.with(&[kind.as_str()]).raise_to(dropped.of(kind));
        }
        [&self.dropped]
    }
}
