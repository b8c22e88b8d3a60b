//! What is wrong with a configuration: everything at once, each with its key, its place and a way out.

use std::fmt;

use super::tree::{Origin, Tree, format_path};

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug, thiserror::Error)]
pub struct ConfigErrors(Vec<ConfigError>);

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The key, such as `providers.default.url`; empty for the configuration as a whole.
    pub path: String,
    /// What is wrong with it and what to do. Never holds a secret.
    pub message: String,
    /// Where the key was said, if it was.
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

/// Merging cannot fail: the sources are in memory. The crate's signature says otherwise.
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

/// Where errors are gathered while a configuration is read.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    errors: Vec<ConfigError>,
    rejected_sections: Vec<String>,
}

impl Diagnostics {
    /// Notes what is wrong at `path` of `tree`.
    pub(super) fn add(&mut self, tree: &Tree, path: &[impl AsRef<str>], message: impl Into<String>) {
        let origin = tree.origin(path);
        self.errors.push(ConfigError { path: format_path(path), message: message.into(), origin });
    }

    /// The same for a value that has to be struck, so that what misses it later is not to blame.
    pub(super) fn reject(&mut self, tree: &mut Tree, path: &[String], message: impl Into<String>) -> bool {
        self.add(tree, path, message);
        self.rejected_sections.extend(path.first().cloned());
        tree.invalidate(path)
    }

    /// Whether something of this section was struck: what misses there may have been said, only wrongly.
    pub(super) fn has_rejected(&self, section: &str) -> bool {
        self.rejected_sections.iter().any(|struck| struck == section)
    }

    pub(super) fn into_result<T>(self, value: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() { Ok(value) } else { Err(ConfigErrors(self.errors)) }
    }
}
