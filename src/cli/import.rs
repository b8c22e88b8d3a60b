//! `antwort config import`: a file of another program, told in our own configuration.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::{ImportFormat, WRONG_SETTINGS, complain, say};
use crate::config::import;

/// Reads the file and writes the configuration to `output`, or to standard output.
pub(super) fn write(file: &Path, format: Option<ImportFormat>, output: Option<&Path>) -> ExitCode {
    let read = match format {
        Some(ImportFormat::GoAgents) => import::go_agents,
        Some(ImportFormat::McpServers) => import::mcp_servers,
        None => import::any,
    };
    let imported = fs::read_to_string(file).map_err(|error| error.to_string()).and_then(|text| read(&text));
    let imported = match imported {
        Ok(imported) => imported,
        Err(error) => {
            complain(&format!("cannot import {}: {error}", file.display()));
            return ExitCode::from(WRONG_SETTINGS);
        }
    };
    for note in imported.all_notes() {
        complain(&format!("note: {note}"));
    }
    let Some(output) = output else {
        say(&imported.yaml);
        return ExitCode::SUCCESS;
    };
    match fs::write(output, &imported.yaml) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("cannot write {}: {error}", output.display()));
            ExitCode::FAILURE
        }
    }
}
