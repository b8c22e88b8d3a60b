//! Legacy keys: each is moved to the key that replaced it, so that no other module of the configuration knows them. Which
//! they are: `legacy_keys`.

use config::{Value, ValueKind};

use super::error::Diagnostics;
use super::tree::{Origin, Tree, sorted};
use super::{de, units};
use crate::legacy_keys::{self, LegacySection};

/// Migrates one source, each for itself, so that the later ones still override.
pub(super) fn migrate_legacy_keys(
    source: &mut Tree,
    diagnostics: &mut Diagnostics,
    warnings: &mut Vec<String>,
) {
    convert_nanosecond_timeout(source, warnings);
    for section in &legacy_keys::SECTIONS {
        for (name, value) in take_section(source, section, diagnostics) {
            let Some((_, path)) = section.keys.iter().find(|(known, _)| *known == name) else { continue };
            if section.gives_way {
                if source.origin(path).is_none() {
                    source.set(path, value);
                }
                continue;
            }
            match source.get(path) {
                Some(other) if text(other) != text(&value) => {
                    let section = section.name;
                    let message = format!("contradicts tools.{section}.{name}: remove one of the two");
                    diagnostics.add(source, path, message);
                }
                Some(_) => {}
                None => source.set(path, value),
            }
        }
    }
}

/// Removes a section of legacy keys from `tools` and returns its values; unknown keys are errors. A value of another type
/// stays, to be refused.
fn take_section(
    source: &mut Tree,
    section: &LegacySection,
    diagnostics: &mut Diagnostics,
) -> Vec<(String, Value)> {
    let path = ["tools", section.name];
    let Some(ValueKind::Table(table)) = source.get(&path).map(|value| &value.kind) else { return Vec::new() };
    let known: Vec<&str> = section.keys.iter().map(|(name, _)| *name).collect();
    let mut values = Vec::new();
    for (key, value) in sorted(table) {
        if !known.contains(&key.as_str()) {
            let message = format!("unknown key{}", de::suggestion(key, &known));
            diagnostics.add(source, &["tools", section.name, key], message);
        } else if value.kind != ValueKind::Nil {
            values.push((key.clone(), value.clone()));
        }
    }
    source.remove(&path);
    values
}

/// `tools.timeout: 30000000000` is `30s`.
fn convert_nanosecond_timeout(source: &mut Tree, warnings: &mut Vec<String>) {
    let path = legacy_keys::TIMEOUT;
    let Some(value) = source.get(&path) else { return };
    let (ValueKind::U64(number), Some(origin)) = (&value.kind, Origin::of(value)) else { return };
    let Some(timeout) = legacy_keys::timeout(*number) else { return };
    let text = units::format_duration(timeout);
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
