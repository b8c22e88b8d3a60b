//! Commands that use the gateway's parts without serving: settings, logs and a runtime around one piece of work.

use std::process::ExitCode;

use super::{EXIT_INVALID_CONFIG, print_error};
use crate::config::{self, ConfigErrors, LoadOptions, LogFormat, Settings};
use crate::telemetry;

/// Loads the settings and does this with them.
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

/// Does this with the settings, in a runtime of its own.
pub(super) fn run_with_settings<T>(
    mut settings: Settings,
    work: impl AsyncFnOnce(Settings) -> Result<T, String>,
) -> Result<T, String> {
    // Standard output is for the answer; of the rest, people at a prompt want to hear of troubles only.
    if settings.log.filter == "info" {
        "warn".clone_into(&mut settings.log.filter);
    }
    if settings.log.format == LogFormat::Auto {
        settings.log.format = LogFormat::Text;
    }
    let telemetry = telemetry::init(&settings.log, &settings.telemetry).map_err(|error| error.to_string())?;
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
