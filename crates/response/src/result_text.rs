//! The text in which the model is given the result of a server-side call: plain, or in a JSON envelope.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use antwort_protocol::result_format::ResultFormat;

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

/// What came of a call, as the model is told.
#[derive(Debug, Clone, Copy)]
pub enum ToldResult<'a> {
    /// Its output.
    Output(&'a str),
    /// Why there is none, where the model is to answer without it.
    Skipped(&'a str),
    /// What failed.
    Failed(&'a str),
}

/// The text of a call's result.
pub fn format_result<'a>(format: ResultFormat, id: &str, result: ToldResult<'a>) -> Cow<'a, str> {
    let envelope = match (format, result) {
        (ResultFormat::Text, ToldResult::Output(text) | ToldResult::Skipped(text)) => {
            return Cow::Borrowed(text);
        }
        (ResultFormat::Text, ToldResult::Failed(message)) => return Cow::Owned(format!("Error: {message}")),
        (ResultFormat::JsonEnvelope, ToldResult::Output(text)) => {
            Envelope { id, success: true, data: Some(data(text)), error: None }
        }
        (ResultFormat::JsonEnvelope, ToldResult::Skipped(message) | ToldResult::Failed(message)) => {
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
    use super::ToldResult::{Failed, Output, Skipped};
    use super::{ResultFormat, format_result};

    #[test]
    fn an_envelope_holds_json_as_it_is_and_all_else_as_text() {
        for (result, expected) in [
            (Output(r#" {"a": 1.0}"#), r#"{"id":"c1","success":true,"data":{"a": 1.0}}"#),
            (Output("[1, 2]"), r#"{"id":"c1","success":true,"data":[1, 2]}"#),
            (Output("{cut off"), r#"{"id":"c1","success":true,"data":"{cut off"}"#),
            (Output("007"), r#"{"id":"c1","success":true,"data":"007"}"#),
            (Output(""), r#"{"id":"c1","success":true,"data":""}"#),
            (Failed("no \"key\""), r#"{"id":"c1","success":false,"error":"no \"key\""}"#),
            (Skipped("not now"), r#"{"id":"c1","success":false,"error":"not now"}"#),
        ] {
            assert_eq!(format_result(ResultFormat::JsonEnvelope, "c1", result), expected);
        }
        assert_eq!(format_result(ResultFormat::Text, "c1", Output("plain")), "plain");
        assert_eq!(format_result(ResultFormat::Text, "c1", Skipped("not now")), "not now");
        assert_eq!(format_result(ResultFormat::Text, "c1", Failed("broken")), "Error: broken");
    }
}
