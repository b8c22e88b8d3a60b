//! Results of calls, read straight from their bytes. What is not understood never spoils the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::notices::sanitize_for_error;
use crate::tools::mcp::connection::{ContentAudience, RemoteContent, RemotePart, RemoteResult};
use crate::tools::mcp::error::McpError;
use crate::tools::verbatim::exact_text;

/// What the answer to `tools/call` says.
#[derive(Debug, PartialEq)]
pub(super) enum CallAnswer {
    /// The call is done.
    Done(RemoteResult),
    /// The server wants to know something first.
    InputRequired(InputRequests),
}

/// What a server wants to know before it goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InputRequests {
    /// The method of each, by the name that its answer must have.
    pub methods: BTreeMap<String, String>,
    /// To be sent back as it is.
    pub state: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResult<'a> {
    #[serde(default, borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(default, borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default)]
    result_type: Option<Cow<'a, str>>,
    #[serde(default)]
    input_requests: Option<BTreeMap<String, RawQuestion>>,
    #[serde(default)]
    request_state: Option<String>,
    #[serde(default, borrow)]
    task: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawQuestion {
    method: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPart<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    description: Option<String>,
    resource: Option<RawResource>,
    /// Read apart: what is wrong with it spoils no content.
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawAnnotations {
    audience: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

/// Reads the result of a call.
pub(super) fn read(raw: &RawValue) -> Result<CallAnswer, McpError> {
    let result: RawResult<'_> = serde_json::from_str(raw.get())
        .map_err(|error| McpError::Malformed(sanitize_for_error(&format!("a result: {error}"))))?;
    match result.result_type.as_deref() {
        Some("input_required") => {
            let questions = result.input_requests.unwrap_or_default();
            let methods = questions.into_iter().map(|(name, question)| (name, question.method)).collect();
            return Ok(CallAnswer::InputRequired(InputRequests { methods, state: result.request_state }));
        }
        Some("task") => return Err(unsupported("made a task of the call, which was not asked for")),
        _ => {}
    }
    if result.task.is_some() && result.content.is_none() {
        return Err(unsupported("made a task of the call, which was not asked for"));
    }
    Ok(CallAnswer::Done(RemoteResult {
        content: result.content.unwrap_or_default().into_iter().map(part).collect(),
        structured: result.structured_content.and_then(|raw| serde_json::from_str(raw.get()).ok()),
        exact_structured: result
            .structured_content
            .and_then(|raw| exact_text(raw.get()))
            .map(|text| text.get().to_owned()),
        is_error: result.is_error.unwrap_or(false),
    }))
}

/// The server did what the protocol allows and the gateway does not know.
pub(super) fn unsupported(what: &str) -> McpError {
    McpError::Protocol { code: -32601, message: sanitize_for_error(&format!("the server {what}")) }
}

fn part(raw: &RawValue) -> RemotePart {
    match serde_json::from_str::<RawPart<'_>>(raw.get()) {
        Ok(part) => {
            let audience = part.annotations.map(audience).unwrap_or_default();
            RemotePart { content: known(part).unwrap_or_else(RemoteContent::Unknown), audience }
        }
        Err(_) => RemoteContent::Unknown(kind_of(raw).unwrap_or_else(|| "?".to_owned())).into(),
    }
}

/// One of the two alone, or else everybody: what names neither is no reason to keep something from both.
fn audience(annotations: &RawValue) -> ContentAudience {
    let Ok(RawAnnotations { audience }) = serde_json::from_str::<RawAnnotations>(annotations.get()) else {
        return ContentAudience::Everybody;
    };
    let names = |role: &str| audience.iter().any(|named| named == role);
    match (names("user"), names("assistant")) {
        (true, false) => ContentAudience::User,
        (false, true) => ContentAudience::Model,
        _ => ContentAudience::Everybody,
    }
}

/// The part as what its type says; its type if it is not known or lacks what it takes.
fn known(part: RawPart<'_>) -> Result<RemoteContent, String> {
    let content = match (part.kind.as_ref(), part.text, part.data, part.uri, part.resource) {
        ("text", Some(text), ..) => RemoteContent::Text(text),
        ("image", _, Some(data), ..) => {
            RemoteContent::Image { mime_type: part.mime_type.unwrap_or_default(), data }
        }
        ("audio", _, Some(data), ..) => {
            RemoteContent::Audio { mime_type: part.mime_type.unwrap_or_default(), data }
        }
        ("resource_link", _, _, Some(uri), _) => RemoteContent::ResourceLink {
            name: part.name.unwrap_or_else(|| uri.clone()),
            uri,
            description: part.description,
        },
        ("resource", _, _, _, Some(resource)) => {
            return embedded(resource).ok_or_else(|| part.kind.into_owned());
        }
        _ => return Err(part.kind.into_owned()),
    };
    Ok(content)
}

fn embedded(resource: RawResource) -> Option<RemoteContent> {
    let RawResource { uri, mime_type, text, blob } = resource;
    match (text, blob) {
        (Some(text), _) => Some(RemoteContent::TextResource { uri, mime_type, text }),
        (None, Some(data)) => Some(RemoteContent::BlobResource { uri, mime_type, data }),
        (None, None) => None,
    }
}

fn kind_of(raw: &RawValue) -> Option<String> {
    let part: Value = serde_json::from_str(raw.get()).ok()?;
    part.get("type")?.as_str().map(str::to_owned)
}
