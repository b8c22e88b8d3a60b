//! Errors of a configuration: all at once, each with its key, origin and remedy.

use std::fmt;

use super::tree::{Origin, Tree, format_path};

/// All errors of a configuration; never empty.
#[derive(Debug, thiserror::Error)]
pub struct ConfigErrors(Vec<ConfigError>);

/// One error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, such as `providers.default.url`; empty for the configuration as a whole.
    pub path: String,
    /// What is wrong, and what is allowed. Never contains a secret.
    pub message: String,
    /// Where the key was set, if it was.
    pub origin: Option<Origin>,
}

impl ConfigErrors {
    pub(super) fn single(message: impl Into<String>) -> Self {
        Self(vec![ConfigError { path: String::new(), message: message.into(), origin: None }])
    }

    /// The errors, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

/// Merging cannot fail, as the sources are in memory; the crate's signature allows for sources that can.
impl From<config::ConfigError> for ConfigErrors {
    fn from(error: config::ConfigError) -> Self {
        Self::single(error.to_string())
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}

/// Collects errors while a configuration is read.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    errors: Vec<ConfigError>,
    rejected_sections: Vec<String>,
}

impl Diagnostics {
    /// Adds an error at `path` of `tree`.
    pub(super) fn add(&mut self, tree: &Tree, path: &[impl AsRef<str>], message: impl Into<String>) {
        let origin = tree.origin(path);
        self.errors.push(ConfigError { path: format_path(path), message: message.into(), origin });
    }

    /// Adds an error and invalidates the value, so that its absence causes no further errors. Whether there was a
    /// value.
    pub(super) fn reject(&mut self, tree: &mut Tree, path: &[String], message: impl Into<String>) -> bool {
        self.add(tree, path, message);
        self.rejected_sections.extend(path.first().cloned());
        tree.invalidate(path)
    }

    /// Whether a value of this section was rejected: what seems to be missing there may only be invalid.
    pub(super) fn has_rejected(&self, section: &str) -> bool {
        self.rejected_sections.iter().any(|struck| struck == section)
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() { Ok(value) } else { Err(ConfigErrors(self.errors)) }
    }
}
