//! Why an examination ends before all was asked.

use std::time::Duration;

/// What ends an examination early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// A signal.
    Stopped,
    /// The time for all of it is over.
    TimeOver(Duration),
}

impl Interruption {
    /// Why the questions that are left have no answer.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Stopped => "not asked, as doctor was stopped",
            Self::TimeOver(_) => "not asked, as the time was over",
        }
    }
}
