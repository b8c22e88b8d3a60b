//! Configuration reloads: their number, and the time of the last success.

use std::time::{SystemTime, UNIX_EPOCH};

use super::registry::{Counter, Exposed, Family, Gauge};

#[derive(Debug)]
pub(super) struct Configuration {
    reloads: Family<Counter>,
    last_success: Family<Gauge>,
}

impl Configuration {
    /// The start counts as a success, and not as a reload.
    pub(super) fn new() -> Self {
        let this = Self {
            reloads: Family::counter(
                "antwort_config_reloads_total",
                "Configuration reloads, by outcome.",
                &["outcome"],
            ),
            last_success: Family::gauge(
                "antwort_config_last_reload_success_timestamp_seconds",
                "Unix time at which the current configuration was loaded.",
                &[],
            ),
        };
        for outcome in ["success", "failure"] {
            this.reloads.with(&[outcome]);
        }
        this.note_success();
        this
    }

    pub(super) fn reloaded(&self, success: bool) {
        self.reloads.with(&[if success { "success" } else { "failure" }]).add(1);
        if success {
            self.note_success();
        }
    }

    fn note_success(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_success.with(&[]).set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 2] {
        [&self.reloads, &self.last_success]
    }
}
