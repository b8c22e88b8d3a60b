//! Shows the settings in force as YAML, secrets masked, with the origins of non-default values.

use std::fmt::Write;

use super::LoadedConfig;

/// `config/default.yaml`: every key with its default and a comment.
pub const DEFAULT_CONFIG: &str = include_str!("../../../config/default.yaml");

/// The settings as YAML, secrets masked, after comments with the origins of all non-default values.
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
        // Our own types always serialize; still, incomplete output must not look complete.
        Err(error) => _ = writeln!(text, "# The settings cannot be shown: {error}"),
    }
    text
}
