//! Watches the configuration files by polling, which works on every file system, with symbolic links whose target directory
//! is swapped (Kubernetes ConfigMaps), and with files that are replaced.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use antwort_config::ConfigFiles;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Compares the files with their state at the last load.
pub(super) struct FileWatcher {
    /// State at the last load, even if that failed.
    baseline: ConfigFiles,
    /// State at the last poll, if it differed from the baseline.
    changed: Option<ConfigFiles>,
    interval: Interval,
}

impl FileWatcher {
    /// Watches for changes from this state.
    pub(super) fn new(baseline: ConfigFiles) -> Self {
        let mut interval = tokio::time::interval(POLL_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { baseline, changed: None, interval }
    }

    /// Sets the state at a load.
    pub(super) fn set_baseline(&mut self, files: ConfigFiles) {
        self.baseline = files;
        self.changed = None;
    }

    /// Returns once the files differ from the baseline and two polls in a row saw the same state: a half-written file may be
    /// valid, too. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        loop {
            self.interval.tick().await;
            let baseline = self.baseline.clone();
            // Blocking: the file system may be a network mount.
            let Ok(now) = tokio::task::spawn_blocking(move || baseline.refreshed()).await else { continue };
            if now == self.baseline {
                self.changed = None;
            } else if self.changed.as_ref() == Some(&now) {
                return;
            } else {
                self.changed = Some(now);
            }
        }
    }
}
