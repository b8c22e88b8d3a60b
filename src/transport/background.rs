//! Creates with `background: true`: answered once the run is queued, or with the stream of its log.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;

use super::access::Authenticated;
use super::error::ErrorResponse;
use super::names_header::{IGNORED_FIELDS, OMITTED_TOOLS, names_header};
use super::request_context::RequestContext;
use super::response_budget::{self, ResponseBudget};
use super::{AppState, follow, idempotency, stored};
use crate::engine::{Queued, RunContext, Submitted};
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::request::CreateResponse;
use crate::telemetry::request_log::RunStats;

/// A request for a background run with its body as it was sent.
pub(super) struct BackgroundRequest {
    pub request: CreateResponse,
    pub text: String,
}

/// Queues the run; `key` is the idempotency key, with the hash of the body.
pub(super) async fn create(
    app: &AppState,
    principal: &Authenticated,
    context: (&RequestContext, &HeaderMap),
    BackgroundRequest { request, text }: BackgroundRequest,
    caller: RunContext,
    key: Option<(&str, [u8; 32])>,
) -> Result<Response, ErrorResponse> {
    let stream = request.stream;
    let log = &context.0.log;
    let key = key.map(|key| idempotency::identity(context, key));
    let is_keyed = key.is_some();
    let submitted = app.engine.submit(request, text, caller, key).await;
    if is_keyed {
        let outcome = match &submitted {
            Ok(Submitted::Queued(_)) => Some("new"),
            Ok(Submitted::Known(known)) => Some(if known.is_running() { "followed" } else { "replayed" }),
            Err(error) => (error.code() == "idempotency_key_reused").then_some("reused"),
        };
        idempotency::note(app, log, outcome);
    }
    match submitted? {
        Submitted::Queued(queued) => {
            let Queued { id, body, ignored, omitted_tools } = queued;
            let mut response = match stream {
                true => followed(app, principal, context.0, &id).await?,
                false => {
                    let stats = RunStats { response_id: id, turns: 0, usage: None, first_delta: None };
                    log.update(|facts| facts.run = Some(stats));
                    stored::object(body)
                }
            };
            for (name, names) in
                [(IGNORED_FIELDS, names_header(&ignored)), (OMITTED_TOOLS, names_header(&omitted_tools))]
            {
                if let Some(names) = names {
                    response.headers_mut().insert(name, names);
                }
            }
            Ok(response)
        }
        Submitted::Known(known) if stream => idempotency::replay(app, principal, known, stream, log).await,
        // As it is now: whoever asks for it waits for nothing.
        Submitted::Known(known) => {
            follow::note(&known.follower, log);
            let (owner, id) = (&principal.0.owner, known.follower.id.as_str());
            let read = |max_bytes| app.services.store.response(owner, id, max_bytes);
            let found =
                response_budget::read_stored(app, &principal.requester(), read, stored::object).await?;
            let deleted = "The response that this Idempotency-Key has led to was deleted.";
            Ok(idempotency::replayed(found.ok_or_else(|| ApiError::not_found(deleted))?))
        }
    }
}

/// The stream of a run that was queued.
async fn followed(
    app: &AppState,
    principal: &Authenticated,
    context: &RequestContext,
    id: &Id,
) -> Result<Response, ErrorResponse> {
    let follower = app.engine.follow(&principal.0.owner, id.clone(), None).await?;
    let follower = follower.ok_or_else(ApiError::internal)?;
    let budget = ResponseBudget::new(app, principal.requester());
    follow::replay(follower, budget, app.requests.keepalive, &Arc::clone(&context.log)).await
}
