//! The process: when it was started, and from which build.

use std::time::{SystemTime, UNIX_EPOCH};

use super::registry::{Exposed, Family, Gauge};

#[derive(Debug)]
pub(super) struct ProcessMetrics {
    build_info: Family<Gauge>,
    start_time: Family<Gauge>,
}

impl ProcessMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            build_info: Family::gauge("antwort_build_info", "Version of the build; always 1.", &["version"]),
            start_time: Family::gauge(
                "process_start_time_seconds",
                "Unix time at which the gateway was started.",
                &[],
            ),
        };
        metrics.build_info.with(&[env!("CARGO_PKG_VERSION")]).add(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        metrics.start_time.with(&[]).set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        metrics
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 2] {
        [&self.build_info, &self.start_time]
    }
}
