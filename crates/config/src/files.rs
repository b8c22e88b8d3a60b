//! The files that settings were read from, and whether they have changed since, without reading them.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Metadata of the files at the time they were read: the configuration, the files that its values name, and
/// certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigFiles(BTreeMap<PathBuf, Option<Version>>);

/// Identifies a version of a file. Links are followed, so that a folder that is swapped beneath one is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    length: u64,
    modified: Option<SystemTime>,
    /// Device and inode.
    inode: (u64, u64),
}

impl ConfigFiles {
    /// Records a file that is about to be read. The first record is kept.
    pub(super) fn track(&mut self, path: &Path) {
        self.0.entry(path.to_owned()).or_insert_with(|| version(path));
    }

    /// Adds the files of another record that are not in this one.
    pub(super) fn merge(&mut self, others: Self) {
        for (path, version) in others.0 {
            self.0.entry(path).or_insert(version);
        }
    }

    /// The same files as they are now.
    #[must_use]
    pub fn refreshed(&self) -> Self {
        Self(self.0.keys().map(|path| (path.clone(), version(path))).collect())
    }
}

/// `None`: the file does not exist or is not accessible.
fn version(path: &Path) -> Option<Version> {
    let found = fs::metadata(path).ok()?;
    Some(Version { length: found.len(), modified: found.modified().ok(), inode: inode(&found) })
}

#[cfg(unix)]
fn inode(file: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> (u64, u64) {
    (0, 0)
}
