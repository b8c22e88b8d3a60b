//! The `antwort` program: parses the command line, loads the settings, and hands over.

use std::process::ExitCode;

use crate::app::{self, App, SighupListener};
use crate::cli::{Cli, Command, DocumentFormat};
use crate::logging;
use crate::shutdown;
use crate::transport::openapi;
use antwort_config as config;
use antwort_config::{ConfigErrors, RunningConfig};
use antwort_telemetry::{self as telemetry, LogOptions};
use anyhow::Context;
use tokio_util::task::TaskTracker;

/// What `main` of the binary is.
pub fn main() -> ExitCode {
    // However it ends, also with a panic.
    let _log = LogEnd;
    run_command()
}

/// Waits for the log at the end of the process.
struct LogEnd;

impl Drop for LogEnd {
    fn drop(&mut self) {
        telemetry::log_queue::wait_written();
    }
}

fn run_command() -> ExitCode {
    // The gateway starts MCP servers through its own binary.
    if let Some(code) = antwort_mcp::client::exec_program(std::env::args_os()) {
        return code;
    }
    let cli = Cli::read(crate::cli::arguments::normalize_arguments(std::env::args_os()));
    if let Some(code) = cli.run_offline() {
        return crate::cli::exit_code(code);
    }
    match run(&cli) {
        Ok(code) => crate::cli::exit_code(code),
        Err(error) => fail(&cli, FAILED, &[format!("{error:#}")]),
    }
}

/// The exit code of a server that failed to start or stopped with an error.
const FAILED: u8 = 1;

/// Reports why the process ends: a server to its log, any other command to standard error.
fn fail(cli: &Cli, exit_code: u8, errors: &[String]) -> ExitCode {
    if !matches!(cli.command, Command::Serve) {
        crate::cli::print_error(&errors.join("\n"));
        return ExitCode::from(exit_code);
    }
    // Invalid settings do not configure the log, either.
    let logs = tracing::dispatcher::has_been_set() || telemetry::init(&LogOptions::default(), None).is_ok();
    for error in errors {
        if logs {
            tracing::error!(exit_code, error, "fatal");
        } else {
            crate::cli::print_error(error);
        }
    }
    ExitCode::from(exit_code)
}

fn wrong_settings(cli: &Cli, errors: &ConfigErrors) -> ExitCode {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    fail(cli, crate::cli::EXIT_INVALID_CONFIG, &errors)
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    if let Command::Openapi { format } = &cli.command {
        crate::cli::print_line(match format {
            DocumentFormat::Yaml => openapi::OPENAPI_YAML,
            DocumentFormat::Json => openapi::openapi_json(),
        });
        return Ok(ExitCode::SUCCESS);
    }
    // First, as loading may take time: without a handler, SIGHUP would end the process.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let hangups = {
        let _entered = runtime.enter();
        SighupListener::listen().context("listening for SIGHUP")?
    };
    let options = cli.load_options();
    let mut loaded = match config::load(&options) {
        Ok(loaded) => loaded,
        Err(errors) => return Ok(wrong_settings(cli, &errors)),
    };
    if cli.command.is_demo() && cli.overrides.log.is_none() && loaded.settings.log.filter == "info" {
        // The demo prints every event itself.
        "warn".clone_into(&mut loaded.settings.log.filter);
    }
    let telemetry = logging::init(&loaded.settings)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for (key, variable) in &loaded.overridden {
        tracing::info!(key, variable, "an environment variable overrides a key of the file");
    }
    if matches!(cli.command, Command::Serve) {
        if let Err(errors) = loaded.settings.require_provider() {
            return Ok(wrong_settings(cli, &errors));
        }
        app::announce::starting(&loaded.settings, &loaded.sources());
    }
    // Every stream holds two connections, and shells often allow only 1024 open files.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    runtime.block_on(async {
        let tasks = TaskTracker::new();
        let shutdown = shutdown::on_signal(&tasks);
        #[cfg(feature = "demo")]
        if cli.command.is_demo() {
            return crate::demo::run(loaded.settings, hangups, shutdown).await;
        }
        let settings = &loaded.settings;
        let listener = app::bind(settings.listen)?;
        let running = RunningConfig::new(options, loaded);
        App::run_reloading(running, hangups, listener, shutdown, app::LOCK_WAIT).await
    })?;
    // Remaining blocking tasks wait for a file system that does not respond.
    runtime.shutdown_background();
    telemetry.shutdown();
    Ok(ExitCode::SUCCESS)
}
