//! `POST /v1/responses/{id}/inputs`: a client's answer to a call that a running response waits for.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use super::AppState;
use super::access::Authenticated;
use super::body::JsonBody;
use super::error::ErrorResponse;
use super::query::{PathParam, Query};
use super::stored::response_not_found;
use antwort_protocol::request::{A2aInput, ResponseInput};

/// What an accepted answer is answered with.
#[derive(Serialize)]
struct Accepted<'a> {
    object: &'static str,
    response_id: &'a str,
    call_id: &'a str,
    status: &'static str,
}

/// `POST /v1/responses/{id}/inputs`
pub(super) async fn answer(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    PathParam(id): PathParam,
    query: Query,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&[])?;
    let limits = app.requests.limits;
    let read = move |body: &Bytes| ResponseInput::parse(body, limits);
    let (input, reserved) = body.read(&app, &principal, read).await?;
    let answered = accept(&app, &principal, &id, input).await;
    drop(reserved);
    answered
}

/// `POST /api/a2a/input`
pub(super) async fn answer_a2a(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    query: Query,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&[])?;
    let limits = app.requests.limits;
    let read = move |body: &Bytes| A2aInput::parse(body, limits);
    let (A2aInput { task_id, input }, reserved) = body.read(&app, &principal, read).await?;
    let answered = accept(&app, &principal, &task_id, input).await;
    drop(reserved);
    answered
}

async fn accept(
    app: &AppState,
    principal: &Authenticated,
    id: &str,
    input: ResponseInput,
) -> Result<Response, ErrorResponse> {
    let call_id = input.call_id.clone();
    match app.engine.answer_input(principal.requester(), &principal.0.owner, id, input).await? {
        Some(()) => {
            let object = "response.input";
            let accepted = Accepted { object, response_id: id, call_id: &call_id, status: "accepted" };
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
        None => Err(ErrorResponse(response_not_found(id).with_code("response_not_found"))),
    }
}
