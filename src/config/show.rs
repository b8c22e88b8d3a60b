//! The settings in force, for people: YAML without secrets, and where each was said.

use std::fmt::Write;

use super::LoadedConfig;

/// Every key with its default and a comment, as `config/default.yaml` has them.
pub const DEFAULT_CONFIG: &str = include_str!("../../config/default.yaml");

/// The settings as YAML, secrets masked; above it, in comments, where those were said that are no defaults.
pub fn show(loaded: &LoadedConfig) -> String {
    let mut text = String::new();
    match &loaded.file {
        Some(path) => _ = writeln!(text, "# File: {}", path.display()),
        None => text.push_str("# No file was read.\n"),
    }
    if !loaded.origins.is_empty() {
        text.push_str("# Not defaults:\n");
    }
    for (path, origin) in &loaded.origins {
        _ = writeln!(text, "#   {path} ({origin})");
    }
    match serde_norway::to_string(&loaded.settings) {
        Ok(yaml) => text.push_str(&yaml),
        // Our own types always can; a reader of the output must not take a part for the whole.
        Err(error) => _ = writeln!(text, "# The settings cannot be shown: {error}"),
    }
    text
}
