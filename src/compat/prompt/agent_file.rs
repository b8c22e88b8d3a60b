//! An agent file in the place of a configuration.

use std::fs;
use std::path::PathBuf;

use crate::compat::foreign_files::is_go_agents;
use crate::compat::import::{ImportedConfig, from_go_agents};
use crate::config::LoadOptions;

/// Read if it exists and no other file is named.
const DEFAULT_FILE: &str = "config.ollama.json";

/// The translation of an agent file.
pub(crate) struct AgentFile {
    pub file: PathBuf,
    pub imported: ImportedConfig,
}

/// Replaces an agent file by its translation; `None`: the file is a configuration, or there is none.
///
/// # Errors
/// If it cannot be translated; the message names the file.
pub(crate) fn replace(options: &mut LoadOptions) -> Result<Option<AgentFile>, String> {
    let named = options.environment.get("ANTWORT_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
    if options.file.is_none() && named.is_none() {
        options.file = Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists());
    }
    let Some(file) = options.file.clone().or(named) else { return Ok(None) };
    // The loader reports files that cannot be read.
    let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
    if !is_go_agents(&text) {
        return Ok(None);
    }
    let imported = from_go_agents(&text).map_err(|error| format!("Error: {}: {error}", file.display()))?;
    options.file = Some(file.clone());
    options.text = Some(imported.yaml.clone());
    Ok(Some(AgentFile { file, imported }))
}
