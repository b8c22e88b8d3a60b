//! The text in which the model is given the result of a server-side call: plain, or in a JSON envelope.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::config::ResultFormat;

/// `{"id", "success", "data"}` or `{"id", "success", "error"}`.
#[derive(Serialize)]
struct Envelope<'a> {
    id: &'a str,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    /// JSON, byte for byte.
    Json(&'a RawValue),
    Text(&'a str),
}

/// The text of a call's result, or of its error message.
pub(crate) fn format_result<'a>(
    format: ResultFormat,
    id: &str,
    result: Result<&'a str, &str>,
) -> Cow<'a, str> {
    let envelope = match (format, result) {
        (ResultFormat::Text, Ok(text)) => return Cow::Borrowed(text),
        (ResultFormat::Text, Err(message)) => return Cow::Owned(format!("Error: {message}")),
        (ResultFormat::JsonEnvelope, Ok(text)) => {
            Envelope { id, success: true, data: Some(data(text)), error: None }
        }
        (ResultFormat::JsonEnvelope, Err(message)) => {
            Envelope { id, success: false, data: None, error: Some(message) }
        }
    };
    // Strings and valid JSON can always be serialized.
    Cow::Owned(serde_json::to_string(&envelope).unwrap_or_default())
}

/// An object or a list is embedded as JSON. Everything else stays text: a number that a tool wrote may not fit one of
/// JSON.
fn data(text: &str) -> Data<'_> {
    let json = text.trim_ascii();
    match serde_json::from_str(json) {
        Ok(raw) if json.starts_with(['{', '[']) => Data::Json(raw),
        _ => Data::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{ResultFormat, format_result};

    #[test]
    fn an_envelope_holds_json_as_it_is_and_all_else_as_text() {
        for (result, expected) in [
            (Ok(r#" {"a": 1.0}"#), r#"{"id":"c1","success":true,"data":{"a": 1.0}}"#),
            (Ok("[1, 2]"), r#"{"id":"c1","success":true,"data":[1, 2]}"#),
            (Ok("{cut off"), r#"{"id":"c1","success":true,"data":"{cut off"}"#),
            (Ok("007"), r#"{"id":"c1","success":true,"data":"007"}"#),
            (Ok(""), r#"{"id":"c1","success":true,"data":""}"#),
            (Err("no \"key\""), r#"{"id":"c1","success":false,"error":"no \"key\""}"#),
        ] {
            assert_eq!(format_result(ResultFormat::JsonEnvelope, "c1", result), expected);
        }
        assert_eq!(format_result(ResultFormat::Text, "c1", Ok("plain")), "plain");
        assert_eq!(format_result(ResultFormat::Text, "c1", Err("broken")), "Error: broken");
    }
}
