//! `antwort config import`: translates a file of another program into a configuration.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;

use super::output::{EXIT_INVALID_CONFIG, print_error, print_line};
use crate::compat::import;

/// Maximum bytes of a file; those of programs have kilobytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Formats of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// JSON with name, system_prompt, transport and tools
    GoAgents,
    /// JSON with mcpServers, of desktop programs
    McpServers,
}

/// Writes the configuration to `output`, or to standard output.
pub(super) fn write(file: &Path, format: Option<ImportFormat>, output: Option<&Path>) -> ExitCode {
    let read = match format {
        Some(ImportFormat::GoAgents) => import::from_go_agents,
        Some(ImportFormat::McpServers) => import::from_mcp_servers,
        None => import::from_any,
    };
    let imported = content(file).and_then(|text| read(&text));
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

fn content(file: &Path) -> Result<String, String> {
    let mut content = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content));
    read.map_err(|error| error.to_string())?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("the file has more than {} MiB", MAX_FILE_BYTES >> 20));
    }
    String::from_utf8(content).map_err(|_| "the file is not UTF-8 text".to_owned())
}
