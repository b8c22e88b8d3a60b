//! The differences of two configurations, key by key. Values are shown as by `config show`, secrets only as changed.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::de;
use super::file_hashes::FileHashes;
use super::load::LoadedConfig;
use super::masks::MASK;
use super::reload_rules::{Rebuilds, ReloadEffect, rebuilds, reload_effect};
use super::tree::{Tree, format_path};

/// A changed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Its path; of something that exists on one side only, the path of the whole.
    pub key: String,
    /// What a reload does with the change.
    pub effect: ReloadEffect,
    /// The path as steps.
    path: Vec<String>,
    difference: Difference,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Difference {
    Added,
    Removed,
    Secret,
    Values(String, String),
    /// Of the file that the key names.
    Content,
}

impl ConfigChange {
    /// Whether a reload changes something at this path, below it, or above it.
    pub fn touches(&self, path: &[&str]) -> bool {
        self.effect == ReloadEffect::Reload && self.path.iter().zip(path).all(|(one, other)| one == other)
    }
}

/// What a reload rebuilds for these changes.
pub fn rebuilds_for(changes: &[ConfigChange]) -> Rebuilds {
    changes.iter().fold(Rebuilds::default(), |all, change| all.or(rebuilds(&change.key)))
}

impl fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            ReloadEffect::Reload => "reload ",
            ReloadEffect::Restart => "restart",
        };
        write!(f, "{effect}  {}: ", self.key)?;
        match &self.difference {
            Difference::Added => f.write_str("added"),
            Difference::Removed => f.write_str("removed"),
            Difference::Secret => f.write_str("changed (secret)"),
            Difference::Values(old, new) => write!(f, "{old} -> {new}"),
            Difference::Content => f.write_str("the content of the file changed"),
        }
    }
}

/// All changes in the order of keys, then certificate files whose content changed.
pub fn changes_between(old: &LoadedConfig, new: &LoadedConfig) -> Vec<ConfigChange> {
    let shown = |loaded: &LoadedConfig| match serde_json::to_value(&loaded.settings) {
        Ok(Value::Object(sections)) => sections,
        // Our own types always serialize, to sections.
        _ => Map::new(),
    };
    let mut found = TreeDiff { trees: [&old.tree, &new.tree], path: Vec::new(), changes: Vec::new() };
    found.sections(&shown(old), &shown(new));
    found.contents(&old.settings.contents, &new.settings.contents);
    found.changes
}

struct TreeDiff<'a> {
    trees: [&'a Tree; 2],
    path: Vec<String>,
    changes: Vec<ConfigChange>,
}

impl TreeDiff<'_> {
    fn sections(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            self.path.push(key.clone());
            self.values(non_empty(old.get(key)), non_empty(new.get(key)));
            self.path.pop();
        }
    }

    fn values(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, None) => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.sections(old, new),
            // A section of named entries that was empty.
            (None, Some(Value::Object(new))) if self.is_named_map() => self.sections(&Map::new(), new),
            (Some(Value::Object(old)), None) if self.is_named_map() => self.sections(old, &Map::new()),
            (None, Some(Value::Object(_))) => self.note(Difference::Added),
            (Some(Value::Object(_)), None) => self.note(Difference::Removed),
            (old, new) if old != new => {
                let shown = |value: Option<&Value>| value.map_or("not set".to_owned(), Value::to_string);
                let (old, new) = (shown(old), shown(new));
                let is_secret = old.contains(MASK) || new.contains(MASK);
                self.note(if is_secret { Difference::Secret } else { Difference::Values(old, new) });
            }
            // Masked values look the same: compare the originals.
            (Some(same), _) if same.to_string().contains(MASK) => {
                // Compared as JSON, without origins.
                let value = |tree: &Tree| de::from_value::<Value>(tree.get(&self.path)?).ok();
                let [old, new] = self.trees.map(value);
                if old != new {
                    self.note(Difference::Secret);
                }
            }
            _ => {}
        }
    }

    /// Files whose content changed, though the key that names them did not.
    fn contents(&mut self, old: &FileHashes, new: &FileHashes) {
        for path in old.changed_keys(new) {
            let key = format_path(path);
            if !self.changes.iter().any(|change| change.key == key) {
                self.path.clone_from(path);
                self.note(Difference::Content);
            }
        }
    }

    /// Whether the keys below are names given by the operator.
    fn is_named_map(&self) -> bool {
        const NAMED_MAPS: [&str; 4] = ["auth.keys", "providers", "agents", "mcp.servers"];
        NAMED_MAPS.contains(&format_path(&self.path).as_str())
    }

    fn note(&mut self, difference: Difference) {
        let key = format_path(&self.path);
        self.changes.push(ConfigChange {
            effect: reload_effect(&key),
            key,
            path: self.path.clone(),
            difference,
        });
    }
}

/// `None` for null and for an empty section.
fn non_empty(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null() && value.as_object().is_none_or(|section| !section.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::super::{LoadOptions, load};
    use super::changes_between;

    fn diff(old: &str, new: &str) -> Vec<String> {
        let loaded = |yaml: &str| {
            let options = LoadOptions {
                file: Some("a.yaml".into()),
                text: Some(yaml.into()),
                ..LoadOptions::default()
            };
            load(&options).unwrap_or_else(|errors| panic!("{errors}"))
        };
        changes_between(&loaded(old), &loaded(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_means_the_same_differs_in_nothing() {
        assert_eq!(diff("", "{listen: 'localhost:8080', server: {max_runs: 1024}}"), [""; 0]);
        assert_eq!(
            diff("{auth: {keys: {a: {key: k}}}}", "{auth: {keys: {a: {key: k, tenant: default}}}}"),
            [""; 0]
        );
    }

    #[test]
    fn each_difference_is_named_with_what_a_reload_does_and_no_secret() {
        let old = "
            auth: {keys: {a: {key: s3cret-a}, b: {key: s3cret-b}}}
            providers: {p: {url: 'http://one/v1', api_key: s3cret-1, headers: {x-k: s3cret-2}}}
            mcp: {servers: {m: {url: 'http://m/?k=s3cret-3'}}}
            seal: {keys: [AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=]}";
        let new = "
            listen: 127.0.0.1:9090
            auth: {keys: {b: {key: s3cret-c}, c: {key: s3cret-b}}}
            providers: {p: {url: 'http://two/v1', api_key: s3cret-4, headers: {x-k: s3cret-5}}}
            mcp: {servers: {m: {url: 'http://m/?k=s3cret-6'}}}
            seal: {keys: [AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=]}
            server: {max_runs: 7, drain_timeout: 1m}";
        let found = diff(old, new);
        assert!(!found.concat().contains("s3cret"), "{found:#?}");
        let expected = [
            "reload   auth.keys.a: removed",
            "reload   auth.keys.c: added",
            "restart  listen: \"127.0.0.1:8080\" -> \"127.0.0.1:9090\"",
            "reload   mcp.servers.m.url: changed (secret)",
            "reload   providers.p.api_key: changed (secret)",
            "reload   providers.p.headers.x-k: changed (secret)",
            "reload   providers.p.url: \"http://one/v1\" -> \"http://two/v1\"",
            "restart  seal.keys: changed (secret)",
            "restart  server.drain_timeout: \"30s\" -> \"1m\"",
            "reload   server.max_runs: 1024 -> 7",
        ];
        let others: Vec<_> = found.iter().filter(|line| !line.contains("auth.keys.b.hash: ")).collect();
        assert_eq!(others, expected);
        assert_eq!(found.len(), expected.len() + 1, "a key's hash is no secret: {found:#?}");
        assert!(diff(old, old).is_empty());
    }
}
