//! The files that settings were read from, and whether they have changed since, without reading them.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files as they were when they were read: the one of the configuration, those that its values name, and
/// those of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigFiles(BTreeMap<PathBuf, Option<Version>>);

/// Tells versions of a file apart. Of a link, that of the file it leads to: a folder that is swapped beneath it is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    length: u64,
    modified: Option<SystemTime>,
    /// Device and number.
    inode: (u64, u64),
}

impl ConfigFiles {
    /// One that is about to be read. The first time counts.
    pub(super) fn track(&mut self, path: &Path) {
        self.0.entry(path.to_owned()).or_insert_with(|| version(path));
    }

    /// Those of another look, too, where these do not have them.
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

/// `None`: it is not there, or nobody may look.
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
