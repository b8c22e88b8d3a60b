//! The rules of reloading: which changed keys a running gateway applies, and which need a restart.

use super::error::{ConfigErrors, Diagnostics};
use super::load::{self, LoadOptions, LoadedConfig};
use super::settings::Settings;
use super::tree::Tree;
use super::{ConfigChange, ConfigFiles, changes};

/// What a reload does with a changed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReloadEffect {
    /// Applies it.
    Reload,
    /// Reports it; the old value stays in force.
    Restart,
}

use ReloadEffect::{Reload, Restart};

/// Every key, or the section that it is in; the longest match applies. A section with both kinds has no entry of its
/// own, so that each of its keys must have one, which a test checks.
const RELOAD_RULES: &[(&str, ReloadEffect)] = &[
    ("listen", Restart),
    ("config", Reload),
    ("log.filter", Reload),
    // A log file must not contain lines of two formats.
    ("log.format", Restart),
    ("server.request_body_limit", Reload),
    ("server.max_runs", Reload),
    ("server.max_runs_per_tenant", Reload),
    ("server.queue_timeout", Reload),
    ("server.max_buffered_body_bytes", Reload),
    ("server.body_idle_timeout", Reload),
    ("server.ready_requires", Reload),
    ("server.trusted_proxies", Reload),
    ("server.allowed_hosts", Reload),
    ("server.cors", Reload),
    ("server.request_limits", Reload),
    // Of the listener, whose connections outlive generations.
    ("server.write_timeout", Restart),
    ("server.shutdown_delay", Restart),
    ("server.drain_timeout", Restart),
    ("server.max_connections", Restart),
    ("server.first_byte_timeout", Restart),
    ("server.header_timeout", Restart),
    ("server.keep_alive_timeout", Restart),
    ("sse", Reload),
    ("auth", Reload),
    ("engine", Reload),
    ("tools", Reload),
    ("mcp", Reload),
    ("egress", Reload),
    ("network", Reload),
    ("tls", Reload),
    ("agents", Reload),
    ("compat", Reload),
    ("providers", Reload),
    ("models", Reload),
    ("store", Restart),
    ("telemetry", Restart),
    // Clients hold state that was encrypted with these keys, and runs in flight use them.
    ("seal", Restart),
];

/// What a reload does with this key. Unlisted keys are applied.
pub(super) fn reload_effect(key: &str) -> ReloadEffect {
    let fits = |entry: &&(&str, ReloadEffect)| {
        key.strip_prefix(entry.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    RELOAD_RULES
        .iter()
        .filter(fits)
        .max_by_key(|(entry, _)| entry.len())
        .map_or(Reload, |(_, effect)| *effect)
}

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
    for (key, _) in RELOAD_RULES.iter().filter(|(_, effect)| *effect == Restart) {
        let path: Vec<&str> = key.split('.').collect();
        new.remove(&path);
        if let Some(value) = old.get(&path) {
            new.set(&path, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{de, raw::Raw};
    use super::*;

    /// The keys of the section at this path, as its type declares them; none for a value.
    fn keys_of(path: &str) -> Vec<String> {
        const NO_KEY: &str = "this_is_the_name_of_no_key_at_all_and_near_to_none";
        let mut steps: Vec<String> =
            path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        steps.push(NO_KEY.to_owned());
        let mut tree = Tree::default();
        tree.set(&steps, "1".into());
        let error = de::from_value::<Raw>(tree.root()).expect_err("no such key").message;
        let known = error.split_once("known are ").map(|(_, known)| known.to_owned());
        known.map(|known| known.split(", ").map(str::to_owned).collect()).unwrap_or_default()
    }

    fn walk(path: &str, missing: &mut Vec<String>, met: &mut Vec<&'static str>) {
        if let Some((entry, _)) = RELOAD_RULES.iter().find(|(entry, _)| *entry == path) {
            met.push(entry);
            return;
        }
        let keys = keys_of(path);
        if keys.is_empty() {
            missing.push(path.to_owned());
        }
        for key in keys {
            walk(&if path.is_empty() { key } else { format!("{path}.{key}") }, missing, met);
        }
    }

    #[test]
    fn every_key_of_the_settings_is_reloaded_or_needs_a_restart() {
        let (mut missing, mut met) = (Vec::new(), Vec::new());
        walk("", &mut missing, &mut met);
        assert!(missing.is_empty(), "KEYS does not say what a reload does with {missing:?}");
        let unknown: Vec<_> = RELOAD_RULES.iter().filter(|(entry, _)| !met.contains(entry)).collect();
        assert!(unknown.is_empty(), "KEYS has entries that are no keys: {unknown:?}");
    }

    #[test]
    fn the_longest_entry_counts() {
        for (key, expected) in [
            ("listen", Restart),
            ("log.filter", Reload),
            ("server.cors.allowed_origins", Reload),
            ("server.max_runs_per_tenant", Reload),
            ("store.url", Restart),
            ("providers.\"a.b\".url", Reload),
        ] {
            assert_eq!(reload_effect(key), expected, "{key}");
        }
    }
}
