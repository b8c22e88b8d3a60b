//! Creates with `background: true`: answered once the run is queued, or with the stream of its log.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;

use super::access::Authenticated;
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use super::response_budget::ResponseBudget;
use super::{AppState, follow, idempotency, names_header, stored};
use antwort_engine::{Keyed, Queued, RunContext, deleted_meanwhile};
use antwort_protocol::id::Id;
use antwort_protocol::request::CreateResponse;
use antwort_telemetry::request_log::RunStats;

/// A request for a background run with its body as it was sent.
pub(super) struct BackgroundRequest {
    pub request: Box<CreateResponse>,
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
        idempotency::note(app, log, &submitted);
    }
    match submitted? {
        Keyed::New(Queued { id, body, ignored, omitted_tools }) => {
            let mut response = match stream {
                true => followed(app, principal, context.0, &id).await?,
                false => {
                    let stats = RunStats { response_id: id, turns: 0, usage: None, first_delta: None };
                    log.update(|facts| facts.run = Some(stats));
                    stored::object(body)
                }
            };
            names_header::add(response.headers_mut(), &ignored, &omitted_tools);
            Ok(response)
        }
        Keyed::Known(known) if stream => idempotency::replay(app, principal, known, stream, log).await,
        // As it is now: whoever asks for it waits for nothing.
        Keyed::Known(known) => {
            follow::note(&known.follower, log);
            idempotency::stored_answer(app, principal, &known).await
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
    // Its owner, or an erasure, was faster.
    let follower = follower.ok_or_else(|| deleted_meanwhile(id))?;
    let budget = ResponseBudget::new(app, principal.requester());
    follow::replay(follower, budget, app.requests.keepalive, &Arc::clone(&context.log)).await
}
