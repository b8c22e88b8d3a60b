//! `antwort config check` and `antwort config show`.

use std::process::ExitCode;

use super::{WRONG_SETTINGS, complain, say};
use crate::config::{self, ConfigErrors, LoadOptions, Loaded};

/// Says what is wrong with the settings, as `serve` would find them.
pub(super) fn check(options: &LoadOptions) -> ExitCode {
    let checked =
        config::load(options).and_then(|loaded| loaded.settings.require_provider().map(|()| loaded));
    match checked {
        Ok(loaded) => {
            warn(&loaded);
            say(&match &loaded.file {
                Some(file) => format!("{} is valid", file.display()),
                None => "the settings are valid; no file was read".to_owned(),
            });
            ExitCode::SUCCESS
        }
        Err(errors) => refuse(&errors),
    }
}

/// Shows the settings in force.
pub(super) fn show(options: &LoadOptions) -> ExitCode {
    match config::load(options) {
        Ok(loaded) => {
            warn(&loaded);
            say(&config::show(&loaded));
            ExitCode::SUCCESS
        }
        Err(errors) => refuse(&errors),
    }
}

/// Shows every key.
pub(super) fn show_defaults() -> ExitCode {
    say(config::DEFAULTS);
    ExitCode::SUCCESS
}

fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        complain(&format!("warning: {warning}"));
    }
}

fn refuse(errors: &ConfigErrors) -> ExitCode {
    for error in errors.iter() {
        complain(&error.to_string());
    }
    ExitCode::from(WRONG_SETTINGS)
}
