//! Authentication and authorization of requests, by `route_table`.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::AppState;
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use super::response_budget;
use super::route_table::{Access, access_of};
use crate::identity::Principal;
use crate::identity::Requester;
use crate::protocol::error::{ApiError, ErrorKind};

/// The authenticated caller of a request; an extension of it.
#[derive(Debug, Clone)]
pub(super) struct Authenticated(pub Principal);

impl Authenticated {
    /// The tenant and key that the caller's admission quotas are counted for.
    pub(super) fn requester(&self) -> Requester {
        self.0.requester()
    }
}

/// Middleware: admits a request if its key has the scope of its route, then reserves the bytes of the response body, which
/// a slow client may leave unread. A route that no table lists is refused.
pub(super) async fn authorize(
    State(app): State<AppState>,
    mut request: Request,
    next: Next,
) -> Result<Response, ErrorResponse> {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let access = access_of(request.method(), route);
    if let Some(Access::Public) = access {
        return Ok(next.run(request).await);
    }
    let principal = app.access.auth.authenticate(request.headers()).await?;
    if let Some(context) = request.extensions().get::<RequestContext>() {
        let tenant = Arc::clone(&principal.owner.tenant);
        context.log.update(|facts| facts.key = Some((Arc::clone(&principal.name), tenant)));
    }
    match access {
        Some(Access::Requires(scope)) => principal.require(scope)?,
        _ => {
            return Err(ErrorResponse(ApiError::new(ErrorKind::MethodNotAllowed, "Method not allowed.")));
        }
    }
    let caller = Authenticated(principal);
    let requester = caller.requester();
    request.extensions_mut().insert(caller);
    let response = next.run(request).await;
    response_budget::reserve(&app, &requester, response).await
}
