//! `antwort config import`: translates a file of another program into a configuration.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;

pub(super) mod foreign_config;

use self::foreign_config::ForeignReads;
use super::output::{EXIT_INVALID_CONFIG, print_error, print_line};
use antwort_config::foreign_files;

/// Formats of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// JSON with name, system_prompt, transport and tools
    GoAgents,
    /// JSON with mcpServers, of desktop programs
    McpServers,
}

/// Writes the configuration to `output`, or to standard output.
pub(super) fn write(
    file: &Path,
    format: Option<ImportFormat>,
    output: Option<&Path>,
    reads: ForeignReads,
) -> ExitCode {
    let read = match format {
        Some(ImportFormat::GoAgents) => foreign_config::from_go_agents,
        Some(ImportFormat::McpServers) => foreign_config::from_mcp_servers,
        None => foreign_config::from_any,
    };
    let imported = foreign_files::read(file).and_then(|text| read(&text, reads));
    let imported = match imported {
        Ok(imported) => imported,
        Err(error) => {
            print_error(&format!("cannot import {}: {error}", file.display()));
            return ExitCode::from(EXIT_INVALID_CONFIG);
        }
    };
    for note in imported.all_notes() {
        print_error(&format!("note: {note}"));
    }
    let Some(output) = output else {
        print_line(&imported.yaml);
        return ExitCode::SUCCESS;
    };
    match fs::write(output, &imported.yaml) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("cannot write {}: {error}", output.display()));
            ExitCode::FAILURE
        }
    }
}
