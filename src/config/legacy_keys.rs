//! Legacy keys: each is moved to the key that replaced it, so that no other module knows them.
//!
//! `tools.api_keys`, `tools.security_policy` and a `tools.timeout` in nanoseconds come from the agent files that
//! `antwort config import` translates; people also copy them by hand.

use std::time::Duration;

use config::{Value, ValueKind};

use super::error::Diagnostics;
use super::tree::{Origin, Tree, sorted};
use super::{de, units};

/// Names under `tools.api_keys`, and the keys that replaced them, which take precedence.
const API_KEYS: [(&str, [&str; 4]); 2] = [
    ("weather", ["tools", "builtin", "get_weather", "api_key"]),
    ("search", ["tools", "builtin", "web_search", "api_key"]),
];

/// Names under `tools.security_policy`, and the keys that replaced them.
const SECURITY_POLICY: [(&str, &[&str]); 4] = [
    ("allow_file_access", &["tools", "allow_file_access"]),
    ("allow_network_access", &["tools", "allow_network_access"]),
    ("allowed_paths", &["tools", "builtin", "file_read", "allowed_paths"]),
    ("allowed_domains", &["egress", "allowed_domains"]),
];

/// Smaller numbers are not nanoseconds: no tool has a timeout below a millisecond.
const MIN_NANOSECONDS: u64 = 1_000_000;

/// Migrates one source, each for itself, so that the later ones still override.
pub(super) fn migrate_legacy_keys(
    source: &mut Tree,
    diagnostics: &mut Diagnostics,
    warnings: &mut Vec<String>,
) {
    convert_nanosecond_timeout(source, warnings);
    for (name, value) in take_section(source, "api_keys", &API_KEYS.map(|(name, _)| name), diagnostics) {
        if let Some((_, path)) = API_KEYS.iter().find(|(known, _)| *known == name)
            && source.origin(path).is_none()
        {
            source.set(path, value);
        }
    }
    let known = SECURITY_POLICY.map(|(name, _)| name);
    for (name, value) in take_section(source, "security_policy", &known, diagnostics) {
        let Some((_, path)) = SECURITY_POLICY.iter().find(|(known, _)| *known == name) else { continue };
        match source.get(path) {
            Some(other) if text(other) != text(&value) => {
                let message = format!("contradicts tools.security_policy.{name}: remove one of the two");
                diagnostics.add(source, path, message);
            }
            Some(_) => {}
            None => source.set(path, value),
        }
    }
}

/// Removes a section of legacy keys from `tools` and returns its values; unknown keys are errors. A value of another type
/// stays, to be refused.
fn take_section(
    source: &mut Tree,
    section: &str,
    known: &[&str],
    diagnostics: &mut Diagnostics,
) -> Vec<(String, Value)> {
    let path = ["tools", section];
    let Some(ValueKind::Table(table)) = source.get(&path).map(|value| &value.kind) else { return Vec::new() };
    let mut values = Vec::new();
    for (key, value) in sorted(table) {
        if !known.contains(&key.as_str()) {
            let message = format!("unknown key{}", de::suggestion(key, known));
            diagnostics.add(source, &["tools", section, key], message);
        } else if value.kind != ValueKind::Nil {
            values.push((key.clone(), value.clone()));
        }
    }
    source.remove(&path);
    values
}

/// `tools.timeout: 30000000000` is `30s`.
fn convert_nanosecond_timeout(source: &mut Tree, warnings: &mut Vec<String>) {
    let path = ["tools", "timeout"];
    let Some(value) = source.get(&path) else { return };
    let (ValueKind::U64(number @ MIN_NANOSECONDS..), Some(origin)) = (&value.kind, Origin::of(value)) else {
        return;
    };
    let text = units::format_duration(Duration::from_nanos(*number));
    warnings.push(format!("tools.timeout ({origin}) is interpreted as nanoseconds: write {text}"));
    source.set(&path, origin.leaf(text));
}

/// The value as text, whatever its type.
fn text(value: &Value) -> String {
    match &value.kind {
        ValueKind::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        ValueKind::Table(_) | ValueKind::Nil => String::new(),
        scalar => scalar.to_string(),
    }
}
