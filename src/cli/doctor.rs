//! `antwort doctor`: examines a model server, prints what it found, and writes settings for it.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::offline;
use super::output::{EXIT_INVALID_CONFIG, print_error, print_json, print_line};
use crate::cli::duration;
use crate::shutdown;
use antwort_config::{self as config, LoadOptions, ProviderSettings, Settings};
use antwort_doctor::{self as doctor, Bounds, Client, Interruption, MARK, Progress, Report};

/// The name under which the server is added to the providers.
const NAME: &str = "antwort_doctor";
const URL_VARIABLE: &str = "ANTWORT__PROVIDERS__ANTWORT_DOCTOR__URL";
const KEY_VARIABLE: &str = "ANTWORT__PROVIDERS__ANTWORT_DOCTOR__API_KEY";
/// Tokens of all requests and answers, and with `--deep`.
const MAX_TOKENS: u64 = 30_000;
const DEEP_MAX_TOKENS: u64 = 300_000;
/// How long all of it may take, and with `--deep`.
const TIMEOUT: Duration = Duration::from_mins(2);
const DEEP_TIMEOUT: Duration = Duration::from_mins(10);
/// Longer files are not the doctor's.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Arguments of `antwort doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Base URL of the model server, usually ending in /v1
    #[arg(value_name = "URL")]
    url: String,
    /// The model to ask [default: the first that the server lists]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Ask also what costs many tokens: a prompt that is too long, each keyword of JSON Schema; longer answers, more often
    #[arg(long)]
    deep: bool,
    /// Write the configuration for this server to a file; one that doctor has not written itself is not replaced
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// How long all of it may take; then the report has what is known [default: 2m, with --deep 10m]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = timeout)]
    answer_timeout: Duration,
    /// Tokens of all requests and answers together, after which nothing more is asked [default: 30000, with --deep 300000]
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<u64>,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text).filter(|timeout| !timeout.is_zero());
    parsed.ok_or_else(|| "expected a duration such as 30s or 2m".to_owned())
}

impl DoctorArgs {
    /// Examines the server. Exits with 0 if it works, with 1 if it works with gaps, else with 2.
    pub(super) fn run(&self, options: &LoadOptions) -> ExitCode {
        match self.attempt(options) {
            Ok(code) => code,
            Err(error) => {
                print_error(&error);
                ExitCode::from(EXIT_INVALID_CONFIG)
            }
        }
    }

    fn attempt(&self, options: &LoadOptions) -> Result<ExitCode, String> {
        if let Some(file) = &self.write {
            check_writable(file)?;
        }
        let (settings, provider) = self.settings(options)?;
        let client = Client::new(provider, self.answer_timeout)?;
        let default = if self.deep { DEEP_MAX_TOKENS } else { MAX_TOKENS };
        let bounds = Bounds { deep: self.deep, max_tokens: self.max_tokens.unwrap_or(default) };
        let limit = self.timeout.unwrap_or(if self.deep { DEEP_TIMEOUT } else { TIMEOUT });
        let report = offline::run_with_settings(settings, async |_| {
            let interruption = interruption(limit);
            Ok(doctor::examine(client, self.model.as_deref(), bounds, &mut show_progress, interruption).await)
        })?;
        clear_progress();
        self.print(&report);
        if let Some(file) = &self.write {
            match &report.config {
                // What is known is less than a file of an earlier time may have.
                Some(_) if report.verdict.was_stopped() => {
                    print_error(&format!("{} was not written: doctor was stopped", file.display()));
                }
                Some(yaml) => write(file, yaml)?,
                None => {
                    print_error(&format!(
                        "{} was not written: there is nothing to configure",
                        file.display()
                    ));
                }
            }
        }
        Ok(ExitCode::from(report.verdict.exit_code()))
    }

    /// The settings of this process, and those of the server: of a configured provider with its URL, else with the key of
    /// the environment.
    fn settings(&self, options: &LoadOptions) -> Result<(Settings, ProviderSettings), String> {
        let url = doctor::base_url(&self.url)?;
        let mut options = LoadOptions { upstream_url: None, ..options.clone() };
        let key = options.environment.remove("ANTWORT_UPSTREAM_API_KEY").filter(|key| !key.is_empty());
        options.environment.remove("ANTWORT_UPSTREAM_URL");
        options.environment.insert(URL_VARIABLE.to_owned(), url);
        let has_key = key.is_some();
        options.environment.extend(key.map(|key| (KEY_VARIABLE.to_owned(), key)));
        let mut settings = config::load(&options).map_err(|errors| errors.to_string())?.settings;
        let named = settings.providers.remove(NAME).ok_or("the server could not be configured")?;
        let configured =
            settings.providers.values().find(|provider| provider.url == named.url && !has_key).cloned();
        Ok((settings, configured.unwrap_or(named)))
    }

    fn print(&self, report: &Report) {
        if self.json {
            print_json(&serde_json::to_string_pretty(&report.to_json()).unwrap_or_default());
        } else {
            print_line(&report.to_text());
        }
    }
}

/// A signal, or the end of the time.
async fn interruption(limit: Duration) -> Interruption {
    tokio::select! {
        () = shutdown::signal() => Interruption::Stopped,
        () = tokio::time::sleep(limit) => Interruption::TimeOver(limit),
    }
}

/// Shows which question is being asked, on a terminal. At once, not through the queue of the log, which may drop it: the line is
/// replaced all the time, and a terminal is read.
fn show_progress(progress: Progress) {
    let mut out = io::stderr();
    if out.is_terminal() {
        let Progress { number, of, question } = progress;
        _ = write!(out, "\r\u{1b}[K{number}/{of} {question}").and_then(|()| out.flush());
    }
}

fn clear_progress() {
    let mut out = io::stderr();
    if out.is_terminal() {
        _ = write!(out, "\r\u{1b}[K").and_then(|()| out.flush());
    }
}

/// Refuses a file of somebody else, and a place where none can be written, before anything is asked.
fn check_writable(file: &Path) -> Result<(), String> {
    let shown = file.display();
    let kind = match fs::symlink_metadata(file) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            return match folder.unwrap_or(Path::new(".")).is_dir() {
                true => Ok(()),
                false => Err(format!("cannot write {shown}: there is no such folder")),
            };
        }
        Err(error) => return Err(format!("cannot read {shown}: {error}")),
    };
    if !kind.is_file() {
        return Err(format!("{shown} is not a regular file: name another one"));
    }
    let mut content = String::new();
    let read = File::open(file).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut content));
    match read {
        Ok(_) if is_own(&content) => Ok(()),
        Ok(_) => Err(format!(
            "{shown} exists and was not written by doctor, or was changed since: name another file, and copy what you need"
        )),
        Err(error) => Err(format!("cannot read {shown}: {error}")),
    }
}

/// Whether a file is one of the doctor, and has nothing but what the doctor writes.
fn is_own(content: &str) -> bool {
    let is_alone = |of: Option<&Value>| of.and_then(Value::as_object).is_some_and(|fields| fields.len() == 1);
    let has_only_provider = |all: &Value| {
        is_alone(Some(all)) && is_alone(all.get("providers")) && all.pointer("/providers/default").is_some()
    };
    content.starts_with(MARK) && serde_norway::from_str(content).is_ok_and(|all| has_only_provider(&all))
}

/// Writes the file: a new one, or in place of one that the doctor has written.
fn write(file: &Path, yaml: &str) -> Result<(), String> {
    check_writable(file)?;
    let written = match File::create_new(file) {
        Ok(mut new) => new.write_all(yaml.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::write(file, yaml),
        Err(error) => Err(error),
    };
    written.map_err(|error| format!("cannot write {}: {error}", file.display()))
}
