//! Messages that are no events: errors of requests, and the `stream_id` of a request in what belongs to it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use antwort_protocol::error::ApiError;

/// The message that ends a request which has no response.
#[derive(Serialize)]
struct ErrorMessage<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status that an HTTP answer would have.
    status: u16,
    error: ErrorFields<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_id: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    code: Cow<'a, str>,
    message: &'a str,
    param: Option<&'a str>,
    /// Headers that an HTTP answer would have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'static str, String>,
}

/// An error as a message.
pub(super) fn error_message(error: &ApiError, stream_id: Option<&str>) -> String {
    let mut headers = BTreeMap::new();
    if let Some(wait) = error.retry_after {
        headers.insert("retry-after", wait.as_millis().div_ceil(1000).max(1).to_string());
    }
    if let Some(retry) = error.should_retry {
        headers.insert("x-should-retry", retry.to_string());
    }
    let body = &error.body;
    let message = ErrorMessage {
        kind: "error",
        status: error.kind.status(),
        error: ErrorFields {
            kind: &body.kind,
            code: Cow::Borrowed(body.code.as_deref().unwrap_or(error.kind.default_code())),
            message: &body.message,
            param: body.param.as_deref(),
            headers,
        },
        stream_id,
    };
    // Writing to memory cannot fail.
    serde_json::to_string(&message).unwrap_or_default()
}

/// Adds the `stream_id` to an event, which is a JSON object.
pub(super) fn with_stream_id(mut event: String, stream_id: Option<&str>) -> String {
    if let Some(stream_id) = stream_id {
        event.pop();
        // A stream id has no characters that JSON escapes.
        event.extend([",\"stream_id\":\"", stream_id, "\"}"]);
    }
    event
}
