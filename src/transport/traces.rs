//! Accounts of runs: `GET /v1/responses/{id}/trace`, and the list of responses as summaries.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::AppState;
use super::access::Authenticated;
use super::error::ErrorResponse;
use super::query::{PathParam, Query};
use super::stored::response_not_found;
use super::{response_budget, stored};
use antwort_engine::trace_document::{self, TraceSummary};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::response::ResponseStatus;
use antwort_store::{LogKept, Page, PageRequest, ResponseFilter};

/// Characters of an answer in a summary.
const MAX_SUMMARY_CHARS: usize = 200;

/// `GET /v1/responses/{id}/trace`
pub(super) async fn retrieve(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    PathParam(id): PathParam,
    query: Query,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&[])?;
    let (store, owner, id) = (&app.services.store, &principal.0.owner, Id::from(id));
    let Some(state) = store.log_state(owner, &id).await? else {
        return Err(ErrorResponse(response_not_found(id.as_str())));
    };
    let has_events = matches!(state.log, LogKept::Kept(_));
    let stored = store.traces(owner, std::slice::from_ref(&id)).await?.pop().flatten();
    let document = stored.and_then(|trace| trace_document::render(id.as_str(), &trace, has_events));
    document
        .map(|document| stored::json(Body::from(document)))
        .ok_or_else(|| ErrorResponse(no_trace(id.as_str())))
}

fn no_trace(id: &str) -> ApiError {
    let message = format!(
        "There is no trace of the response '{}': it is written when a response ends.",
        truncate_for_display(id)
    );
    ApiError::new(ErrorKind::NotFound, message).with_code("trace_not_found")
}

/// The parameters `status` and `model` of a list.
pub(super) fn filter(query: &Query) -> Result<ResponseFilter, ApiError> {
    let status = query.get("status").map(|name| {
        serde_json::from_value::<ResponseStatus>(Value::from(name)).map_err(|_unknown| {
            ApiError::invalid(
                "invalid_value",
                "status",
                "'status' must be one of: queued, in_progress, completed, incomplete, failed, cancelled, requires_action.",
            )
        })
    });
    Ok(ResponseFilter { status: status.transpose()?, model: query.get("model").map(str::to_owned) })
}

/// The parameter `view` of a list.
pub(super) fn wants_summaries(query: &Query) -> Result<bool, ApiError> {
    match query.get("view") {
        None | Some("full") => Ok(false),
        Some("summary") => Ok(true),
        Some(_) => Err(ApiError::invalid("invalid_value", "view", "'view' must be 'full' or 'summary'.")),
    }
}

/// A page of summaries.
pub(super) async fn summaries(
    app: &AppState,
    principal: &Authenticated,
    page: &PageRequest,
    filter: &ResponseFilter,
) -> Result<Response, ErrorResponse> {
    let (store, owner) = (&app.services.store, &principal.0.owner);
    let read = |max_bytes| {
        let page = PageRequest { max_bytes, ..page.clone() };
        async move {
            let page = store.responses(owner, &page, filter).await?;
            let ids: Vec<Id> = page.data.iter().map(|(id, _)| id.clone()).collect();
            let traces = store.traces(owner, &ids).await?;
            Ok(Some(summarized(page, &traces)))
        }
    };
    let found = response_budget::read_stored(app, &principal.requester(), read, stored::list).await?;
    found.ok_or_else(|| ErrorResponse(ApiError::internal()))
}

fn summarized(page: Page, traces: &[Option<Arc<str>>]) -> Page {
    let summary = |((id, body), trace): ((Id, Arc<str>), &Option<Arc<str>>)| {
        let trace = trace.as_deref().and_then(trace_document::summarize).unwrap_or_default();
        (id, summary(&body, trace).map_or(body, Arc::from))
    };
    Page { data: page.data.into_iter().zip(traces).map(summary).collect(), has_more: page.has_more }
}

/// A response without its output and settings. `None` if the stored one cannot be read.
fn summary(body: &str, trace: TraceSummary) -> Option<String> {
    let head: Head<'_> = serde_json::from_str(body).ok()?;
    let summary = Summary {
        object: "response.summary",
        text: head.output.iter().rev().find_map(text_of),
        open_approvals: head.output.iter().filter(|item| item.kind == "mcp_approval_request").count(),
        id: head.id,
        status: head.status,
        model: head.model,
        created_at: head.created_at,
        completed_at: head.completed_at,
        background: head.background,
        previous_response_id: head.previous_response_id,
        conversation: head.conversation,
        usage: head.usage,
        error: head.error,
        incomplete_details: head.incomplete_details,
        metadata: head.metadata,
        trace,
    };
    serde_json::to_string(&summary).ok()
}

/// The beginning of a message.
fn text_of(item: &OutputHead<'_>) -> Option<String> {
    let parts = item.content.filter(|_| item.kind == "message")?;
    let parts: Vec<PartHead<'_>> = serde_json::from_str(parts.get()).ok()?;
    parts.into_iter().find_map(|part| Some(part.text?.chars().take(MAX_SUMMARY_CHARS).collect()))
}

/// What is read of a stored response.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    created_at: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completed_at: Option<&'a RawValue>,
    #[serde(borrow, default)]
    background: Option<&'a RawValue>,
    #[serde(borrow, default)]
    previous_response_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Vec<OutputHead<'a>>,
}

#[derive(Deserialize)]
struct OutputHead<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PartHead<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Summary<'a> {
    object: &'static str,
    id: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    model: Option<&'a RawValue>,
    created_at: Option<&'a RawValue>,
    completed_at: Option<&'a RawValue>,
    background: Option<&'a RawValue>,
    previous_response_id: Option<&'a RawValue>,
    conversation: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    incomplete_details: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
    text: Option<String>,
    open_approvals: usize,
    #[serde(flatten)]
    trace: TraceSummary,
}
