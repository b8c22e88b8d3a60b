//! An agent file in the place of a configuration.

use std::path::PathBuf;

use crate::cli::import::foreign_config::{ForeignReads, ImportedConfig, from_go_agents};
use antwort_config::LoadOptions;
use antwort_config::foreign_files::{self, is_go_agents};

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
/// If it cannot be translated, or names what may not be read; the message names the file.
pub(crate) fn replace(options: &mut LoadOptions, reads: ForeignReads) -> Result<Option<AgentFile>, String> {
    let named = options.environment.get("ANTWORT_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
    let is_named = options.file.is_some() || named.is_some();
    if !is_named {
        options.file = Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists());
    }
    let Some(file) = options.file.clone().or(named) else { return Ok(None) };
    let error = |error: String| format!("Error: {}: {error}", file.display());
    let text = foreign_files::read(&file).map_err(error)?;
    if !is_go_agents(&text) {
        // A configuration may name files to read: nobody uses one by entering a folder that has a file of this name.
        return match is_named {
            true => Ok(None),
            false => {
                Err(error("is not an agent file; to use it as a configuration, name it with --config".into()))
            }
        };
    }
    let imported = from_go_agents(&text, reads).map_err(error)?;
    options.file = Some(file.clone());
    options.text = Some(imported.yaml.clone());
    Ok(Some(AgentFile { file, imported }))
}
