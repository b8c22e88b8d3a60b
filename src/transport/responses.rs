//! `/v1/responses`: create, list, retrieve, delete, and list input items.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;

use super::access::Authenticated;
use super::background::{self, BackgroundRequest};
use super::body::JsonBody;
use super::error::ErrorResponse;
use super::query::{PathParam, Query};
use super::request_context::RequestContext;
use super::response_budget::ResponseBudget;
use super::{AppState, follow, idempotency, mcp, names_header, response_budget, sse, stored, traces};
use antwort_engine::{EventReader, Keyed, OnUnservedTool, RunContext};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::request::{CreateResponse, SentFields};
use antwort_store::PageRequest;
use antwort_util::digest::sha256;

/// `POST /v1/responses`
pub(super) async fn create(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let limits = app.requests.limits;
    // The rest of the head is dropped at once, and the headers before the run begins: they hold a buffer of the connection.
    let (Parts { headers, .. }, body) = request.into_parts();
    let body = JsonBody::receive(&app, &principal, &headers, body).await?;
    let key = idempotency::key(&headers)?;
    let is_keyed = key.is_some();
    let (engine, policy) = (Arc::clone(&app.engine), principal.0.store);
    let read = move |body: &Bytes| {
        let mut request = CreateResponse::parse_with_limits(body, limits)?;
        request.sent = engine.has_async_tools().then(|| SentFields::of_body(body)).flatten();
        let is_queued = request.background || engine.asks_client(&request, policy);
        let text = is_queued.then(|| String::from_utf8_lossy(body).into_owned());
        Ok((request, is_keyed.then(|| sha256(body)), text))
    };
    let ((request, hash, text), reserved) = body.read(&app, &principal, read).await?;
    let stream = request.stream;
    let caller = caller(&app, &principal, &request_context, &headers)?;
    // Where the run keeps its reader alive, comments are for proxies alone, and come if it is late.
    let comments = app.requests.keepalive * if caller.keepalive.is_some() { 2 } else { 1 };
    if let Some(text) = text {
        let (context, background) = ((&request_context, &headers), BackgroundRequest { request, text });
        // Boxed, as few requests are made in the background.
        let queued = background::create(&app, &principal, context, background, caller, key.zip(hash));
        return Box::pin(queued).await;
    }
    let mut run = match key.zip(hash) {
        None => {
            drop(headers);
            // Boxed: it would take space in the future of a handler that waits for the model.
            Box::pin(app.engine.start(request, caller)).await?
        }
        Some(key) => {
            let context = (&request_context, &headers);
            // Boxed, as few requests have a key and the future of each would have room for it.
            match Box::pin(idempotency::start(&app, request, caller, context, key)).await? {
                Keyed::New(run) => run,
                Keyed::Known(known) => {
                    drop(reserved);
                    let replay = idempotency::replay(&app, &principal, known, stream, &request_context.log);
                    return Box::pin(replay).await;
                }
            }
        }
    };
    // Requests that wait for a run slot count against the body budget; this one has its slot now.
    drop(reserved);
    let ignored = std::mem::take(&mut run.ignored);
    let omitted = std::mem::take(&mut run.omitted_tools);
    let mut response = if stream {
        let first = run.first().await?;
        let budget = ResponseBudget::new(&app, principal.requester());
        sse::response(first, run, comments, budget, Arc::clone(&request_context.log)).await?
    } else {
        stored::json(Body::from(str::to_owned(run.response().await?.json())))
    };
    names_header::add(response.headers_mut(), &ignored, &omitted);
    Ok(response)
}

/// The context of a run: its caller, dialect and overrides, from the key and the request's headers.
pub(super) fn caller(
    app: &AppState,
    principal: &Authenticated,
    request_context: &RequestContext,
    headers: &axum::http::HeaderMap,
) -> Result<RunContext, ApiError> {
    let client = request_context.client_profile;
    Ok(RunContext {
        dialect: dialect(headers, principal, app.requests.dialect)?,
        owner: principal.0.owner.clone(),
        key: Arc::clone(&principal.0.name),
        key_hash: principal.0.key_hash,
        client_action_status: principal
            .0
            .client_action_status
            .or_else(|| client.and_then(|client| client.client_action_status)),
        store: principal.0.store,
        request_id: (*request_context.request_id).to_owned(),
        log: Some(Arc::clone(&request_context.log)),
        traceparent: request_context.upstream_traceparent(),
        unserved_tools: OnUnservedTool::from_setting(
            app.requests.unserved_tools,
            client.and_then(|client| client.unserved_tools),
        ),
        lists_unserved_fields: client.is_some_and(|client| client.lists_unserved_fields),
        events: EventReader::Client,
        keepalive: client.filter(|client| client.counts_events).map(|_| app.requests.keepalive),
        authorization: mcp::caller_authorization(app, headers),
        connection: None,
        chain: None,
        generates: true,
    })
}

fn dialect(
    headers: &axum::http::HeaderMap,
    principal: &Authenticated,
    default: Dialect,
) -> Result<Dialect, ApiError> {
    match headers.get("antwort-dialect") {
        None => Ok(principal.0.dialect.unwrap_or(default)),
        Some(value) => value.to_str().ok().and_then(Dialect::from_header).ok_or_else(|| {
            ApiError::invalid(
                "invalid_value",
                "antwort-dialect",
                "The header 'antwort-dialect' must be 'openai' or 'open_responses'.",
            )
        }),
    }
}

/// `GET /v1/responses/{id}`
pub(super) async fn retrieve(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    PathParam(id): PathParam,
    query: Query,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&["include", "stream", "starting_after", "include_obfuscation"])?;
    query.include()?;
    if query.flag("stream")? {
        let followed = Box::pin(follow::retrieve(&app, &principal, &request_context, &id, &query)).await?;
        return followed.ok_or_else(|| ErrorResponse(stored::response_not_found(&id)));
    }
    if query.get("starting_after").is_some() {
        return Err(ErrorResponse(ApiError::invalid(
            "invalid_value",
            "starting_after",
            "'starting_after' is only allowed together with 'stream=true': it is the event after which a stream resumes.",
        )));
    }
    let found = response_budget::read_response(&app, &principal.requester(), &principal.0.owner, &id).await?;
    found.ok_or_else(|| ErrorResponse(stored::response_not_found(&id)))
}

/// `DELETE /v1/responses/{id}`
pub(super) async fn delete(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    PathParam(id): PathParam,
) -> Result<Response, ErrorResponse> {
    if !app.engine.delete_response(&principal.0.owner, &Id::from(id.as_str())).await? {
        return Err(ErrorResponse(stored::response_not_found(&id)));
    }
    Ok(stored::deleted(&id, "response"))
}

/// `GET /v1/responses/{id}/input_items`
pub(super) async fn input_items(
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
        async move { store.input_items(owner, id, &page).await }
    };
    let found = response_budget::read_stored(&app, &principal.requester(), read, stored::list).await?;
    found.ok_or_else(|| ErrorResponse(stored::response_not_found(id)))
}

/// `GET /v1/responses`
pub(super) async fn list_all(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    query: Query,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&["limit", "order", "after", "before", "status", "model", "view"])?;
    let (store, owner, page, filter) =
        (&app.services.store, &principal.0.owner, query.page()?, traces::filter(&query)?);
    if traces::wants_summaries(&query)? {
        return traces::summaries(&app, &principal, &page, &filter).await;
    }
    let read = |max_bytes| {
        let page = PageRequest { max_bytes, ..page.clone() };
        let filter = &filter;
        async move { store.responses(owner, &page, filter).await.map(Some) }
    };
    let found = response_budget::read_stored(&app, &principal.requester(), read, stored::list).await?;
    found.ok_or_else(|| ErrorResponse(ApiError::internal()))
}
