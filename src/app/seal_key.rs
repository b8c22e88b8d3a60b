//! The keys that seal provider state: configured, or one that is made once and kept beside the database.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::config::{Settings, StoreUrl};
use crate::response::seal::SealKeys;

/// The keys' raw bytes; the first seals.
pub(super) fn load(settings: &Settings) -> anyhow::Result<Vec<Vec<u8>>> {
    if !settings.seal.keys.is_empty() {
        return Ok(settings.seal.keys.iter().map(|key| key.expose_secret().to_vec()).collect());
    }
    let file = settings.seal.file.clone().or_else(|| match &settings.store.url {
        StoreUrl::Sqlite(database) => Some(beside(database)),
        StoreUrl::Memory => None,
    });
    match file {
        Some(file) => load_or_create(&file)
            .map(|key| vec![key])
            .with_context(|| format!("the seal key in {}", file.display())),
        // Nothing outlives the process, so the key need not either.
        None => Ok(vec![SealKeys::generate()]),
    }
}

/// The file whose key belongs with the database's backups; `None`: the keys are in the settings.
pub(crate) fn file(settings: &Settings) -> Option<&Path> {
    settings.seal.file.as_deref().filter(|_| settings.seal.keys.is_empty())
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".seal-key");
    name.into()
}

/// The key in the file; a new one where there is none.
fn load_or_create(file: &Path) -> anyhow::Result<Vec<u8>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(file)?;
            // If another process was faster, its key is the one.
            fs::read_to_string(file)?
        }
        read => read?,
    };
    Ok(STANDARD.decode(text.trim())?)
}

/// Writes a new key. It is written aside first, so that nobody ever reads half of it, and only put in its
/// place if there is still none.
fn make(file: &Path) -> io::Result<()> {
    let mut aside = file.as_os_str().to_owned();
    aside.push(format!(".{}", Uuid::now_v7().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    writeln!(options.open(&aside)?, "{}", STANDARD.encode(SealKeys::generate()))?;
    match fs::hard_link(&aside, file) {
        Ok(()) => fs::remove_file(&aside),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(&aside),
        // Not every file system has links.
        Err(_) => fs::rename(&aside, file),
    }
}

#[cfg(test)]
mod tests {
    use super::load_or_create;

    #[test]
    fn processes_that_start_together_have_one_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("key");
        let start = || load_or_create(&file).expect("a key");
        let keys: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(keys.iter().all(|key| key.len() == 32 && *key == keys[0]));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left aside");
    }
}
