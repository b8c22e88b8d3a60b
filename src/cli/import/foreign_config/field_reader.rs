//! Reads a section of an imported file: each key is taken once, so the unknown ones remain.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::cli::duration;
use antwort_config::units;

/// A section and its path.
pub(super) struct FieldReader {
    path: String,
    entries: Map<String, Value>,
}

impl FieldReader {
    pub(super) fn new(path: &str, value: Value) -> Result<Self, String> {
        match value {
            Value::Object(entries) => Ok(Self { path: path.to_owned(), entries }),
            _ if path.is_empty() => Err("expected a JSON object".into()),
            _ => Err(format!("{path}: expected a JSON object")),
        }
    }

    /// A section without keys.
    pub(super) fn empty() -> Self {
        Self { path: String::new(), entries: Map::new() }
    }

    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A value of any type.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.entries.shift_remove(key).filter(|value| !value.is_null())
    }

    pub(super) fn section(&mut self, key: &str) -> Result<Option<Self>, String> {
        let path = self.at(key);
        self.take(key).map(|value| Self::new(&path, value)).transpose()
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{}: expected text", self.at(key))),
        }
    }

    /// A boolean; absent means false, as in Go.
    pub(super) fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(value),
            Some(_) => Err(format!("{}: expected true or false", self.at(key))),
        }
    }

    pub(super) fn list(&mut self, key: &str) -> Result<Option<Vec<Value>>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(list)) if list.iter().all(Value::is_string) => Ok(Some(list)),
            Some(_) => Err(format!("{}: expected a list of texts", self.at(key))),
        }
    }

    /// A duration in our format; a number is nanoseconds. Zero means none there, and is omitted.
    pub(super) fn duration(&mut self, key: &str) -> Result<Option<String>, String> {
        let time = match self.take(key) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_u64().map(Duration::from_nanos),
            Some(Value::String(text)) => duration::parse(&text),
            Some(_) => None,
        };
        let time = time.ok_or_else(|| {
            format!("{}: expected a duration: a number of nanoseconds, or a text such as 30s", self.at(key))
        })?;
        Ok((time.as_millis() > 0).then(|| units::format_duration(time)))
    }

    /// Notes about the keys that were not taken.
    pub(super) fn unknown_fields(&self) -> Vec<String> {
        let entries = self.entries.iter().filter(|(_, value)| !value.is_null());
        entries.map(|(key, _)| format!("{} is an unknown key and was not imported", self.at(key))).collect()
    }

    /// All remaining keys.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (String, Value)> {
        self.entries.into_iter().filter(|(_, value)| !value.is_null())
    }
}
