//! Where settings are said, and which word counts: defaults < file < environment < flags.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, io};

use super::error::{ConfigErrors, Diagnostics};
use super::files::ConfigFiles;
use super::raw::Raw;
use super::tree::{Node, Origin, Scalar};
use super::{NetworkSettings, ProxySource, Settings, de, interpolate, legacy_keys, resolve};
use crate::net::client::PROXY_VARIABLES;

/// Read if it exists and no other file is named.
const DEFAULT_FILE: &str = "antwort.yaml";

/// Read if it exists, no other file is named and there is no [`DEFAULT_FILE`]: the settings of an image or a package.
const SYSTEM_FILE: &str = "/etc/antwort/antwort.yaml";

/// Environment variables with names of their own, and the keys that they set.
const VARIABLES: [(&str, &[&str]); 9] = [
    ("ANTWORT_LISTEN", &["listen"]),
    ("ANTWORT_UPSTREAM_URL", &["providers", "default", "url"]),
    ("ANTWORT_UPSTREAM_API_KEY", &["providers", "default", "api_key"]),
    ("ANTWORT_API_KEY", &["auth", "keys", "env", "key"]),
    ("ANTWORT_STORE_URL", &["store", "url"]),
    ("ANTWORT_SEAL_KEYS", &["seal", "keys"]),
    ("ANTWORT_LOG", &["log", "filter"]),
    ("ANTWORT_EGRESS_ALLOW", &["egress", "allow"]),
    ("ANTWORT_MAX_TURNS", &["engine", "limits", "max_turns"]),
];

/// Variables that other programs have, too, and the keys that they set where nothing else does: they must not make
/// what this gateway was told mean something else. With the provider whose key it is, where the name says so.
const SHARED_VARIABLES: [(&str, &[&str], Option<&str>); 4] = [
    ("WEATHER_API_KEY", &["tools", "builtin", "get_weather", "api_key"], None),
    ("SEARCH_API_KEY", &["tools", "builtin", "web_search", "api_key"], None),
    ("BRAVE_API_KEY", &["tools", "builtin", "web_search", "api_key"], Some("brave")),
    ("TAVILY_API_KEY", &["tools", "builtin", "web_search", "api_key"], Some("tavily")),
];

/// Who searches.
const SEARCH_PROVIDER: [&str; 4] = ["tools", "builtin", "web_search", "provider"];

/// Names the file.
const FILE_VARIABLE: &str = "ANTWORT_CONFIG";

/// Any other key: `ANTWORT__SERVER__MAX_RUNS=100`.
const KEY_PREFIX: &str = "ANTWORT__";

/// What is outside of the settings and decides about them.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// `--config`
    pub file: Option<PathBuf>,
    /// The text of that file, where it was made and not read.
    pub text: Option<String>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--log`
    pub log: Option<String>,
    /// `--upstream-url`
    pub upstream_url: Option<String>,
    /// `--store`
    pub store: Option<String>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// Where `antwort.yaml` is looked for; `None`: nowhere.
    pub directory: Option<PathBuf>,
    /// What is looked for where that is not there.
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

/// Settings, and how they came about.
#[derive(Debug)]
pub struct LoadedConfig {
    /// What is in force.
    pub settings: Settings,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// Keys that were said, and where.
    pub origins: Vec<(String, Origin)>,
    /// Keys of the file that a variable of the environment overrides, and which one.
    pub overridden: Vec<(String, Arc<str>)>,
    /// Variables that look like one of ours and are none, and older spellings that will go.
    pub warnings: Vec<String>,
    /// The files that were read, as they were then.
    pub files: ConfigFiles,
    pub(super) tree: RawTree,
}

/// Everything that was said, secrets among it, which are not shown.
pub(super) struct RawTree(pub(super) Node);

impl std::fmt::Debug for RawTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Said(..)")
    }
}

impl Settings {
    /// Reads and checks all settings.
    ///
    /// # Errors
    /// Everything that is wrong with them, together.
    pub fn load(options: &LoadOptions) -> Result<Self, ConfigErrors> {
        load(options).map(|loaded| loaded.settings)
    }

    /// Whether there is anything to serve: a configuration without a model server is valid, a gateway is not.
    ///
    /// # Errors
    /// If there is no provider.
    pub fn require_provider(&self) -> Result<(), ConfigErrors> {
        if self.providers.is_empty() {
            let message = "no model server is configured: set ANTWORT_UPSTREAM_URL to its base URL (usually ending \
                           in /v1), or say it under `providers`";
            return Err(ConfigErrors::single(message));
        }
        Ok(())
    }
}

/// Reads and checks all settings, and remembers where they were said.
///
/// # Errors
/// Everything that is wrong with them, together.
pub fn load(options: &LoadOptions) -> Result<LoadedConfig, ConfigErrors> {
    load_tracking_files(options, &mut ConfigFiles::default())
}

/// The same. Notes the files that it reads, or would have read, also where something is wrong.
pub(super) fn load_tracking_files(
    options: &LoadOptions,
    files: &mut ConfigFiles,
) -> Result<LoadedConfig, ConfigErrors> {
    let lookup = |name: &str| options.variable(name);
    let mut findings = Diagnostics::default();
    let file = find_file(options, &lookup);
    let mut tree = Node::empty();
    let mut warnings = misspelled_env_vars(options);
    if let Some(path) = &file {
        files.track(path);
        let mut layer = read_file(path, options.text.as_deref())?;
        interpolate_layer(&mut layer, Some(&lookup), &mut findings, files);
        legacy_keys::migrate_legacy_keys(&mut layer, &mut findings, &mut warnings);
        tree.merge(layer);
    }
    let mut layer = from_environment(options, &tree);
    layer.merge(from_flags(options));
    interpolate_layer(&mut layer, None, &mut findings, files);
    legacy_keys::migrate_legacy_keys(&mut layer, &mut findings, &mut warnings);
    let overridden = overridden(&tree, &layer);
    tree.merge(layer);
    add_shared_variables(options, &mut tree);

    let settings = resolve_settings(&mut tree, &lookup, &mut findings);
    warnings.extend(unused_proxies(&settings.network, &lookup));
    files.merge(settings.contents.files().clone());
    let origins = tree.origins();
    let files = files.clone();
    findings.into_result(LoadedConfig {
        settings,
        file,
        origins,
        overridden,
        warnings,
        files,
        tree: RawTree(tree),
    })
}

/// What was said, as settings.
pub(super) fn resolve_settings(
    tree: &mut Node,
    lookup: interpolate::Lookup<'_>,
    findings: &mut Diagnostics,
) -> Settings {
    let raw = read_all(tree, findings);
    resolve::settings(raw, tree, lookup, findings)
}

impl LoadedConfig {
    /// Where settings were said: the file, and whether environment and flags said something.
    pub fn sources(&self) -> String {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let has = |is: fn(&Origin) -> bool| self.origins.iter().any(|(_, origin)| is(origin));
        let environment = has(|origin| matches!(origin, Origin::Environment(_)));
        let flags = has(|origin| matches!(origin, Origin::Flag(_)));
        let others = [(environment, "environment"), (flags, "flags")];
        let others = others.iter().filter(|(said, _)| *said).map(|(_, name)| (*name).to_owned());
        let sources: Vec<String> = file.into_iter().chain(others).collect();
        if sources.is_empty() { "defaults".to_owned() } else { sources.join(", ") }
    }
}

/// Keys of the file that the environment says, too.
fn overridden(file: &Node, above: &Node) -> Vec<(String, Arc<str>)> {
    let in_file: HashSet<String> = file.origins().into_iter().map(|(key, _)| key).collect();
    let by_variable = |(key, origin)| match origin {
        Origin::Environment(name) if in_file.contains(&key) => Some((key, name)),
        _ => None,
    };
    above.origins().into_iter().filter_map(by_variable).collect()
}

pub(super) fn find_file(options: &LoadOptions, lookup: interpolate::Lookup<'_>) -> Option<PathBuf> {
    let named = options.file.clone().or_else(|| lookup(FILE_VARIABLE).map(PathBuf::from));
    let own = || options.directory.as_ref().map(|dir| dir.join(DEFAULT_FILE)).filter(|path| path.exists());
    let system = || options.system_file.clone().filter(|path| path.exists());
    named.or_else(own).or_else(system)
}

fn read_file(path: &Path, made: Option<&str>) -> Result<Node, ConfigErrors> {
    let text =
        made.map_or_else(|| fs::read_to_string(path), |text| Ok(text.to_owned())).map_err(|error| {
            let hint = if error.kind() == io::ErrorKind::NotFound {
                "; --config or ANTWORT_CONFIG names it"
            } else {
                ""
            };
            ConfigErrors::single(format!("cannot read {}: {error}{hint}", path.display()))
        })?;
    let kind = match &text {
        text if super::import::is_go_agents(text) => Some("an agent file of go-agents"),
        text if super::import::is_mcp_servers(text) => Some("a list of MCP servers"),
        _ => None,
    };
    if let Some(kind) = kind {
        let path = path.display();
        let message = format!("{path} is {kind}; `antwort config import {path}` translates it");
        return Err(ConfigErrors::single(message));
    }
    parse(&text, &Origin::File(Arc::from(path)))
        .map_err(|error| ConfigErrors::single(format!("{}: {error}", path.display())))
}

fn parse(text: &str, origin: &Origin) -> Result<Node, String> {
    let mut value: serde_norway::Value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
    value.apply_merge().map_err(|error| error.to_string())?;
    let node =
        Node::from_yaml(value, origin).map_err(|(path, why)| match super::tree::format_path(&path) {
            path if path.is_empty() => why.to_owned(),
            path => format!("{path}: {why}"),
        })?;
    match node {
        None => Ok(Node::empty()),
        Some(mut node @ Node::Map(_)) => {
            expand_auth_none(&mut node, origin);
            Ok(node)
        }
        Some(_) => Err("expected keys and values, such as `listen: 127.0.0.1:8080`".into()),
    }
}

/// `auth: none` is short for `auth: {none: true}`.
fn expand_auth_none(node: &mut Node, origin: &Origin) {
    let Node::Map(sections) = node else { return };
    if let Some(auth @ Node::Leaf { .. }) = sections.get_mut("auth")
        && matches!(auth, Node::Leaf { value: Scalar::Text(word), .. } if word == "none")
    {
        let said = Node::Leaf { value: Scalar::Bool(true), origin: origin.clone() };
        *auth = Node::at(&["none".to_owned()], said);
    }
}

/// Fills in `${…}` (where `lookup` is given) and `file:`. What becomes empty was not said.
fn interpolate_layer(
    layer: &mut Node,
    lookup: Option<interpolate::Lookup<'_>>,
    findings: &mut Diagnostics,
    files: &mut ConfigFiles,
) {
    let mut wrong = Vec::new();
    layer.rewrite(&mut Vec::new(), &mut |path, value| {
        let (Scalar::Text(text) | Scalar::Untyped(text)) = &value else { return Some(value) };
        let filled =
            lookup.map_or(Ok(None), |lookup| interpolate::variables(text, lookup)).and_then(|filled| {
                let text = filled.as_deref().unwrap_or(text);
                if let Some(path) = interpolate::file_named(text) {
                    files.track(Path::new(path));
                }
                let content = interpolate::file(text)?;
                Ok(content.or(filled))
            });
        match filled {
            Ok(None) => Some(value),
            Ok(Some(filled)) if filled.is_empty() => None,
            Ok(Some(filled)) => Some(Scalar::Untyped(filled)),
            Err(message) => {
                wrong.push((path.to_vec(), message));
                Some(value)
            }
        }
    });
    for (path, message) in wrong {
        findings.reject(layer, &path, message);
    }
}

pub(super) fn from_environment(options: &LoadOptions, below: &Node) -> Node {
    let mut layer = Node::empty();
    let set = options.environment.iter().filter(|(_, value)| !value.is_empty());
    for (name, value) in set.clone() {
        if let Some(key) = name.strip_prefix(KEY_PREFIX) {
            let node = Node::untyped(value, Origin::Environment(name.as_str().into()));
            layer.merge(Node::at(&env_key_path(key, below), node));
        }
    }
    // The names of their own come last, and so they count.
    for (name, path) in VARIABLES {
        if let Some((_, value)) = set.clone().find(|(set, _)| *set == name) {
            layer.merge(Node::at(&owned(path), Node::untyped(value, Origin::Environment(name.into()))));
        }
    }
    layer
}

/// Keys for tools that the environment has for other programs already. What was said counts, and no key goes to
/// another provider than its own.
fn add_shared_variables(options: &LoadOptions, tree: &mut Node) {
    for (name, path, owner) in SHARED_VARIABLES {
        let Some(value) = options.environment.get(name).filter(|value| !value.trim().is_empty()) else {
            continue;
        };
        let provider = text_at(tree, &SEARCH_PROVIDER);
        let of_another = owner.is_some() && provider.is_some() && provider != owner;
        if of_another || tree.origin(&owned(path)).is_some() {
            continue;
        }
        let spoken = |text: &str| Node::untyped(text, Origin::Environment(name.into()));
        let owner = owner.filter(|_| provider.is_none()).map(spoken);
        tree.merge(Node::at(&owned(path), spoken(value)));
        if let Some(owner) = owner {
            tree.merge(Node::at(&owned(&SEARCH_PROVIDER), owner));
        }
    }
}

pub(super) fn text_at<'a>(tree: &'a Node, path: &[&str]) -> Option<&'a str> {
    match path.iter().try_fold(tree, |node, step| node.child(step))? {
        Node::Leaf { value: Scalar::Text(text) | Scalar::Untyped(text), .. } => Some(text),
        _ => None,
    }
}

/// The path of `SECTION__KEY`, spelled as the file spells it: names may have capitals and dashes there.
fn env_key_path(key: &str, below: &Node) -> Vec<String> {
    let mut place = Some(below);
    let mut path = Vec::new();
    for word in key.split("__") {
        let word = word.to_ascii_lowercase();
        let same = |known: &&String| known.to_ascii_lowercase().replace('-', "_") == word;
        let step = match place {
            Some(Node::Map(nodes)) => nodes.keys().find(same).cloned().unwrap_or(word),
            _ => word,
        };
        place = place.and_then(|node| node.child(&step));
        path.push(step);
    }
    path
}

pub(super) fn from_flags(options: &LoadOptions) -> Node {
    let mut layer = Node::empty();
    for (value, flag, path) in [
        (&options.listen, "--listen", ["listen"].as_slice()),
        (&options.log, "--log", &["log", "filter"]),
        (&options.upstream_url, "--upstream-url", &["providers", "default", "url"]),
        (&options.store, "--store", &["store", "url"]),
    ] {
        if let Some(value) = value {
            layer.merge(Node::at(&owned(path), Node::untyped(value, Origin::Flag(flag))));
        }
    }
    layer
}

/// Reads the tree into its types, striking what is wrong until the rest can be read.
fn read_all(tree: &mut Node, findings: &mut Diagnostics) -> Raw {
    loop {
        let error = match de::from_node::<Raw>(tree) {
            Ok(raw) => return raw,
            Err(error) => error,
        };
        if !findings.reject(tree, &error.path(), error.message) {
            return Raw::default();
        }
    }
}

/// A misspelt `ANTWORT_…` is only warned of: Kubernetes sets such names for a service called `antwort`.
fn misspelled_env_vars(options: &LoadOptions) -> Vec<String> {
    let known: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).chain([FILE_VARIABLE]).collect();
    let ours = |name: &&String| name.starts_with("ANTWORT_") && !name.starts_with(KEY_PREFIX);
    let warning = |name: &String| {
        let distance = |known: &&&str| strsim::damerau_levenshtein(name, known);
        let meant = known.iter().min_by_key(distance)?;
        let close = distance(&meant) * 3 <= name.len() - "ANTWORT_".len();
        close.then(|| format!("the variable {name} is not known; did you mean {meant}?"))
    };
    let unknown = options.environment.keys().filter(ours).filter(|name| !known.contains(&name.as_str()));
    unknown.filter_map(warning).collect()
}

/// Other programs would use them.
fn unused_proxies(network: &NetworkSettings, lookup: interpolate::Lookup<'_>) -> Option<String> {
    if network.proxy == ProxySource::Environment {
        return None;
    }
    let set: Vec<_> =
        PROXY_VARIABLES.as_flattened().iter().copied().filter(|name| lookup(name).is_some()).collect();
    // Without a proxy there is nothing to be exempted from.
    if set.iter().all(|name| name.eq_ignore_ascii_case("NO_PROXY")) {
        return None;
    }
    Some(format!("set and not used, as network.proxy is not `environment`: {}", set.join(", ")))
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|step| (*step).to_owned()).collect()
}
