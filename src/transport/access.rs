//! Authentication and authorization of requests, by `route_table`.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, Uri};

use super::AppState;
use super::error::ErrorResponse;
use super::request_context::RequestContext;
use super::route_table::{Access, access_of};
use antwort_identity::{Callers, Principal, Requester};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;

/// The authenticated caller of a request; an extension of it.
#[derive(Debug, Clone)]
pub(super) struct Authenticated(pub Principal);

impl Authenticated {
    /// The tenant and key that the caller's admission quotas are counted for.
    pub(super) fn requester(&self) -> Requester {
        self.0.requester()
    }
}

/// Authenticates the caller of a request, and checks that its key has the scope of its route; `None` for public routes and
/// requests that match no route. Adds [`Authenticated`] to its extensions. A method that no table lists for its route is
/// refused, whatever the router has.
///
/// # Errors
/// No or a wrong key, a key without the scope, a method that is not listed.
pub(super) async fn authorize(
    app: &AppState,
    request: &mut Request,
) -> Result<Option<Authenticated>, ErrorResponse> {
    let Some(route) = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str) else {
        return Ok(None);
    };
    let (scope, is_shared) = match access_of(request.method(), route, &app.access.pass_through) {
        Some(Access::Public) => return Ok(None),
        Some(Access::Requires(scope)) => (scope, false),
        Some(Access::Operates(scope)) => (scope, true),
        None => return Err(ErrorResponse(method_not_allowed(request.method(), request.uri()))),
    };
    let principal = app.access.auth.authenticate(request.headers()).await?;
    if let Some(context) = request.extensions().get::<RequestContext>() {
        let tenant = Arc::clone(&principal.owner.tenant);
        context.log.update(|facts| facts.key = Some((Arc::clone(&principal.name), tenant)));
    }
    principal.require(scope)?;
    if is_shared && app.access.auth.has_several_tenants() {
        principal.require_named(scope)?;
    }
    let caller = Authenticated(principal);
    request.extensions_mut().insert(caller.clone());
    Ok(Some(caller))
}

/// The error for a method that a route does not have.
pub(super) fn method_not_allowed(method: &Method, uri: &Uri) -> ApiError {
    ApiError::new(
        ErrorKind::MethodNotAllowed,
        format!("{method} is not allowed for {}.", truncate_for_display(uri.path())),
    )
}

/// The error for a URL that is not served.
pub(super) fn unknown_url(method: &Method, path: &str) -> ApiError {
    let path = truncate_for_display(path);
    let message = format!("Unknown request URL: {method} {path}. See /openapi.yaml for what is served.");
    ApiError::new(ErrorKind::NotFound, message).with_code("unknown_url")
}
