//! Hashes of certificate files at the time they were read: a file that is renewed at its path counts as a change of the
//! key that names it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use aws_lc_rs::digest;

use super::ConfigFiles;

/// Hashes by the key that names the file.
#[derive(Debug, Clone, Default)]
pub struct FileHashes {
    hashes: BTreeMap<Vec<String>, [u8; digest::SHA256_OUTPUT_LEN]>,
    /// Metadata of the files, taken before they were read.
    files: ConfigFiles,
}

impl FileHashes {
    /// Reads the file that this key names.
    pub(super) fn read(&mut self, key: &[&str], file: &Path) -> io::Result<Vec<u8>> {
        self.files.track(file);
        let content = std::fs::read(file)?;
        let mut hash = [0; digest::SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest::digest(&digest::SHA256, &content).as_ref());
        self.hashes.insert(key.iter().map(|step| (*step).to_owned()).collect(), hash);
        Ok(content)
    }

    pub(super) fn files(&self) -> &ConfigFiles {
        &self.files
    }

    /// The keys in both whose files have a different content.
    pub(super) fn changed_keys<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Vec<String>> {
        let differs =
            |(key, hash): &(&Vec<String>, _)| other.hashes.get(*key).is_some_and(|new| new != *hash);
        self.hashes.iter().filter(differs).map(|(key, _)| key)
    }
}
