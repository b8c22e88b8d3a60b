//! The sources of settings: the file, the environment and flags, each as a [`Tree`] of the keys that it sets.

use std::path::Path;
use std::{fs, io};

use config::ValueKind;

use super::error::ConfigErrors;
use super::foreign_files;
use super::load_options::LoadOptions;
use super::tree::{self, Origin, OriginKind, Tree};

/// Environment variables with names of their own, and the keys that they set.
const VARIABLES: [(&str, &[&str]); 13] = [
    ("ANTWORT_LISTEN", &["listen"]),
    ("ANTWORT_ROLE", &["role"]),
    ("ANTWORT_UPSTREAM_URL", &["providers", "default", "url"]),
    ("ANTWORT_UPSTREAM_API_KEY", &["providers", "default", "api_key"]),
    ("ANTWORT_API_KEY", &["auth", "keys", "env", "key"]),
    ("ANTWORT_STORE_URL", &["store", "url"]),
    ("ANTWORT_BUS_URL", &["bus", "url"]),
    ("ANTWORT_SEAL_KEYS", &["seal", "keys"]),
    ("ANTWORT_LOG", &["log", "filter"]),
    ("ANTWORT_EGRESS_ALLOW", &["egress", "allow"]),
    ("ANTWORT_MAX_TURNS", &["engine", "limits", "max_turns"]),
    ("ANTWORT_PUBLIC_URL", &["server", "public_url"]),
    ("ANTWORT_UI_DIR", &["ui", "dir"]),
];

/// Variables that other programs read, too, and the keys that they set if no other source does, so that they never
/// change what is configured here. The third is the search provider in the name of the variable, if any.
const SHARED_VARIABLES: [(&str, &[&str], Option<&str>); 4] = [
    ("WEATHER_API_KEY", &["tools", "builtin", "get_weather", "api_key"], None),
    ("SEARCH_API_KEY", &["tools", "builtin", "web_search", "api_key"], None),
    ("BRAVE_API_KEY", &["tools", "builtin", "web_search", "api_key"], Some("brave")),
    ("TAVILY_API_KEY", &["tools", "builtin", "web_search", "api_key"], Some("tavily")),
];

const SEARCH_PROVIDER: [&str; 4] = ["tools", "builtin", "web_search", "provider"];

/// Names the file.
pub(super) const FILE_VARIABLE: &str = "ANTWORT_CONFIG";

/// Any other key: `ANTWORT__SERVER__MAX_RUNS=100`.
const KEY_PREFIX: &str = "ANTWORT__";

/// The keys of the file; `text` is its content if it is not read from disk.
pub(super) fn from_file(path: &Path, text: Option<&str>) -> Result<Tree, ConfigErrors> {
    let text =
        text.map_or_else(|| fs::read_to_string(path), |text| Ok(text.to_owned())).map_err(|error| {
            let not_found = error.kind() == io::ErrorKind::NotFound;
            let hint = if not_found { "; --config or ANTWORT_CONFIG names it" } else { "" };
            ConfigErrors::single(format!("cannot read {}: {error}{hint}", path.display()))
        })?;
    if let Some(kind) = foreign_files::kind(&text) {
        let path = path.display();
        let message = format!("{path} is {kind}; `antwort config import {path}` translates it");
        return Err(ConfigErrors::single(message));
    }
    let origin = Origin::new(OriginKind::File, path.display().to_string());
    parse(&text, &origin).map_err(|error| ConfigErrors::single(format!("{}: {error}", path.display())))
}

fn parse(text: &str, origin: &Origin) -> Result<Tree, String> {
    let mut value: serde_norway::Value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
    value.apply_merge().map_err(|error| error.to_string())?;
    let mut tree =
        Tree::from_yaml(value, origin).map_err(|(path, reason)| match tree::format_path(&path) {
            path if path.is_empty() => reason.to_owned(),
            path => format!("{path}: {reason}"),
        })?;
    match tree.root().kind {
        ValueKind::Nil => Ok(Tree::default()),
        ValueKind::Table(_) => {
            // `auth: none` is short for `auth: {none: true}`.
            if tree.text(&["auth"]) == Some("none") {
                tree.set(&["auth", "none"], origin.leaf(true));
            }
            Ok(tree)
        }
        _ => Err("expected keys and values, such as `listen: 127.0.0.1:8080`".into()),
    }
}

/// The keys that the environment sets, spelled as in the file if that has them.
pub(super) fn from_environment(options: &LoadOptions, file: &Tree) -> Tree {
    let mut tree = Tree::default();
    let set = options.environment.iter().filter(|(_, value)| !value.is_empty());
    for (name, value) in set {
        if let Some(key) = name.strip_prefix(KEY_PREFIX) {
            tree.set(&env_key_path(key, file), variable(name, value));
        }
    }
    // Variables with names of their own override the general ones.
    for (name, path) in VARIABLES {
        if let Some(value) = options.variable(name) {
            tree.set(path, variable(name, &value));
        }
    }
    tree
}

fn variable(name: &str, value: &str) -> config::Value {
    Origin::new(OriginKind::Environment, name).leaf(value)
}

/// The path of `SECTION__KEY`, spelled as in the file, in which names may have capitals and dashes.
fn env_key_path(key: &str, file: &Tree) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    for word in key.split("__") {
        let word = word.to_ascii_lowercase();
        let is_same = |known: &&String| known.to_ascii_lowercase().replace('-', "_") == word;
        let known = match file.get(&path).map(|section| &section.kind) {
            Some(ValueKind::Table(table)) => table.keys().filter(is_same).min().cloned(),
            _ => None,
        };
        path.push(known.unwrap_or(word));
    }
    path
}

/// Sets the keys of [`SHARED_VARIABLES`] that no source sets. No key is sent to another provider than its own.
pub(super) fn add_shared_variables(options: &LoadOptions, tree: &mut Tree) {
    for (name, path, owner) in SHARED_VARIABLES {
        let Some(value) = options.environment.get(name).filter(|value| !value.trim().is_empty()) else {
            continue;
        };
        let provider = tree.text(&SEARCH_PROVIDER);
        let of_other_provider = owner.is_some() && provider.is_some() && provider != owner;
        if of_other_provider || tree.origin(path).is_some() {
            continue;
        }
        let owner = owner.filter(|_| provider.is_none());
        tree.set(path, variable(name, value));
        if let Some(owner) = owner {
            tree.set(&SEARCH_PROVIDER, variable(name, owner));
        }
    }
}

/// The keys that flags set.
pub(super) fn from_flags(options: &LoadOptions) -> Tree {
    let mut tree = Tree::default();
    for (value, flag, path) in [
        (&options.listen, "--listen", ["listen"].as_slice()),
        (&options.role, "--role", &["role"]),
        (&options.log, "--log", &["log", "filter"]),
        (&options.upstream_url, "--upstream-url", &["providers", "default", "url"]),
        (&options.store, "--store", &["store", "url"]),
        (&options.ui_dir, "--ui-dir", &["ui", "dir"]),
    ] {
        if let Some(value) = value {
            tree.set(path, Origin::new(OriginKind::Flag, flag).leaf(value.as_str()));
        }
    }
    tree
}

/// Warnings of misspelt `ANTWORT_…` variables. No error: Kubernetes sets such names for a service called `antwort`.
pub(super) fn misspelt_variables(options: &LoadOptions) -> Vec<String> {
    let known: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).chain([FILE_VARIABLE]).collect();
    let ours = |name: &&String| name.starts_with("ANTWORT_") && !name.starts_with(KEY_PREFIX);
    let warning = |name: &String| {
        let distance = |known: &&&str| strsim::damerau_levenshtein(name, known);
        let nearest = known.iter().min_by_key(distance)?;
        let close = distance(&nearest) * 3 <= name.len() - "ANTWORT_".len();
        close.then(|| format!("unknown environment variable {name}; did you mean {nearest}?"))
    };
    let unknown = options.environment.keys().filter(ours).filter(|name| !known.contains(&name.as_str()));
    unknown.filter_map(warning).collect()
}
