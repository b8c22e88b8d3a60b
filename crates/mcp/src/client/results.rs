//! Parses results of `tools/call`, leniently: an unknown part does not invalidate the rest.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::elicitation::{self, InputRequests};
use super::notices::sanitize_for_error;
use super::task_report;
use crate::connection::{ContentAudience, RemoteContent, RemotePart, RemoteResult};
use crate::error::McpError;
use crate::task::RemoteTask;
use antwort_protocol::elicitation::Elicitation;
use antwort_tools::verbatim::exact_text;

/// Maximum bytes of what the model is told while a task goes on.
const MAX_SAY_BYTES: usize = 4096;

/// The result of `tools/call`.
#[derive(Debug, PartialEq)]
pub(super) enum CallAnswer {
    /// The call is complete.
    Done(RemoteResult),
    /// The server requests input first.
    InputRequired(InputRequests),
    /// The user has to open addresses first; with the text of the error.
    UrlsRequired(Vec<Elicitation>, String),
    /// The call goes on as a task.
    Task(RemoteTask),
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
    #[serde(default, borrow)]
    input_requests: Option<&'a RawValue>,
    #[serde(default)]
    request_state: Option<String>,
    #[serde(default, borrow)]
    task: Option<&'a RawValue>,
    #[serde(default, rename = "_meta", borrow)]
    meta: Option<&'a RawValue>,
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
    /// Parsed separately, so that invalid annotations do not invalidate the content.
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

/// Parses the result of a call.
pub(super) fn read(raw: &RawValue) -> Result<CallAnswer, McpError> {
    let result: RawResult<'_> = serde_json::from_str(raw.get())
        .map_err(|error| McpError::Malformed(sanitize_for_error(&format!("tools/call: {error}"))))?;
    match result.result_type.as_deref() {
        Some("input_required") => {
            let questions = result.input_requests.map(elicitation::read_requests).transpose();
            let requests = questions
                .map_err(|error| McpError::Malformed(sanitize_for_error(&format!("tools/call: {error}"))))?;
            let requests = InputRequests { state: result.request_state, ..requests.unwrap_or_default() };
            return Ok(CallAnswer::InputRequired(requests));
        }
        Some("task") => {
            return task_report::created(raw, None, said_meanwhile(result.meta)).map(CallAnswer::Task);
        }
        _ => {}
    }
    if result.task.is_some() && result.content.is_none() {
        return task_report::created(raw, result.task, said_meanwhile(result.meta)).map(CallAnswer::Task);
    }
    Ok(CallAnswer::Done(RemoteResult {
        content: result.content.unwrap_or_default().into_iter().map(part).collect(),
        structured: result.structured_content.and_then(|raw| serde_json::from_str(raw.get()).ok()),
        exact_structured: result
            .structured_content
            .and_then(|raw| exact_text(raw.get()))
            .map(|text| text.get().to_owned()),
        is_error: result.is_error.unwrap_or(false),
        is_async: result.meta.is_some_and(goes_on),
        requires_input: None,
        task: None,
    }))
}

/// What the model is told while a task goes on, as the server says in its `_meta`.
fn said_meanwhile(meta: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/model-immediate-response", default)]
        say: Option<String>,
    }
    let say = serde_json::from_str::<Meta>(meta?.get()).ok()?.say?;
    Some(say).filter(|say| !say.is_empty() && say.len() <= MAX_SAY_BYTES)
}

/// Whether the work goes on, as the server says in its `_meta`.
fn goes_on(meta: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "antwort/async", default)]
        is_async: bool,
    }
    serde_json::from_str::<Meta>(meta.get()).is_ok_and(|meta| meta.is_async)
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

/// User or model only; both if the annotation names both or neither.
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

/// Parses a part by its type; the error is the type, if it is unknown or fields are missing.
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
