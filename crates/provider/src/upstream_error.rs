//! Errors as providers send them: in HTTP bodies and in streams, as objects or strings.
//!
//! Parses and classifies them; `masking` decides which parts of their messages a client may see.

use std::fmt;

use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::context_overflow::{self, ErrorWords};
use super::errors::{ProviderError, ProviderErrorKind};
use super::lenient::LenientText;
use super::masking::{Secrets, sanitize};
use antwort_config::ProviderSettings;

/// Maximum size of an error that is parsed; a longer one is treated as an error without a message.
const MAX_ERROR_BYTES: usize = 256 << 10;

/// An error object: the value of `error`, or the whole body of an error response.
#[derive(Debug, Default)]
pub(super) struct UpstreamError<'a> {
    message: LenientText<'a>,
    code: LenientText<'a>,
    kind: LenientText<'a>,
    status: LenientText<'a>,
    /// The error of the server behind this one (OpenRouter).
    nested: LenientText<'a>,
}

/// A body or an event that may hold an error. Older vLLM has the error's fields at the top level.
#[derive(Debug, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    error: Option<UpstreamError<'a>>,
    #[serde(borrow, default)]
    message: LenientText<'a>,
    /// FastAPI's error field: a message, a list of validation errors, or any value that the server raised.
    #[serde(default)]
    detail: Value,
    /// watsonx lists its errors.
    #[serde(default)]
    errors: Value,
    #[serde(borrow, default)]
    code: LenientText<'a>,
    #[serde(borrow, default, rename = "type")]
    kind: LenientText<'a>,
}

impl<'a> From<Envelope<'a>> for UpstreamError<'a> {
    fn from(Envelope { error, message, detail, errors, code, kind }: Envelope<'a>) -> Self {
        if let Some(error) = error {
            return error;
        }
        let listed = || [&detail, &errors].map(detail_message).into_iter().find(|text| !text.is_empty());
        let message =
            if message.is_empty() { LenientText(listed().unwrap_or_default().into()) } else { message };
        Self { message, code, kind, ..Self::default() }
    }
}

impl<'a> UpstreamError<'a> {
    /// Parses an error: JSON of a known shape, or plain text.
    pub(super) fn parse(text: &'a str) -> Self {
        let text = text.trim();
        if text.len() > MAX_ERROR_BYTES {
            return Self::default();
        }
        if text.starts_with('[') {
            // Gemini sends errors in lists.
            let listed: Vec<Envelope<'a>> = serde_json::from_str(text).unwrap_or_default();
            let mut errors = listed.into_iter().map(Self::from);
            return errors.find(|error| !error.is_empty()).unwrap_or_default();
        }
        match serde_json::from_str::<Envelope<'a>>(text) {
            Ok(envelope) => envelope.into(),
            // HTML pages hold no useful message, and may disclose internals.
            Err(_) if text.starts_with(['<', '{']) => Self::default(),
            Err(_) => {
                Self::from_fields(LenientText(text.into()), LenientText::default(), LenientText::default())
            }
        }
    }

    /// An error of separate fields.
    pub(super) fn from_fields(
        message: LenientText<'a>,
        code: LenientText<'a>,
        kind: LenientText<'a>,
    ) -> Self {
        Self { message, code, kind, ..Self::default() }
    }

    /// Whether it holds nothing: some servers send an empty `error` with every chunk.
    pub(super) fn is_empty(&self) -> bool {
        self.message.is_empty() && self.code.is_empty() && self.kind.is_empty()
    }

    /// The [`ProviderError`] that ends the call. `status`: the HTTP status of an error response.
    pub(super) fn into_error(self, status: Option<u16>, secret: Option<&str>) -> ProviderError {
        let nested = UpstreamError::parse(&self.nested.0);
        let mut kind = self.classify(status);
        let mut words = self.message.some();
        if kind != ProviderErrorKind::ContextLength
            && nested.classify(status) == ProviderErrorKind::ContextLength
        {
            (kind, words) = (ProviderErrorKind::ContextLength, nested.message.some());
        }
        let message = match words {
            Some(words) => sanitize(words, secret),
            None => match status {
                Some(status) => {
                    format!("The model provider answered with status {status} without an error message.")
                }
                None => "The model provider failed without an error message.".to_owned(),
            },
        };
        let mut names = [&self.code, &self.kind].into_iter().filter_map(LenientText::some);
        let code = names.find(|name| name.len() <= 64 && name.parse::<i64>().is_err()).map(str::to_owned);
        ProviderError { code, ..ProviderError::new(kind, message) }
    }

    fn classify(&self, status: Option<u16>) -> ProviderErrorKind {
        let codes = [&self.code, &self.kind, &self.status];
        let status = status
            .or_else(|| {
                codes
                    .iter()
                    .find_map(|name| name.as_str().parse().ok().filter(|code| (400..600).contains(code)))
            })
            .or_else(|| codes.iter().find_map(|name| status_of(name.as_str())));
        let words = ErrorWords {
            status,
            kind: self.kind.as_str(),
            code: self.code.as_str(),
            message: self.message.as_str(),
        };
        if context_overflow::is_overflow(words) {
            return ProviderErrorKind::ContextLength;
        }
        status.map_or(ProviderErrorKind::Reported, ProviderErrorKind::Status)
    }
}

/// A server's error as its calls would report it: classified, the message sanitized and without the server's secrets.
pub fn read_error(body: &str, status: Option<u16>, settings: &ProviderSettings) -> ProviderError {
    let secret = settings.api_key.as_ref().map(|key| key.expose_secret());
    let mut error = UpstreamError::parse(body).into_error(status, secret);
    error.apply_patterns(settings);
    Secrets::from_settings(settings).mask_error(&mut error);
    error
}

/// The message in FastAPI's `detail`; for a list of validation errors the path and message of each.
fn detail_message(detail: &Value) -> String {
    match detail {
        Value::String(message) => message.clone(),
        Value::Array(errors) => {
            let messages = errors.iter().map(validation_error).filter(|message| !message.is_empty());
            messages.collect::<Vec<_>>().join("; ")
        }
        Value::Object(fields) => {
            let names = ["message", "msg", "error", "detail"];
            names.iter().find_map(|name| fields.get(*name)).map(detail_message).unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// `{"loc": ["body", "messages", 0, "content"], "msg": "Field required"}` as `messages[0].content: Field required`.
fn validation_error(error: &Value) -> String {
    let mut path = String::new();
    let steps = error.get("loc").and_then(Value::as_array).into_iter().flatten();
    for step in steps {
        match step {
            Value::String(name) if name == "body" && path.is_empty() => {}
            Value::String(name) if path.is_empty() => path.push_str(name),
            Value::String(name) => path.push_str(&format!(".{name}")),
            other => path.push_str(&format!("[{other}]")),
        }
    }
    let message = detail_message(error);
    match path.is_empty() || message.is_empty() {
        true => message,
        false => format!("{path}: {message}"),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for UpstreamError<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UpstreamErrorVisitor)
    }
}

struct UpstreamErrorVisitor;

impl<'de> Visitor<'de> for UpstreamErrorVisitor {
    type Value = UpstreamError<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error object or a string")
    }

    fn visit_borrowed_str<E: Error>(self, message: &'de str) -> Result<UpstreamError<'de>, E> {
        Ok(UpstreamError { message: LenientText(message.into()), ..UpstreamError::default() })
    }

    fn visit_str<E: Error>(self, message: &str) -> Result<UpstreamError<'de>, E> {
        Ok(UpstreamError { message: LenientText(message.to_owned().into()), ..UpstreamError::default() })
    }

    fn visit_bool<E: Error>(self, failed: bool) -> Result<UpstreamError<'de>, E> {
        Ok(UpstreamError {
            kind: LenientText(if failed { "error" } else { "" }.into()),
            ..UpstreamError::default()
        })
    }

    fn visit_i64<E: Error>(self, code: i64) -> Result<UpstreamError<'de>, E> {
        Ok(UpstreamError { code: LenientText(code.to_string().into()), ..UpstreamError::default() })
    }

    fn visit_u64<E: Error>(self, code: u64) -> Result<UpstreamError<'de>, E> {
        Ok(UpstreamError { code: LenientText(code.to_string().into()), ..UpstreamError::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UpstreamError<'de>, A::Error> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, default)]
            message: LenientText<'a>,
            #[serde(borrow, default)]
            code: LenientText<'a>,
            #[serde(borrow, default, rename = "type")]
            kind: LenientText<'a>,
            #[serde(borrow, default)]
            status: LenientText<'a>,
            #[serde(borrow, default)]
            metadata: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            raw: LenientText<'a>,
        }
        let Fields { message, code, kind, status, metadata } =
            Fields::deserialize(MapAccessDeserializer::new(map))?;
        let metadata: Metadata<'_> =
            metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        Ok(UpstreamError { message, code, kind, status, nested: metadata.raw })
    }
}

/// The HTTP status for an error's `code` or `type`, if it has no numeric status.
fn status_of(name: &str) -> Option<u16> {
    Some(match name {
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "insufficient_quota"
        | "too_many_requests"
        | "RateLimitError" => 429,
        "overloaded_error" | "server_is_overloaded" | "service_unavailable" | "service_unavailable_error" => {
            503
        }
        "invalid_request_error" | "BadRequestError" | "bad_request_error" => 400,
        "model_not_found" | "not_found_error" | "NotFoundError" => 404,
        "authentication_error" | "invalid_api_key" | "AuthenticationError" => 401,
        "permission_error" | "PermissionDeniedError" => 403,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (ProviderErrorKind, String, Option<String>) {
        let error = UpstreamError::parse(text).into_error(None, None);
        (error.kind, error.message, error.code)
    }

    #[test]
    fn shapes_of_errors() {
        let silent = "The model provider failed without an error message.";
        let rows: [(&str, ProviderErrorKind, &str, Option<&str>); 18] = [
            (
                r#"{"error":{"message":"m","type":"server_error","code":null}}"#,
                ProviderErrorKind::Reported,
                "m",
                Some("server_error"),
            ),
            (r#"{"error":{"message":"m","code":429}}"#, ProviderErrorKind::Status(429), "m", None),
            (r#"{"error":{"message":"m","code":"503"}}"#, ProviderErrorKind::Status(503), "m", None),
            (r#"{"error":"m"}"#, ProviderErrorKind::Reported, "m", None),
            (r#"{"error":true}"#, ProviderErrorKind::Reported, silent, Some("error")),
            (
                r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
                ProviderErrorKind::Status(400),
                "m",
                Some("BadRequestError"),
            ),
            (r#"{"detail":"Not Found"}"#, ProviderErrorKind::Reported, "Not Found", None),
            (r#"{"detail":[{"loc":["body"]}]}"#, ProviderErrorKind::Reported, silent, None),
            (
                r#"{"detail":[{"type":"missing","loc":["body","messages",0,"content"],"msg":"Field required","input":{}},
                    {"loc":["body","top_k"],"msg":"Input should be a valid integer"},{"msg":"bad"},7]}"#,
                ProviderErrorKind::Reported,
                "messages[0].content: Field required; top_k: Input should be a valid integer; bad",
                None,
            ),
            (r#"{"detail":{"error":{"message":"m"},"code":7}}"#, ProviderErrorKind::Reported, "m", None),
            (
                r#"{"detail":"prompt is too long"}"#,
                ProviderErrorKind::ContextLength,
                "prompt is too long",
                None,
            ),
            (r#"{"detail":null}"#, ProviderErrorKind::Reported, silent, None),
            (r#"{"detail":"d","message":"m"}"#, ProviderErrorKind::Reported, "m", None),
            (
                r#"{"error":{"code":500,"message":"context length exceeded"}}"#,
                ProviderErrorKind::ContextLength,
                "context length exceeded",
                None,
            ),
            (
                r#"{"error":{"message":"m","type":"exceed_context_size_error"}}"#,
                ProviderErrorKind::ContextLength,
                "m",
                Some("exceed_context_size_error"),
            ),
            ("404 page not found", ProviderErrorKind::Reported, "404 page not found", None),
            ("<html><h1>Bad Gateway</h1></html>", ProviderErrorKind::Reported, silent, None),
            ("", ProviderErrorKind::Reported, silent, None),
        ];
        for (text, kind, message, code) in rows {
            assert_eq!(read(text), (kind, message.to_owned(), code.map(str::to_owned)), "{text}");
        }
    }
}
