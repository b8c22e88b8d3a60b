//! Loads the settings: defaults < file < environment < flags, all errors at once.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use config::ValueKind;

use super::error::{ConfigErrors, Diagnostics};
use super::files::ConfigFiles;
use super::load_options::LoadOptions;
use super::raw::Raw;
use super::tree::{Origin, OriginKind, Tree};
use super::{
    NetworkSettings, ProviderSettings, ProxySource, Settings, de, interpolate, moved_keys, resolve, sources,
    unserved,
};
use antwort_net::client::PROXY_VARIABLES;

/// Read if it exists and no other file is named.
const DEFAULT_FILE: &str = "antwort.yaml";

/// Settings, with their origins.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The settings in force.
    pub settings: Settings,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// All keys that are set, and where.
    pub origins: Vec<(String, Origin)>,
    /// Keys of the file that an environment variable overrides, and its name.
    pub overridden: Vec<(String, String)>,
    /// Unknown variables that resemble known ones, and legacy values.
    pub warnings: Vec<String>,
    /// The files that were read, with their metadata at that time.
    pub files: ConfigFiles,
    /// The merged sources, secrets among them.
    pub(super) tree: Tree,
}

impl Settings {
    /// Loads and checks all settings.
    ///
    /// # Errors
    /// All errors together.
    pub fn load(options: &LoadOptions) -> Result<Self, ConfigErrors> {
        load(options).map(|loaded| loaded.settings)
    }

    /// Refuses settings without a provider, or with none that a request could reach: they are valid, but there is nothing to serve.
    ///
    /// # Errors
    /// If there is no such provider.
    pub fn require_provider(&self) -> Result<(), ConfigErrors> {
        if self.providers.is_empty() {
            let message = "no model server is configured: set ANTWORT_UPSTREAM_URL to its base URL (usually ending \
                           in /v1), or configure it under `providers`";
            return Err(ConfigErrors::single(message));
        }
        if !self.providers.values().any(ProviderSettings::is_reachable) {
            let message = "providers: none of them serves a model: each needs `models`, a `prefix` or `aliases`, or one of them \
                           `default: true`";
            return Err(ConfigErrors::single(message));
        }
        Ok(())
    }
}

/// Loads and checks all settings.
///
/// # Errors
/// All errors together.
pub fn load(options: &LoadOptions) -> Result<LoadedConfig, ConfigErrors> {
    load_tracking_files(options, &mut ConfigFiles::default())
}

/// Also records the files that it reads, or would read, even after an error.
pub(super) fn load_tracking_files(
    options: &LoadOptions,
    files: &mut ConfigFiles,
) -> Result<LoadedConfig, ConfigErrors> {
    let lookup = |name: &str| options.variable(name);
    let mut diagnostics = Diagnostics::default();
    let mut warnings = sources::misspelt_variables(options);
    let path = find_file(options, &lookup);
    let mut file = Tree::default();
    if let Some(path) = &path {
        files.track(path);
        file = sources::from_file(path, options.text.as_deref())?;
        expand(&mut file, Some(&lookup), &mut diagnostics, files);
        moved_keys::migrate_legacy_keys(&mut file, &mut diagnostics, &mut warnings);
    }
    let mut process = Tree::merge([sources::from_environment(options, &file), sources::from_flags(options)])?;
    expand(&mut process, None, &mut diagnostics, files);
    moved_keys::migrate_legacy_keys(&mut process, &mut diagnostics, &mut warnings);
    let overridden = overridden(&file, &process);
    let mut tree = Tree::merge([file, process])?;
    sources::add_shared_variables(options, &mut tree);

    let settings = resolve_settings(&mut tree, &lookup, &mut diagnostics);
    warnings.extend(unused_proxies(&settings.network, &lookup));
    warnings.extend(unserved::warnings(&settings));
    files.merge(settings.contents.files().clone());
    let origins = tree.origins();
    let files = files.clone();
    diagnostics.into_result(LoadedConfig { settings, file: path, origins, overridden, warnings, files, tree })
}

/// Reads and checks a merged tree.
pub(super) fn resolve_settings(
    tree: &mut Tree,
    lookup: interpolate::Lookup<'_>,
    diagnostics: &mut Diagnostics,
) -> Settings {
    let raw = read_all(tree, diagnostics);
    resolve::settings(raw, tree, lookup, diagnostics)
}

impl LoadedConfig {
    /// The sources that set something, for the log.
    pub fn sources(&self) -> String {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let has = |kind| self.origins.iter().any(|(_, origin)| origin.kind == kind);
        let others = [(has(OriginKind::Environment), "environment"), (has(OriginKind::Flag), "flags")];
        let others = others.iter().filter(|(has, _)| *has).map(|(_, name)| (*name).to_owned());
        let sources: Vec<String> = file.into_iter().chain(others).collect();
        if sources.is_empty() { "defaults".to_owned() } else { sources.join(", ") }
    }
}

/// Keys of the file that the environment sets, too.
fn overridden(file: &Tree, process: &Tree) -> Vec<(String, String)> {
    let in_file: HashSet<String> = file.origins().into_iter().map(|(key, _)| key).collect();
    let by_variable =
        |(key, origin): &(String, Origin)| origin.kind == OriginKind::Environment && in_file.contains(key);
    let overriding = process.origins().into_iter().filter(by_variable);
    overriding.map(|(key, origin)| (key, origin.name)).collect()
}

pub(super) fn find_file(options: &LoadOptions, lookup: interpolate::Lookup<'_>) -> Option<PathBuf> {
    let named = options.file.clone().or_else(|| lookup(sources::FILE_VARIABLE).map(PathBuf::from));
    let own = || options.directory.as_ref().map(|dir| dir.join(DEFAULT_FILE)).filter(|path| path.exists());
    let system = || options.system_file.clone().filter(|path| path.exists());
    named.or_else(own).or_else(system)
}

/// Expands `${…}` (if `lookup` is given) and `file:` in all texts. A value that becomes empty counts as not set.
fn expand(
    tree: &mut Tree,
    lookup: Option<interpolate::Lookup<'_>>,
    diagnostics: &mut Diagnostics,
    files: &mut ConfigFiles,
) {
    let mut expanded = Vec::new();
    for (path, leaf) in tree.leaves() {
        let ValueKind::String(text) = &leaf.kind else { continue };
        let result = expand_text(text, lookup, files).transpose();
        let origin = Origin::of(leaf);
        expanded.extend(result.map(|result| (path, origin, result)));
    }
    for (path, origin, result) in expanded {
        match (result, origin, tree.get_mut(&path)) {
            (Err(message), ..) => _ = diagnostics.reject(tree, &path, message),
            (Ok(text), Some(origin), Some(leaf)) if !text.is_empty() => *leaf = origin.expanded().leaf(text),
            (Ok(_), ..) => _ = tree.invalidate(&path),
        }
    }
}

/// `None`: there is nothing to expand.
fn expand_text(
    text: &str,
    lookup: Option<interpolate::Lookup<'_>>,
    files: &mut ConfigFiles,
) -> Result<Option<String>, String> {
    let expanded = lookup.map_or(Ok(None), |lookup| interpolate::variables(text, lookup))?;
    let text = expanded.as_deref().unwrap_or(text);
    if let Some(path) = interpolate::file_named(text) {
        files.track(Path::new(path));
    }
    Ok(interpolate::file(text)?.or(expanded))
}

/// Reads the tree into its types, invalidating what is wrong until the rest can be read.
fn read_all(tree: &mut Tree, diagnostics: &mut Diagnostics) -> Raw {
    loop {
        let error = match de::from_value::<Raw>(tree.root()) {
            Ok(raw) => return raw,
            Err(error) => error,
        };
        if !diagnostics.reject(tree, &error.path(), error.message) {
            return Raw::default();
        }
    }
}

/// A warning about proxy variables, which other programs would use.
fn unused_proxies(network: &NetworkSettings, lookup: interpolate::Lookup<'_>) -> Option<String> {
    if network.proxy == ProxySource::Environment {
        return None;
    }
    let set: Vec<_> =
        PROXY_VARIABLES.as_flattened().iter().copied().filter(|name| lookup(name).is_some()).collect();
    // `NO_PROXY` alone has no effect.
    if set.iter().all(|name| name.eq_ignore_ascii_case("NO_PROXY")) {
        return None;
    }
    Some(format!(
        "proxy variables are set but not used, because network.proxy is not `environment`: {}",
        set.join(", ")
    ))
}
