//! Parses JSON into wire types, with errors that have the path of the mistake and a helpful sentence.
//!
//! Unions are read by their `type` first (serde's tagged unions lose both the path and raw values). The fields of
//! an object are read by serde, and once more with path tracking if that failed.

use std::borrow::Cow;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::cancellation;
use super::error::ApiError;
use super::strict::Strict;

/// What is wrong with a value, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Path relative to the value that was read, such as `content[0].image_url`; empty for the value itself.
    path: String,
    code: &'static str,
    problem: String,
}

/// Marks an error of this module that serde carries as text.
const ERROR_MARKER: &str = "not of the right shape: ";

/// Codes of errors that types with their own [`FromJson`] may return from within others.
const CODES: &[&str] = &[
    "invalid_value",
    "invalid_type",
    "unsupported_parameter",
    "missing_required_parameter",
    "unknown_parameter",
    "string_above_max_length",
    "string_below_min_length",
    "integer_above_max_value",
    "integer_below_min_value",
    "array_above_max_length",
    "array_below_min_length",
    "object_above_max_properties",
    "mutually_exclusive_parameters",
];

impl ParseError {
    /// A value of the right type that is not acceptable.
    pub fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), code: "invalid_value", problem: problem.into() }
    }

    /// A value of the wrong JSON type.
    pub fn wrong_type(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), code: "invalid_type", problem: problem.into() }
    }

    /// A part of the API that this gateway does not support.
    pub fn unsupported(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), code: "unsupported_parameter", problem: problem.into() }
    }

    /// A required field that is absent.
    pub fn missing(field: &str) -> Self {
        Self {
            path: field.to_owned(),
            code: "missing_required_parameter",
            problem: format!("'{field}' is required here."),
        }
    }

    /// A `type` that the union does not have.
    pub(crate) fn unknown_type(got: &str, expected: &str) -> Self {
        Self::invalid("type", format!("unknown type '{}'; expected {expected}.", truncate_for_display(got)))
    }

    /// A field that does not exist, where ignoring it could do harm.
    pub fn unknown_field(path: impl Into<String>) -> Self {
        Self { path: path.into(), code: "unknown_parameter", problem: String::new() }
    }

    /// The same error with a more exact code, such as `string_above_max_length`.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// The same error as seen from the object or list that holds the value under `segment` (`name` or `[index]`).
    #[must_use]
    pub fn within(mut self, segment: &str) -> Self {
        self.path = join(segment, &self.path);
        self
    }

    /// The same error as seen from the list that holds the value at `index`.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }

    /// Whether the value is of the right shape, but none of those that are known for an option.
    pub(crate) fn is_unknown_value(&self) -> bool {
        let inner = self.path.contains('.') && self.problem.starts_with("unknown type ");
        self.code == "invalid_value" && (inner || self.problem.starts_with("unknown variant "))
    }

    /// Whether the value is of a `type` that is not known.
    pub(crate) fn is_unknown_type(&self) -> bool {
        self.code == "invalid_value" && self.path == "type" && self.problem.starts_with("unknown type ")
    }

    /// The error as text that serde can carry through the types around it.
    fn to_serde_message(&self) -> String {
        format!("{ERROR_MARKER}{} at '{}': {}", self.code, self.path, self.problem)
    }

    /// Parses what [`Self::to_serde_message`] wrote.
    fn from_serde_message(text: &str) -> Option<Self> {
        let (code, rest) = text.strip_prefix(ERROR_MARKER)?.split_once(" at '")?;
        let (path, problem) = rest.split_once("': ")?;
        let code = CODES.iter().find(|known| **known == code)?;
        Some(Self { path: path.to_owned(), code, problem: problem.to_owned() })
    }

    /// The error as a 400; `root` names the request field that was read.
    pub fn into_api_error(self, root: &str) -> ApiError {
        let param = join(root, &self.path);
        let message = match self.code {
            "missing_required_parameter" => format!("Missing required parameter '{param}'."),
            "invalid_type" => format!("Invalid type for '{param}': {}", self.problem),
            "unknown_parameter" => format!("Unknown parameter '{param}'."),
            "unsupported_parameter" => format!("Unsupported '{param}': {}", self.problem),
            _ => format!("Invalid value for '{param}': {}", self.problem),
        };
        ApiError::invalid(self.code, param, message)
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// A type that parses itself from raw JSON with exact errors.
pub trait FromJson: Sized {
    /// Parses the value.
    fn from_json(raw: &RawValue) -> Result<Self, ParseError>;
}

/// The fields by which the members of unions are recognized.
#[derive(Debug, Deserialize)]
pub(crate) struct Discriminator<'a> {
    /// `type`.
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<Cow<'a, str>>,
    /// `role`: a message may come without a `type`.
    #[serde(borrow, default)]
    pub role: Option<Cow<'a, str>>,
    /// `id`: an item reference may have nothing else.
    #[serde(borrow, default)]
    pub id: Option<Cow<'a, str>>,
}

/// Reads the fields by which the members of a union are recognized.
pub(crate) fn peek_discriminator(raw: &RawValue) -> Result<Discriminator<'_>, ParseError> {
    if !raw.get().starts_with('{') {
        return Err(ParseError::wrong_type("", format!("expected an object, got {}.", json_type(raw))));
    }
    read(raw)
}

/// Parses an object by its serde definition.
pub fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, ParseError> {
    T::deserialize(Strict(&mut serde_json::Deserializer::from_str(raw.get())))
        .map_err(|error| error_with_path::<T>(raw, &error))
}

/// Parses a list, each element by its own type.
pub(crate) fn read_list<T: FromJson>(raw: &RawValue) -> Result<Vec<T>, ParseError> {
    let read = |(i, raw): (usize, &&RawValue)| {
        check_cancelled()?;
        T::from_json(raw).map_err(|e| e.at(i))
    };
    elements(raw)?.iter().enumerate().map(read).collect()
}

/// The elements of a JSON array, not parsed.
pub(crate) fn elements(raw: &RawValue) -> Result<Vec<&RawValue>, ParseError> {
    if !raw.get().starts_with('[') {
        return Err(ParseError::wrong_type("", format!("expected an array, got {}.", json_type(raw))));
    }
    serde_json::from_str(raw.get()).map_err(|_| ParseError::wrong_type("", "expected an array."))
}

/// The elements of a JSON array of at most `max` elements, not parsed. A longer one is not read to its end.
pub(crate) fn elements_up_to(raw: &RawValue, max: usize) -> Result<Vec<&RawValue>, ParseError> {
    /// Visits the elements.
    struct UpTo(usize);

    impl<'de> Visitor<'de> for UpTo {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut elements = Vec::new();
            while let Some(element) = list.next_element()? {
                elements.push(element);
                if elements.len() > self.0 {
                    break;
                }
            }
            Ok(elements)
        }
    }

    if !raw.get().starts_with('[') {
        return elements(raw);
    }
    match serde_json::Deserializer::from_str(raw.get()).deserialize_seq(UpTo(max)) {
        Ok(elements) if elements.len() <= max => Ok(elements),
        // Of a list that is longer by more than one, the rest is not read, and serde misses its end.
        Ok(_) | Err(_) => {
            let problem = format!("at most {max} elements are allowed.");
            Err(ParseError::invalid("", problem).with_code("array_above_max_length"))
        }
    }
}

/// For `Deserialize` of [`FromJson`] types: stored rows and tests read them through serde.
pub(crate) fn deserialize_from_json<'de, D: Deserializer<'de>, T: FromJson>(
    deserializer: D,
) -> Result<T, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    T::from_json(&raw).map_err(|error| serde::de::Error::custom(error.to_serde_message()))
}

/// Called between two pieces of long work: fields, elements of a list.
///
/// # Errors
/// The work was cancelled.
pub fn check_cancelled() -> Result<(), ParseError> {
    if cancellation::is_cancelled() {
        return Err(ParseError::invalid("", "the client has disconnected."));
    }
    Ok(())
}

/// Whether the value is JSON null.
pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// The JSON type of a value in words, for error messages.
pub(crate) fn json_type(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// Parses again with path tracking, and translates serde's error.
fn error_with_path<'a, T: Deserialize<'a>>(raw: &'a RawValue, first: &serde_json::Error) -> ParseError {
    let mut tracked = serde_json::Deserializer::from_str(raw.get());
    match serde_path_to_error::deserialize::<_, T>(Strict(&mut tracked)) {
        Err(error) => translate_serde_error(&error.path().to_string(), &error.inner().to_string()),
        Ok(_) => translate_serde_error("", &first.to_string()),
    }
}

/// Translates serde's error about the value at a path.
pub(super) fn translate_serde_error(path: &str, text: &str) -> ParseError {
    // Keys in the path are the client's own text.
    let path = if path == "." { String::new() } else { truncate_for_display(path).into_owned() };
    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
    if let Some(inner) = ParseError::from_serde_message(text) {
        return inner.within(&path);
    }
    if let Some(field) = text.strip_prefix("missing field ") {
        return ParseError::missing(field.trim_matches('`')).within(&path);
    }
    if text.starts_with("unknown field ") {
        return ParseError::unknown_field(path);
    }
    match text.strip_prefix("invalid type: ").and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((got, expected)) => {
            let problem = format!(
                "expected {}, got {}.",
                describe_expected(expected),
                truncate_for_display(describe_found(got))
            );
            ParseError::wrong_type(path, problem)
        }
        None => ParseError::invalid(path, format!("{}.", truncate_for_display(text))),
    }
}

/// Names of Rust types mean nothing to a client.
fn describe_expected(expected: &str) -> &str {
    match expected {
        "f64" | "f32" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "i32" => "a whole number",
        "a sequence" => "an array",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other if other.starts_with("enum ") => "a string",
        other => other,
    }
}

fn describe_found(got: &str) -> &str {
    match got {
        "sequence" => "an array",
        "map" => "an object",
        other => other,
    }
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", path) | (path, "") => path.to_owned(),
        (outer, inner) if inner.starts_with('[') => format!("{outer}{inner}"),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// Shortens a client's own value in the error message that quotes it.
pub fn truncate_for_display(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Inner {
        #[serde(rename = "n")]
        _n: u8,
    }
    #[derive(Deserialize)]
    struct Outer {
        #[serde(rename = "list")]
        _list: Vec<Inner>,
    }

    fn error(json: &str) -> ApiError {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        read::<Outer>(&raw).err().unwrap().into_api_error("input[2]")
    }

    /// A list with one element more than allowed was taken for a list that is not too long.
    #[test]
    fn a_list_that_is_too_long_by_one_is_too_long() {
        let count = |json: &str| {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            elements_up_to(&raw, 2).map(|elements| elements.len()).map_err(|_| ())
        };
        assert_eq!(["[]", "[1,2]", "[1,2,3]", "[1,2,3,4]"].map(count), [Ok(0), Ok(2), Err(()), Err(())]);
    }

    #[test]
    fn mistakes_carry_their_path_and_code() {
        let missing = error(r#"{"list":[{"n":1},{}]}"#);
        assert_eq!(missing.code(), "missing_required_parameter");
        assert_eq!(missing.body.param.as_deref(), Some("input[2].list[1].n"));
        let wrong = error(r#"{"list":[{"n":"x"}]}"#);
        assert_eq!(wrong.code(), "invalid_type");
        assert_eq!(wrong.body.param.as_deref(), Some("input[2].list[0].n"));
        assert_eq!(error(r#"{"list":[{"n":-1}]}"#).code(), "invalid_value");
    }

    #[test]
    fn a_quoted_value_is_cut_on_a_character_boundary() {
        assert_eq!(truncate_for_display(&"é".repeat(300)).chars().count(), 201);
    }
}
