//! The keys that seal provider state: configured ones, or one that is generated once and stored next to the database.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret;
use uuid::Uuid;

use antwort_config::{Settings, StoreUrl};
use antwort_response::seal::SealKeys;

/// The raw keys; the first one is used for sealing.
pub(super) fn load(settings: &Settings) -> anyhow::Result<Vec<Vec<u8>>> {
    if !settings.seal.keys.is_empty() {
        return Ok(settings.seal.keys.iter().map(|key| key.expose_secret().to_vec()).collect());
    }
    let file = settings.seal.file.clone().or_else(|| match &settings.store.url {
        StoreUrl::Sqlite(database) => Some(default_path(database)),
        StoreUrl::Memory | StoreUrl::Postgres(_) => None,
    });
    match file {
        Some(file) => load_or_create(&file)
            .map(|key| vec![key])
            .with_context(|| format!("the seal key in {}", file.display())),
        // Nothing outlives the process, so neither need the key.
        None => Ok(vec![SealKeys::generate()]),
    }
}

/// The configured key file, which belongs in backups of the database; `None`: the keys are in the settings, or the file has
/// its default path.
pub(crate) fn configured_file(settings: &Settings) -> Option<&Path> {
    settings.seal.file.as_deref().filter(|_| settings.seal.keys.is_empty())
}

fn default_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".seal-key");
    name.into()
}

/// Reads the key in the file, which is created if it does not exist.
fn load_or_create(file: &Path) -> anyhow::Result<Vec<u8>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(file)?;
            // If another process was faster, its key counts.
            fs::read_to_string(file)?
        }
        read => read?,
    };
    Ok(STANDARD.decode(text.trim())?)
}

/// Creates the file with a new key: writes a temporary file and links it to the path, so that no process reads half a key or
/// replaces an existing one.
fn create(file: &Path) -> io::Result<()> {
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(format!(".{}", Uuid::now_v7().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    writeln!(options.open(&temporary)?, "{}", STANDARD.encode(SealKeys::generate()))?;
    match fs::hard_link(&temporary, file) {
        Ok(()) => fs::remove_file(&temporary),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(&temporary),
        // Not every file system supports hard links.
        Err(_) => fs::rename(&temporary, file),
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
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            1,
            "no temporary file is left"
        );
    }
}
