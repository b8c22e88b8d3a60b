//! Commands that use parts of the gateway without serving: loads settings, sets up logs, runs a future.

use std::process::ExitCode;

use super::output::{EXIT_INVALID_CONFIG, print_error};
use crate::logging;
use antwort_config::{self as config, ConfigErrors, LoadOptions, LogFormat, Settings};

/// Loads the settings and runs `work` with them.
pub(super) fn run(
    options: &LoadOptions,
    work: impl AsyncFnOnce(Settings) -> Result<ExitCode, String>,
) -> ExitCode {
    let loaded = match config::load(options) {
        Ok(loaded) => loaded,
        Err(errors) => return refuse(&errors),
    };
    for warning in &loaded.warnings {
        print_error(&format!("warning: {warning}"));
    }
    run_with_settings(loaded.settings, work).unwrap_or_else(|error| {
        print_error(&error);
        ExitCode::FAILURE
    })
}

/// Runs `work` with the settings in a runtime of its own.
pub(super) fn run_with_settings<T>(
    mut settings: Settings,
    work: impl AsyncFnOnce(Settings) -> Result<T, String>,
) -> Result<T, String> {
    // Standard output is for results; users at a prompt only want warnings and errors.
    if settings.log.filter == "info" {
        "warn".clone_into(&mut settings.log.filter);
    }
    if settings.log.format == LogFormat::Auto {
        settings.log.format = LogFormat::Text;
    }
    let telemetry = logging::init(&settings).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the async runtime: {error}"))?;
    let done = runtime.block_on(work(settings));
    telemetry.shutdown();
    done
}

fn refuse(errors: &ConfigErrors) -> ExitCode {
    print_error(&errors.to_string());
    ExitCode::from(EXIT_INVALID_CONFIG)
}
