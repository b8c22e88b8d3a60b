//! The keys that seal provider state: configured, or one that is made once and kept beside the database.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret;

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
        Some(file) => {
            kept(&file).map(|key| vec![key]).with_context(|| format!("the seal key in {}", file.display()))
        }
        // Nothing outlives the process, so the key need not either.
        None => Ok(vec![SealKeys::generate()]),
    }
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".seal-key");
    name.into()
}

/// The key in the file; a new one where there is none.
fn kept(file: &Path) -> anyhow::Result<Vec<u8>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(STANDARD.decode(text.trim())?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = SealKeys::generate();
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            writeln!(options.open(file)?, "{}", STANDARD.encode(&key))?;
            Ok(key)
        }
        Err(error) => Err(error.into()),
    }
}
