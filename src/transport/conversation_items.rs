//! `/v1/conversations/{id}/items`: add, list, retrieve and delete.

use axum::extract::{Extension, FromRequestParts, Path, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;

use super::access::Authenticated;
use super::body::JsonBody;
use super::conversations::{not_found, object};
use super::error::ErrorResponse;
use super::query::{PathParam, Query};
use super::request_context::RequestContext;
use super::responses::caller;
use super::{AppState, names_header, response_budget, stored};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::AddItems;
use antwort_store::{Page, PageRequest};

/// The path parameters of an item.
pub(super) struct ItemPath {
    conversation: String,
    item: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ItemPath {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path((conversation, item))) => Ok(Self { conversation, item }),
            Err(_) => Err(ErrorResponse(
                ApiError::new(
                    ErrorKind::InvalidRequest,
                    "The URL cannot be read: its percent-encoded bytes are not UTF-8.",
                )
                .with_code("invalid_url"),
            )),
        }
    }
}

/// `POST /v1/conversations/{id}/items`
pub(super) async fn create(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    PathParam(id): PathParam,
    query: Query,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&["include"])?;
    query.include()?;
    let limits = app.requests.limits;
    let read = move |body: &Bytes| AddItems::parse(body, limits);
    // Reserved until the items are stored.
    let (mut request, reserved) = body.read(&app, &principal, read).await?;
    let caller = caller(&app, &principal, &request_context, &headers)?;
    let ignored = app.engine.judge_unserved(std::mem::take(&mut request.unserved_fields), &caller)?;
    let data = app.engine.add_conversation_items(&id, request, &caller).await?;
    drop(reserved);
    let response = stored::list(Page { data, has_more: false });
    let mut response = response_budget::reserve(&app, &principal.requester(), response).await?;
    names_header::add(response.headers_mut(), &ignored, &[]);
    Ok(response)
}

/// `GET /v1/conversations/{id}/items`
pub(super) async fn list(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    PathParam(id): PathParam,
    query: Query,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&["limit", "order", "after", "before", "include"])?;
    query.include()?;
    let (store, owner, id) = (&app.services.store, &principal.0.owner, &id);
    let page = query.page()?;
    let read = |max_bytes| {
        let page = PageRequest { max_bytes, ..page.clone() };
        async move { store.conversation_items(owner, id, &page).await }
    };
    let found = response_budget::read_stored(&app, &principal.requester(), read, stored::list).await?;
    found.ok_or_else(|| ErrorResponse(not_found(id)))
}

/// `GET /v1/conversations/{id}/items/{item_id}`
pub(super) async fn retrieve(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    path: ItemPath,
    query: Query,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&["include"])?;
    query.include()?;
    let (store, owner) = (&app.services.store, &principal.0.owner);
    let read = |max_bytes| store.conversation_item(owner, &path.conversation, &path.item, max_bytes);
    let found = response_budget::read_stored(&app, &principal.requester(), read, stored::object).await?;
    found.ok_or_else(|| ErrorResponse(item_not_found(&path)))
}

/// `DELETE /v1/conversations/{id}/items/{item_id}`: returns the conversation.
pub(super) async fn delete(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    path: ItemPath,
) -> Result<Response, ErrorResponse> {
    let (store, owner) = (&app.services.store, &principal.0.owner);
    if !store.delete_conversation_item(owner, &path.conversation, &path.item).await? {
        return Err(ErrorResponse(item_not_found(&path)));
    }
    let conversation = store.conversation(owner, &path.conversation).await?;
    object(&conversation.ok_or_else(|| not_found(&path.conversation))?)
}

fn item_not_found(ItemPath { conversation, item }: &ItemPath) -> ApiError {
    ApiError::not_found(format!(
        "Item with id '{}' not found in conversation '{}'.",
        truncate_for_display(item),
        truncate_for_display(conversation)
    ))
}
