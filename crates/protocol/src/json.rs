//! JSON as text: [`RawJson`], values of users that are passed on without being interpreted (schemas, arguments), and
//! [`to_text`], which serializes wire types.
//!
//! A value of a user is kept byte for byte, so that a provider's prompt cache sees the same schema in every turn; only line breaks
//! between its tokens become spaces, since events carry it on one line.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::parse::{self, FromJson, ParseError};

/// Capacity of a thread's buffer that is kept for the next text.
const MAX_SCRATCH_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Serializes a wire type to text, in a thread-local buffer: only the text itself is allocated.
///
/// Wire types serialize without fail: their keys are strings, and their floats were checked to be finite. Should
/// one fail nevertheless, null is sent instead of a panic.
pub fn to_text<T: Serialize>(value: &T) -> Arc<str> {
    let mut bytes = SCRATCH.take();
    bytes.clear();
    let text = match serde_json::to_writer(&mut bytes, value) {
        // What is written as JSON is UTF-8.
        Ok(()) => std::str::from_utf8(&bytes).unwrap_or("null").into(),
        Err(error) => {
            log_failure::<T>(&error);
            "null".into()
        }
    };
    if bytes.capacity() <= MAX_SCRATCH_BYTES {
        SCRATCH.set(bytes);
    }
    text
}

/// The same as raw JSON, to be part of another value.
pub fn to_raw<T: Serialize>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|error| {
        log_failure::<T>(&error);
        RawValue::NULL.to_owned()
    })
}

fn log_failure<T>(error: &serde_json::Error) {
    let type_name = std::any::type_name::<T>();
    tracing::error!(%error, type_name, "serializing a response value failed; sending null");
}

/// The maximum nesting depth: that of serde_json, which parses the value later.
const MAX_DEPTH: usize = 128;

/// A JSON value as its sender wrote it.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The value as text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The value as raw JSON.
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// Reads a value that must be a JSON object.
    pub fn object(raw: &RawValue) -> Result<Self, ParseError> {
        if raw.get().starts_with('{') {
            return Self::from_json(raw);
        }
        Err(ParseError::wrong_type("", format!("expected an object, got {}.", parse::json_type(raw))))
    }
}

impl From<&serde_json::Value> for RawJson {
    fn from(value: &serde_json::Value) -> Self {
        // Writing a value to memory cannot fail; if it did, it would become `null`.
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl FromJson for RawJson {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        if nests_too_deeply(raw.get()) {
            return Err(too_deep());
        }
        Ok(Self(on_one_line(raw.to_owned())))
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if nests_too_deeply(raw.get()) {
            return Err(serde::de::Error::custom("nested too deeply"));
        }
        Ok(Self(on_one_line(raw)))
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        Self(on_one_line(raw))
    }
}

impl From<RawJson> for Box<RawValue> {
    fn from(json: RawJson) -> Self {
        json.0
    }
}

/// The value with spaces in place of line breaks, which can only be between its tokens: strings have them escaped.
fn on_one_line(raw: Box<RawValue>) -> Box<RawValue> {
    let is_break = |byte: char| matches!(byte, '\n' | '\r');
    if memchr::memchr2(b'\n', b'\r', raw.get().as_bytes()).is_none() {
        return raw;
    }
    RawValue::from_string(raw.get().replace(is_break, " ")).unwrap_or(raw)
}

pub(super) fn too_deep() -> ParseError {
    ParseError::invalid("", format!("nested more than {MAX_DEPTH} levels deep."))
}

/// Whether the text of a JSON value exceeds the maximum nesting depth.
///
/// Slicing raw values out of a body does not recurse, so that deep nesting would pass it unnoticed.
pub(super) fn nests_too_deeply(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Most values have fewer brackets than the limit, and counting them is much faster than skipping strings.
    if memchr::memchr2_iter(b'{', b'[', bytes).nth(MAX_DEPTH).is_none() {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for &byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_deep(text: &str) -> bool {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        RawJson::from_json(&raw).is_err()
    }

    #[test]
    fn depth_is_limited_and_breadth_is_not() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(!too_deep(&nested(MAX_DEPTH)));
        assert!(too_deep(&nested(MAX_DEPTH + 1)));
        assert!(too_deep(&nested(100_000)));
        assert!(!too_deep(&format!("[{}1]", "[],".repeat(1000))));
        assert!(!too_deep(&format!(r#"["\"{}"]"#, "[".repeat(1000))));
    }

    /// A schema that a client had written over several lines cut the events in two that echo it.
    #[test]
    fn line_breaks_of_a_value_become_spaces() {
        let text = "{\n  \"a\":\r\n [1.10, \"\\n\"]\t}";
        let expected = "{   \"a\":   [1.10, \"\\n\"]\t}";
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        assert_eq!(RawJson::from_json(&raw).unwrap().get(), expected);
        assert_eq!(serde_json::from_str::<RawJson>(text).unwrap().get(), expected);
        assert_eq!(RawJson::from(raw).get(), expected);
    }
}
