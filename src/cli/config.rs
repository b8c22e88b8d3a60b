//! `antwort config check`, `antwort config show` and `antwort config diff`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::connect;
use super::output::{EXIT_INVALID_CONFIG, print_error, print_line};
use crate::app::{checks, tools};
use antwort_config::{self as config, ConfigErrors, LoadOptions, LoadedConfig};

/// Prints all errors of the settings, as `serve` would. `connect`: also asks the providers, if there is no error.
pub(super) fn check(connect: bool, options: &LoadOptions) -> ExitCode {
    let checked =
        config::load(options).and_then(|loaded| loaded.settings.require_provider().map(|()| loaded));
    match checked {
        Ok(loaded) => {
            warn(&loaded);
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    print_error(&format!("cannot start the async runtime: {error}"));
                    return ExitCode::FAILURE;
                }
            };
            let names = runtime.block_on(tools::check(&loaded.settings));
            names.warnings.iter().for_each(|warning| print_error(&format!("warning: {warning}")));
            let mut errors = checks::errors(&loaded.settings);
            errors.extend(names.errors);
            if !errors.is_empty() {
                errors.iter().for_each(|error| print_error(error));
                return ExitCode::from(EXIT_INVALID_CONFIG);
            }
            print_line(&match &loaded.file {
                Some(file) => format!("{} is valid", file.display()),
                None => "the settings are valid; no file was read".to_owned(),
            });
            if !connect {
                return ExitCode::SUCCESS;
            }
            let findings = runtime.block_on(connect::ask_all(&loaded.settings.providers));
            findings.iter().for_each(|finding| print_line(&finding.line));
            ExitCode::from(u8::from(!findings.iter().all(|finding| finding.serves)))
        }
        Err(errors) => refuse(&errors),
    }
}

/// Prints the settings in force.
pub(super) fn show(options: &LoadOptions) -> ExitCode {
    match config::load(options) {
        Ok(loaded) => {
            warn(&loaded);
            print_line(&config::show(&loaded));
            ExitCode::SUCCESS
        }
        Err(errors) => refuse(&errors),
    }
}

/// Prints every key with its default.
pub(super) fn show_defaults() -> ExitCode {
    print_line(config::DEFAULT_CONFIG);
    ExitCode::SUCCESS
}

/// Compares two files, or the settings in force with one. The exit codes are those of `diff`.
pub(super) fn diff(files: &[PathBuf], options: &LoadOptions) -> ExitCode {
    let with = |file: &PathBuf| config::load(&LoadOptions { file: Some(file.clone()), ..options.clone() });
    let both = match files {
        [new] => config::load(options).and_then(|old| Ok((old, with(new)?))),
        [old, new, ..] => with(old).and_then(|old| Ok((old, with(new)?))),
        // clap requires at least one.
        [] => config::load(options).and_then(|old| Ok((old, config::load(options)?))),
    };
    match both {
        Ok((old, new)) => {
            warn(&new);
            let changes = config::changes_between(&old, &new);
            changes.iter().for_each(|change| print_line(&change.to_string()));
            ExitCode::from(u8::from(!changes.is_empty()))
        }
        Err(errors) => refuse(&errors),
    }
}

fn warn(loaded: &LoadedConfig) {
    for warning in &loaded.warnings {
        print_error(&format!("warning: {warning}"));
    }
}

fn refuse(errors: &ConfigErrors) -> ExitCode {
    for error in errors.iter() {
        print_error(&error.to_string());
    }
    ExitCode::from(EXIT_INVALID_CONFIG)
}
