//! `POST /v1/responses/compact`: runs a compaction and returns the items that the client sends as its next input.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use super::access::Authenticated;
use super::body::JsonBody;
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use super::responses::caller;
use super::{AppState, names_header};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::response::{Response as CompactedResponse, ResponseStatus, Usage};

/// `POST /v1/responses/compact`
pub(super) async fn compact(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    #[derive(Serialize)]
    struct Compacted<T> {
        id: Id,
        object: &'static str,
        created_at: i64,
        output: Vec<T>,
        usage: Usage,
    }
    let limits = app.requests.limits;
    let read = move |body: &Bytes| CreateResponse::parse_compaction(body, limits);
    let (request, reserved) = body.read(&app, &principal, read).await?;
    let caller = caller(&app, &principal, &request_context, &headers)?;
    let mut run = app.engine.start(request, caller).await?;
    drop(reserved);
    let ignored = std::mem::take(&mut run.ignored);
    let snapshot = run.response().await?;
    let compacted = &snapshot.response;
    if compacted.status != ResponseStatus::Completed {
        return Err(ErrorResponse(not_compacted(compacted)));
    }
    let dialect = compacted.output.dialect();
    let items = run.retained.iter().chain(compacted.output.iter());
    let mut response = Json(Compacted {
        // Not the response's id: it cannot be used as `previous_response_id`.
        id: Id::generate("cmpct"),
        object: "response.compaction",
        created_at: compacted.created_at,
        output: items.map(|item| item.in_dialect(dialect, false)).collect(),
        usage: compacted.usage.unwrap_or_default(),
    })
    .into_response();
    // Nothing is said of tools, which a compaction does not call.
    names_header::add(response.headers_mut(), &ignored, &[]);
    Ok(response)
}

/// The error for a compaction that failed or is incomplete.
fn not_compacted(response: &CompactedResponse) -> ApiError {
    let failed = |message: String| ApiError::new(ErrorKind::CompactionFailed, message);
    match (&response.error, &response.incomplete_details) {
        (Some(error), _) => ApiError {
            kind: ErrorKind::CompactionFailed,
            body: error.clone(),
            retry_after: None,
            should_retry: None,
        },
        (None, Some(details)) => failed(format!("The summary was cut off ({}).", details.reason)),
        (None, None) => failed("The summary was cut off.".to_owned()),
    }
}
