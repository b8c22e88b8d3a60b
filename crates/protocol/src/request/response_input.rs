//! The client's answer to a call that a response waits for: the body of `POST /v1/responses/{id}/inputs`, the form that A2A
//! clients send, and a message over WebSocket.

use serde_json::value::RawValue;

use super::RequestSizeLimits;
use super::body::RawFields;
use super::input::{MAX_CALL_ID_CHARS, check_output};
use super::known_fields::KnownFields;
use super::scalar;
use crate::elicitation::{ElicitationAction, ElicitationAnswer, is_question_id};
use crate::error::ApiError;
use crate::item::ToolOutput;
use crate::parse::{self, FromJson, ParseError};

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseInput {
    /// The call.
    pub call_id: String,
    /// What came of it.
    pub result: InputResult,
}

/// What came of a call that the client has made.
#[derive(Debug, Clone, PartialEq)]
pub enum InputResult {
    /// Its output.
    Output(ToolOutput),
    /// Why it has none, for the model.
    Error(String),
    /// The user's answer to a question of a tool.
    Answer(ElicitationAnswer),
}

impl ResponseInput {
    /// Parses a body.
    pub fn parse(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        Self::read(&KnownFields::split(body, &["call_id", "output", "error"], limits)?)
    }

    /// Parses the fields of a message.
    pub(super) fn parse_message(fields: RawFields<'_>, limits: RequestSizeLimits) -> Result<Self, ApiError> {
        Self::read(&KnownFields::check(fields, &["call_id", "output", "error"], limits)?)
    }

    fn read(fields: &KnownFields<'_>) -> Result<Self, ApiError> {
        fields.required("call_id")?;
        let call_id = fields.read("call_id", call_id)?.unwrap_or_default();
        let output = match is_question_id(&call_id) {
            true => fields.read("output", ElicitationAnswer::from_json)?.map(InputResult::Answer),
            false => fields.read("output", output)?.map(InputResult::Output),
        };
        let result = match (output, fields.read("error", error_text)?) {
            (Some(output), None) => output,
            (None, Some(error)) => InputResult::Error(error),
            (None, None) => return Err(ParseError::missing("output").into_api_error("")),
            (Some(_), Some(_)) => return Err(both()),
        };
        Ok(Self { call_id, result })
    }
}

/// The result of a tool whose work has gone on: its output, or why it has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackResult(pub Result<String, String>);

impl CallbackResult {
    /// Parses a body: `output`, text or a value that becomes JSON, or `error`.
    pub fn parse(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        let fields = KnownFields::split(body, &["output", "error"], limits)?;
        let (output, error) = (fields.read("output", any_text)?, fields.read("error", error_text)?);
        match (output, error) {
            (Some(output), None) => Ok(Self(Ok(output))),
            (None, Some(error)) => Ok(Self(Err(error))),
            (None, None) => Err(ParseError::missing("output").into_api_error("")),
            (Some(_), Some(_)) => Err(both()),
        }
    }
}

fn both() -> ApiError {
    let problem = ParseError::invalid("", "give either 'output' or 'error'.");
    problem.with_code("mutually_exclusive_parameters").into_api_error("error")
}

/// An answer as A2A clients send it, with the response that it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct A2aInput {
    /// The id of the response.
    pub task_id: String,
    /// The answer.
    pub input: ResponseInput,
}

impl A2aInput {
    /// Parses a body: `taskId` is the id of the response, `inputId` the `call_id`.
    pub fn parse(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        const FIELDS: &[&str] =
            &["taskId", "inputId", "success", "result", "error", "toolCallId", "toolName"];
        let fields = KnownFields::split(body, FIELDS, limits)?;
        for name in ["taskId", "inputId", "success"] {
            fields.required(name)?;
        }
        let task_id = fields.read("taskId", scalar::non_empty_string)?.unwrap_or_default();
        let call_id = fields.read("inputId", call_id)?.unwrap_or_default();
        let has_succeeded = fields.read("success", scalar::boolean)? == Some(true);
        let result = if has_succeeded && is_question_id(&call_id) {
            fields.required("result")?;
            let answer = fields.read("result", ElicitationAnswer::from_json)?;
            InputResult::Answer(
                answer.unwrap_or_else(|| ElicitationAnswer::without_content(ElicitationAction::Cancel)),
            )
        } else if has_succeeded {
            InputResult::Output(fields.read("result", any_result)?.unwrap_or(ToolOutput::Text(String::new())))
        } else {
            fields.required("error")?;
            InputResult::Error(fields.read("error", error_text)?.unwrap_or_default())
        };
        Ok(Self { task_id, input: ResponseInput { call_id, result } })
    }
}

fn call_id(raw: &RawValue) -> Result<String, ParseError> {
    let id = scalar::non_empty_string(raw)?;
    scalar::check_length("", &id, MAX_CALL_ID_CHARS)?;
    Ok(id)
}

fn output(raw: &RawValue) -> Result<ToolOutput, ParseError> {
    let output = ToolOutput::from_json(raw)?;
    check_output(&output)?;
    Ok(output)
}

fn error_text(raw: &RawValue) -> Result<String, ParseError> {
    let text = scalar::string(raw)?;
    check_output(&ToolOutput::Text(text.clone()))?;
    Ok(text)
}

/// Text as it is, any other value as JSON.
fn any_result(raw: &RawValue) -> Result<ToolOutput, ParseError> {
    any_text(raw).map(ToolOutput::Text)
}

fn any_text(raw: &RawValue) -> Result<String, ParseError> {
    let text = if raw.get().starts_with('"') { parse::read(raw)? } else { raw.get().to_owned() };
    check_output(&ToolOutput::Text(text.clone()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<ResponseInput, ApiError> {
        ResponseInput::parse(body.as_bytes(), RequestSizeLimits::default())
    }

    fn a2a(body: &str) -> Result<A2aInput, ApiError> {
        A2aInput::parse(body.as_bytes(), RequestSizeLimits::default())
    }

    fn text(text: &str) -> InputResult {
        InputResult::Output(ToolOutput::Text(text.to_owned()))
    }

    #[test]
    fn an_answer_is_text_or_parts_or_an_error() {
        assert_eq!(parse(r#"{"call_id":"call_1","output":"hi"}"#).unwrap().result, text("hi"));
        assert_eq!(parse(r#"{"call_id":"call_1","output":""}"#).unwrap().result, text(""));
        let parts = parse(r#"{"call_id":"call_1","output":[{"type":"input_text","text":"a"}],"error":null}"#);
        assert!(
            matches!(parts.unwrap().result, InputResult::Output(ToolOutput::Parts(parts)) if parts.len() == 1)
        );
        let failed = parse(r#"{"call_id":"call_1","error":"no such file"}"#).unwrap();
        assert_eq!(failed.result, InputResult::Error("no such file".to_owned()));
    }

    #[test]
    fn a_wrong_answer_names_its_field() {
        let long = format!(r#"{{"call_id":"{}","output":""}}"#, "x".repeat(65));
        for (body, code, param) in [
            ("", "missing_required_parameter", "call_id"),
            (r#"{"call_id":"c"}"#, "missing_required_parameter", "output"),
            (r#"{"call_id":"","output":""}"#, "string_below_min_length", "call_id"),
            (&long, "string_above_max_length", "call_id"),
            (r#"{"call_id":1,"output":""}"#, "invalid_type", "call_id"),
            (r#"{"call_id":"c","output":{}}"#, "invalid_type", "output"),
            (r#"{"call_id":"c","output":[{"type":"nonsense"}]}"#, "invalid_value", "output[0].type"),
            (r#"{"call_id":"c","error":1}"#, "invalid_type", "error"),
            (r#"{"call_id":"c","output":"","error":""}"#, "mutually_exclusive_parameters", "error"),
            (r#"{"call_id":"c","output":"","id":""}"#, "unknown_parameter", "id"),
            (r#"{"call_id":"c","call_id":"d","output":""}"#, "invalid_value", "call_id"),
        ] {
            let error = parse(body).unwrap_err();
            assert_eq!((error.code(), error.body.param.as_deref()), (code, Some(param)), "{body}");
        }
        assert_eq!(parse("[]").unwrap_err().code(), "invalid_json");
    }

    #[test]
    fn an_answer_of_an_a2a_client_is_one_of_this_api() {
        let read = |rest: &str| a2a(&format!(r#"{{"taskId":"resp_1","inputId":"call_1",{rest}}}"#));
        let answer = read(r#""success":true,"result":"sunny""#).unwrap();
        assert_eq!((answer.task_id.as_str(), answer.input.call_id.as_str()), ("resp_1", "call_1"));
        assert_eq!(answer.input.result, text("sunny"));
        assert_eq!(read(r#""success":true,"result":{"a": 1}"#).unwrap().input.result, text(r#"{"a": 1}"#));
        assert_eq!(read(r#""success":true"#).unwrap().input.result, text(""));
        let failed = read(r#""success":false,"error":"Tool not found: x","toolName":"x""#).unwrap();
        assert_eq!(failed.input.result, InputResult::Error("Tool not found: x".to_owned()));
        for (rest, param) in [
            (r#""success":false"#, "error"),
            (r#""result":"x""#, "success"),
            (r#""success":1"#, "success"),
            (r#""success":true,"extra":1"#, "extra"),
        ] {
            assert_eq!(read(rest).unwrap_err().body.param.as_deref(), Some(param), "{rest}");
        }
        assert_eq!(a2a("{}").unwrap_err().body.param.as_deref(), Some("taskId"));
    }
}
