//! Reloads the settings of a running gateway, by the rules of `reload_rules`.

use super::error::{ConfigErrors, Diagnostics};
use super::load::{self, LoadedConfig};
use super::load_options::LoadOptions;
use super::reload_rules::ReloadEffect::Restart;
use super::reload_rules::{RELOAD_RULES, Rule};
use super::settings::Settings;
use super::tree::Tree;
use super::{ConfigChange, ConfigFiles, changes};

/// The settings of a process, with the options to load them again.
#[derive(Debug)]
pub struct RunningConfig {
    options: LoadOptions,
    loaded: LoadedConfig,
}

/// The result of a reload.
#[derive(Debug)]
pub struct ReloadedConfig {
    /// The settings from now on: keys that need a restart are unchanged.
    pub running: RunningConfig,
    /// Changes against the previous settings.
    pub changes: Vec<ConfigChange>,
}

impl RunningConfig {
    /// Settings that were loaded with these options.
    pub fn new(options: LoadOptions, loaded: LoadedConfig) -> Self {
        Self { options, loaded }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    /// What is valid and probably not meant.
    pub fn warnings(&self) -> &[String] {
        &self.loaded.warnings
    }

    /// The files that were read, with their metadata at that time.
    pub fn files(&self) -> &ConfigFiles {
        &self.loaded.files
    }

    /// Loads everything again and checks it twice: as written, and with the old values of keys that need a restart.
    /// Also returns the files to watch, even after an error: those in force and those that are named now, whether they
    /// exist or not.
    pub fn reload(&self) -> (ConfigFiles, Result<ReloadedConfig, ConfigErrors>) {
        let mut looked_at = self.files().refreshed();
        let mut files = ConfigFiles::default();
        let reloaded = self.reload_tracking_files(&mut files);
        looked_at.merge(files);
        (looked_at, reloaded)
    }

    fn reload_tracking_files(&self, files: &mut ConfigFiles) -> Result<ReloadedConfig, ConfigErrors> {
        let new = load::load_tracking_files(&self.options, files)?;
        new.settings.require_provider()?;
        let changes = changes::changes_between(&self.loaded, &new);
        let loaded = if changes.iter().any(|change| change.effect == Restart) {
            let mut diagnostics = Diagnostics::default();
            let mut tree = new.tree;
            restore_restart_keys(&mut tree, &self.loaded.tree);
            let settings =
                load::resolve_settings(&mut tree, &|name| self.options.variable(name), &mut diagnostics);
            diagnostics.into_result(LoadedConfig { settings, tree, ..new })?
        } else {
            new
        };
        Ok(ReloadedConfig { running: Self { options: self.options.clone(), loaded }, changes })
    }
}

fn restore_restart_keys(new: &mut Tree, old: &Tree) {
    for (key, _) in RELOAD_RULES.iter().filter(|(_, rule)| *rule == Rule::Restart) {
        let path: Vec<&str> = key.split('.').collect();
        new.remove(&path);
        if let Some(value) = old.get(&path) {
            new.set(&path, value.clone());
        }
    }
}
