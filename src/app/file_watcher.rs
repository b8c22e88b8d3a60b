//! Whether the files of the configuration have changed. They are looked at, and not listened to: that works for every file
//! system, for links whose folder is swapped beneath them, and for files that are replaced.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use crate::config::ConfigFiles;

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What was seen of the files.
pub(super) struct FileWatcher {
    /// As they were when they were read last, be it in vain.
    read: ConfigFiles,
    /// As they were a look ago, where that was something else.
    changing: Option<ConfigFiles>,
    interval: Interval,
}

impl FileWatcher {
    /// Watches for what differs from these.
    pub(super) fn new(read: ConfigFiles) -> Self {
        let mut interval = tokio::time::interval(POLL_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { read, changing: None, interval }
    }

    /// They were read, and found so.
    pub(super) fn read(&mut self, files: ConfigFiles) {
        self.read = files;
        self.changing = None;
    }

    /// Ends once they have changed, and stayed the same from one look to the next: half of a file that is being written
    /// may be valid, too. Nothing is lost where this is dropped.
    pub(super) async fn changed(&mut self) {
        loop {
            self.interval.tick().await;
            let read = self.read.clone();
            // A file system may be somewhere else.
            let Ok(now) = tokio::task::spawn_blocking(move || read.refreshed()).await else { continue };
            if now == self.read {
                self.changing = None;
            } else if self.changing.as_ref() == Some(&now) {
                return;
            } else {
                self.changing = Some(now);
            }
        }
    }
}
