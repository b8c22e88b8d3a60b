//! `POST /v1/tool_callbacks/{token}`: the result of a tool whose work has gone on after its call. The token is the key.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::json;

use super::access::Authenticated;
use super::body::JsonBody;
use super::error::ErrorResponse;
use super::query::{PathParam, Query};
use super::{AppState, connection_share};
use antwort_identity::Principal;
use antwort_protocol::request::CallbackResult;

/// `POST /v1/tool_callbacks/{token}`
pub(super) async fn complete(
    State(app): State<AppState>,
    PathParam(token): PathParam,
    query: Query,
    request: Request,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&[])?;
    // Before anything is read of the body.
    let callback = app.engine.open_callback(&token)?;
    let (head, body): (_, Body) = request.into_parts();
    // The body counts among those of the owner of the call.
    let caller = Authenticated(Principal {
        name: Arc::from("callback"),
        owner: callback.owner().clone(),
        ..Principal::anonymous()
    });
    connection_share::acquire(&app, &head.extensions, &caller.requester()).await?;
    let limits = app.requests.limits;
    let read = move |body: &Bytes| CallbackResult::parse(body, limits);
    let body = JsonBody::receive(&app, &caller, &head.headers, body).await?;
    let (CallbackResult(result), reserved) = body.read(&app, &caller, read).await?;
    app.engine.complete_call(callback, result).await?;
    drop(reserved);
    Ok(Json(json!({"object": "tool_callback", "status": "completed"})).into_response())
}
