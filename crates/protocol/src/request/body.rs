//! Splits a request body into its fields, without parsing their values.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::error::{ApiError, ErrorKind};

/// The fields of a JSON object in their order. Values are slices of the text.
pub(super) type RawFields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// Fields of one body: many more than the API has, and few enough to compare them with each other.
const MAX_FIELDS: usize = 256;

pub(super) fn split_fields(body: &[u8]) -> Result<RawFields<'_>, ApiError> {
    let text = std::str::from_utf8(body)
        .map_err(|error| invalid_json(format!("it is not UTF-8 from byte {} on", error.valid_up_to())))?;
    // Some editors and Windows shells write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Err(invalid_json("it is empty; send a JSON object with at least 'model' and 'input'"));
    }
    match serde_json::from_str::<Fields<'_>>(text) {
        Ok(fields) if fields.0.len() > MAX_FIELDS => Err(ApiError::new(
            ErrorKind::InvalidRequest,
            format!("The request body has more than {MAX_FIELDS} fields."),
        )
        .with_code("object_above_max_properties")),
        Ok(fields) => Ok(fields.0),
        Err(error) => Err(invalid_json(match error.classify() {
            Category::Data => "an object with fields such as 'model' and 'input' is expected".to_owned(),
            Category::Eof => format!("it ends too early: {error}"),
            Category::Syntax | Category::Io => error.to_string(),
        })),
    }
}

/// The text of a JSON object with these fields: a name is written as JSON again, a value as it came.
pub(super) fn join_fields<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("{");
    for (name, value) in fields {
        let comma = if text.len() > 1 { "," } else { "" };
        text.extend([comma, &serde_json::to_string(name).unwrap_or_default(), ":", value]);
    }
    text.push('}');
    text
}

fn invalid_json(problem: impl fmt::Display) -> ApiError {
    let message = format!("The request body is not a valid JSON object: {problem}.");
    ApiError::new(ErrorKind::InvalidRequest, message).with_code("invalid_json")
}

struct Fields<'a>(RawFields<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor).map(Fields)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = RawFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::with_capacity(16);
        while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
            pairs.push((key, value));
            if pairs.len() > MAX_FIELDS {
                // The remaining fields are dropped, but must be JSON.
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            }
        }
        Ok(pairs)
    }
}

/// A key that borrows from the text if it has no escapes.
#[derive(Deserialize)]
pub(super) struct Key<'a>(#[serde(borrow)] pub Cow<'a, str>);
