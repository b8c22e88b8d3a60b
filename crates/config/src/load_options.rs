//! What settings are loaded from: flags, a file, the environment.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

/// Read if it exists, no other file is named and there is no `antwort.yaml`: the settings of an image or a package.
const SYSTEM_FILE: &str = "/etc/antwort/antwort.yaml";

/// Everything that settings are loaded from.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// `--config`
    pub file: Option<PathBuf>,
    /// The content of that file, if it is not read from disk.
    pub text: Option<String>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--role`
    pub role: Option<String>,
    /// `--log`
    pub log: Option<String>,
    /// `--upstream-url`
    pub upstream_url: Option<String>,
    /// `--store`
    pub store: Option<String>,
    /// `--ui-dir`
    pub ui_dir: Option<String>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The directory of `antwort.yaml`; `None`: not searched.
    pub directory: Option<PathBuf>,
    /// Read if there is no `antwort.yaml`.
    pub system_file: Option<PathBuf>,
}

impl LoadOptions {
    /// A variable of the environment; an empty one counts as unset.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.environment.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// No flags, with this process's environment and directory.
    pub fn from_process() -> Self {
        // A variable that is not UTF-8 cannot be one of ours; `vars` would panic on it.
        let environment = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self {
            environment: environment.collect(),
            directory: Some(PathBuf::from(".")),
            system_file: Some(PathBuf::from(SYSTEM_FILE)),
            ..Self::default()
        }
    }
}
