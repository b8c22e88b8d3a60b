//! `POST /v1/responses/{id}/cancel`

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::access::Authenticated;
use super::error::ErrorResponse;
use super::query::{PathParam, Query};
use super::stored::response_not_found;
use super::{AppState, response_budget, stored};
use antwort_engine::Cancelled;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::parse::truncate_for_display;

/// What is read of a stored response.
#[derive(Deserialize)]
struct Facts {
    #[serde(default)]
    background: Option<bool>,
}

/// Ends a running response, and answers when it is stored. One that had ended is only answered if it is one of those that
/// run in the background, for which a client cannot know.
pub(super) async fn cancel(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    PathParam(id): PathParam,
    query: Query,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&[])?;
    let owner = &principal.0.owner;
    let cancelled = Box::pin(app.engine.cancel(owner, &Id::from(&*id))).await?;
    if cancelled == Cancelled::NotFound {
        return Err(ErrorResponse(response_not_found(&id)));
    }
    let read = |max_bytes| app.services.store.response(owner, &id, max_bytes);
    let respond = |text: Arc<str>| {
        if cancelled == Cancelled::TooLate && !is_background(&text) {
            return ErrorResponse(not_cancellable(&id)).into_response();
        }
        stored::object(text)
    };
    let found = response_budget::read_stored(&app, &principal.requester(), read, respond).await?;
    found.ok_or_else(|| ErrorResponse(response_not_found(&id)))
}

fn is_background(response: &str) -> bool {
    serde_json::from_str::<Facts>(response).is_ok_and(|facts| facts.background == Some(true))
}

fn not_cancellable(id: &str) -> ApiError {
    ApiError::invalid(
        "response_not_cancellable",
        "response_id",
        format!(
            "Response '{}' has ended: only a running response can be cancelled.",
            truncate_for_display(id)
        ),
    )
}
