//! `antwort doctor`, as a process, against servers with every quirk and against hostile ones.

mod command;
mod configuration;
mod hostile;
mod model;
mod quirks;
mod server;

use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

/// Runs doctor in a folder of its own with nothing of the test's environment but these variables.
async fn doctor(folder: &Path, words: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.arg("doctor").args(words).current_dir(folder).env_clear().stdin(Stdio::null());
    command.envs(environment.iter().copied());
    // The server that it asks lives in this runtime.
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// A report on this server: the exit code and the JSON.
async fn examined(url: &str, words: &[&str]) -> (i32, Value) {
    let folder = tempfile::tempdir().unwrap();
    let output = doctor(folder.path(), &[&[url, "--json"], words].concat(), &[]).await;
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), report)
}

/// The answer to a question, and the evidence.
fn answer<'a>(report: &'a Value, id: &str) -> (&'a str, &'a str) {
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["id"] == id);
    let finding = finding.unwrap_or_else(|| panic!("{id} was not asked: {report:#}"));
    (finding["answer"].as_str().unwrap(), finding["evidence"].as_str().unwrap())
}
