//! Messages of clients over WebSocket: a request for a response, with fields of its own.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::body::{self, RawFields, join_fields};
use super::response_input::ResponseInput;
use super::session_tools::{self, SessionTool};
use super::{CreateResponse, RequestSizeLimits, RunOptions, SentFields, scalar};
use crate::error::ApiError;
use crate::parse::{self, ParseError, truncate_for_display};

/// The type of an answer.
const INPUT: &str = "antwort:input";

/// Most characters of a `stream_id`.
const MAX_STREAM_ID: usize = 256;

/// Fields that say how a response is sent, which a WebSocket decides itself. Clients send them all the same.
const IGNORED: &[&str] = &["stream", "stream_options"];

/// A message of a client.
#[derive(Debug)]
pub struct ClientMessage {
    /// Returned in each message that belongs to this one.
    pub stream_id: Option<String>,
    /// The response that it continues, even if the message is wrong.
    pub previous: Option<String>,
    /// What it asks for, or why it cannot be read.
    pub content: Result<MessageContent, ApiError>,
}

/// What a message asks for.
#[derive(Debug)]
pub enum MessageContent {
    /// `response.create`
    Create(Box<CreateMessage>),
    /// `antwort:input`: an answer to the response in progress.
    Input(ResponseInput),
    /// `response.processed`: the client has read a response. Nothing is sent for it.
    Processed,
}

/// A request for a response.
#[derive(Debug)]
pub struct CreateMessage {
    /// The request, which is streamed.
    pub request: Box<CreateResponse>,
    /// `false`: the model is not asked, and the response is completed without output.
    pub generate: bool,
    /// The same request as the body of a POST, if it may have to be queued.
    pub text: Option<String>,
    /// The functions that it declares for its connection.
    pub tools: Option<Arc<[SessionTool]>>,
}

impl ClientMessage {
    /// Whether a message is an answer, which does not wait for its turn.
    pub fn is_input(text: &[u8]) -> bool {
        // Most messages need not be looked at any closer.
        memchr::memmem::find(text, INPUT.as_bytes()).is_some()
            && body::split_fields(text).is_ok_and(|fields| {
                read::<Cow<'_, str>>(&fields, "type", parse::read)
                    .is_ok_and(|kind| kind.as_deref() == Some(INPUT))
            })
    }

    /// Reads a message of a connection that has declared these functions.
    pub fn parse(text: &[u8], limits: RequestSizeLimits, tools: &[SessionTool]) -> Self {
        let fields = match body::split_fields(text) {
            Ok(fields) => fields,
            Err(error) => return Self { stream_id: None, previous: None, content: Err(error) },
        };
        let previous = given(&fields, "previous_response_id").and_then(|raw| scalar::string(raw).ok());
        match stream_id(&fields) {
            Ok(stream_id) => Self { stream_id, previous, content: content(fields, limits, tools) },
            Err(error) => Self { stream_id: None, previous, content: Err(error.into_api_error("stream_id")) },
        }
    }
}

fn content(
    mut fields: RawFields<'_>,
    limits: RequestSizeLimits,
    tools: &[SessionTool],
) -> Result<MessageContent, ApiError> {
    let is_own = |name: &str| IGNORED.contains(&name) || ["type", "stream_id", "generate"].contains(&name);
    // Those of requests are checked with them.
    for own in fields.iter().map(|(name, _)| &**name).filter(|name| is_own(name)) {
        if fields.iter().filter(|(name, _)| name == own).count() > 1 {
            return Err(ParseError::invalid("", "the field is given twice.").into_api_error(own));
        }
    }
    let kind: Option<Cow<'_, str>> = read(&fields, "type", parse::read)?;
    match kind.as_deref() {
        Some("response.create") => {}
        Some("response.processed") => return Ok(MessageContent::Processed),
        Some(INPUT) => {
            fields.retain(|(name, _)| !["type", "stream_id"].contains(&name.as_ref()));
            return ResponseInput::parse_message(fields, limits).map(MessageContent::Input);
        }
        Some(other) => {
            return Err(
                ParseError::unknown_type(&truncate_for_display(other), "response.create").into_api_error("")
            );
        }
        None => return Err(ParseError::missing("type").into_api_error("")),
    }
    let generate = read(&fields, "generate", scalar::boolean)?.unwrap_or(true);
    fields.retain(|(name, _)| !is_own(name));
    let session = session_tools::apply(&fields, tools)?;
    let mut fields: RawFields<'_> = fields;
    for (name, raw) in &session.replaced {
        fields.retain(|(field, _)| field != name);
        fields.push((Cow::Borrowed(name), raw));
    }
    let mut request = CreateResponse::read(&fields, limits, generate)?;
    request.sent = Some(SentFields::of(&fields));
    if request.background {
        let problem = "background responses are made with POST /v1/responses; over WebSocket there are none.";
        return Err(ParseError::unsupported("", problem).into_api_error("background"));
    }
    request.stream = true;
    let asks = |options: &RunOptions| options.client_tools.is_some() || !options.elicitation.is_empty();
    let may_ask =
        request.antwort.as_ref().is_some_and(asks) || request.agent.is_some() || request.prompt.is_some();
    let text = may_ask.then(|| as_body(&fields));
    Ok(MessageContent::Create(Box::new(CreateMessage { request, generate, text, tools: session.declared })))
}

/// The fields as the body of a POST.
fn as_body(fields: &RawFields<'_>) -> String {
    let sent = fields.iter().map(|(name, raw)| (name.as_ref(), raw.get()));
    join_fields(std::iter::once(("stream", "true")).chain(sent))
}

fn stream_id(fields: &RawFields<'_>) -> Result<Option<String>, ParseError> {
    let Some(raw) = given(fields, "stream_id") else { return Ok(None) };
    let id = scalar::string(raw)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if !(1..=MAX_STREAM_ID).contains(&id.len()) || !id.bytes().all(is_plain) {
        let problem = "expected 1 to 256 letters, digits, '_', '.' and '-'.";
        return Err(ParseError::invalid("", problem));
    }
    Ok(Some(id))
}

/// The value of a field, unless it is absent or null.
fn read<'a, T>(
    fields: &RawFields<'a>,
    name: &str,
    value: impl FnOnce(&'a RawValue) -> Result<T, ParseError>,
) -> Result<Option<T>, ApiError> {
    given(fields, name).map(value).transpose().map_err(|error| error.into_api_error(name))
}

fn given<'a>(fields: &RawFields<'a>, name: &str) -> Option<&'a RawValue> {
    fields.iter().find(|(key, raw)| key == name && !parse::is_null(raw)).map(|(_, raw)| *raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ClientMessage {
        ClientMessage::parse(text.as_bytes(), RequestSizeLimits::default(), &[])
    }

    fn error(text: &str) -> (Option<String>, Option<String>) {
        let error = parse(text).content.expect_err(text);
        (error.body.param, error.body.code.map(Into::into))
    }

    #[test]
    fn what_only_concerns_http_is_ignored_and_the_response_is_streamed() {
        let text = r#"{"type":"response.create","model":"m","input":"hi","stream":false,
            "stream_options":{"include_obfuscation":true},"background":false,"stream_id":"a.b-C_1"}"#;
        let message = parse(text);
        assert_eq!(message.stream_id.as_deref(), Some("a.b-C_1"));
        let Ok(MessageContent::Create(create)) = message.content else { panic!("{message:?}") };
        let request = create.request;
        assert!(create.generate && create.text.is_none());
        assert!(request.stream && !request.stream_options.include_obfuscation && request.extra.is_empty());
    }

    #[test]
    fn a_response_without_generation_needs_no_input() {
        let message = parse(r#"{"type":"response.create","model":"m","generate":false}"#);
        assert!(
            matches!(&message.content, Ok(MessageContent::Create(create)) if !create.generate),
            "{message:?}"
        );
        assert_eq!(error(r#"{"type":"response.create","model":"m"}"#).0.as_deref(), Some("input"));
    }

    #[test]
    fn a_wrong_message_still_names_what_it_continues() {
        let text = r#"{"type":"response.create","model":"m","previous_response_id":"resp_1","foo":[}]}"#;
        assert_eq!(parse(text).previous, None, "nothing can be read of what is no JSON");
        let text = r#"{"type":"response.create","model":"m","previous_response_id":"resp_1","input":5}"#;
        let message = parse(text);
        assert!(message.content.is_err());
        assert_eq!(message.previous.as_deref(), Some("resp_1"));
    }

    #[test]
    fn a_wrong_message_names_its_field() {
        for (text, param) in [
            (r#"{"model":"m","input":"hi"}"#, "type"),
            (r#"{"type":"session.update"}"#, "type"),
            (r#"{"type":5}"#, "type"),
            (r#"{"type":"response.create","model":"m","input":"hi","generate":"no"}"#, "generate"),
            (r#"{"type":"response.create","model":"m","input":"hi","stream_id":"a b"}"#, "stream_id"),
            (r#"{"type":"response.create","model":"m","input":"hi","stream_id":""}"#, "stream_id"),
            (r#"{"type":"response.create","model":"m","input":"hi","background":true}"#, "background"),
            (r#"{"type":"response.create","model":"m","input":"hi","type":"response.create"}"#, "type"),
        ] {
            assert_eq!(error(text).0.as_deref(), Some(param), "{text}");
        }
        assert_eq!(error("[]").1.as_deref(), Some("invalid_json"));
        assert_eq!(error("{").1.as_deref(), Some("invalid_json"));
    }
}
