//! `/v1/conversations`: create, retrieve, update and delete. Their items are in `conversation_items`.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::access::Authenticated;
use super::body::JsonBody;
use super::error::ErrorResponse;
use super::query::{PathParam, Query};
use super::request_context::RequestContext;
use super::responses::caller;
use super::{AppState, names_header, stored};
use antwort_protocol::error::ApiError;
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::{CreateConversation, UpdateConversation};
use antwort_store::StoredConversation;

/// `POST /v1/conversations`
pub(super) async fn create(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let limits = app.requests.limits;
    let read = move |body: &Bytes| CreateConversation::parse(body, limits);
    // Reserved until the items are stored.
    let (mut request, _reserved) = body.read(&app, &principal, read).await?;
    let caller = caller(&app, &principal, &request_context, &headers)?;
    let ignored = app.engine.judge_unserved(std::mem::take(&mut request.unserved_fields), &caller)?;
    let mut response = object(&app.engine.create_conversation(request, &caller).await?)?;
    names_header::add(response.headers_mut(), &ignored, &[]);
    Ok(response)
}

/// `POST /v1/conversations/{id}`
pub(super) async fn update(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    PathParam(id): PathParam,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    let limits = app.requests.limits;
    let read = move |body: &Bytes| UpdateConversation::parse(body, limits);
    let (request, _reserved) = body.read(&app, &principal, read).await?;
    let caller = caller(&app, &principal, &request_context, &headers)?;
    object(&app.engine.update_conversation(&id, &request, &caller).await?)
}

/// `GET /v1/conversations/{id}`
pub(super) async fn retrieve(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    PathParam(id): PathParam,
    query: Query,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&[])?;
    let found = app.services.store.conversation(&principal.0.owner, &id).await?;
    object(&found.ok_or_else(|| not_found(&id))?)
}

/// `DELETE /v1/conversations/{id}`
pub(super) async fn delete(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    PathParam(id): PathParam,
) -> Result<Response, ErrorResponse> {
    if !app.services.store.delete_conversation(&principal.0.owner, &id).await? {
        return Err(ErrorResponse(not_found(&id)));
    }
    Ok(stored::deleted(&id, "conversation.deleted"))
}

/// The conversation object.
pub(super) fn object(conversation: &StoredConversation) -> Result<Response, ErrorResponse> {
    #[derive(Serialize)]
    struct Conversation<'a> {
        id: &'a str,
        object: &'static str,
        created_at: i64,
        metadata: &'a RawValue,
    }
    let StoredConversation { id, created_at, metadata } = conversation;
    let metadata = serde_json::from_str(metadata).map_err(|_| ApiError::internal())?;
    let object = Conversation { id: id.as_str(), object: "conversation", created_at: *created_at, metadata };
    Ok(Json(object).into_response())
}

pub(super) fn not_found(id: &str) -> ApiError {
    ApiError::not_found(format!("Conversation with id '{}' not found.", truncate_for_display(id)))
}
