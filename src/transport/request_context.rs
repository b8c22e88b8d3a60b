//! What every request leaves behind: a request id, what its line in the log says, metrics, and a few headers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::{HeaderName, HeaderValue, Request};
use axum::middleware::Next;
use axum::response::Response;

use ipnet::IpNet;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::AppState;
use super::client_profile::{self, ClientProfile};
use super::error::ErrorSummary;
use super::forwarded::RequestOrigin;
use crate::protocol::id::Id;
use crate::telemetry::request_log::RequestLog;
use crate::telemetry::traces::{self, TraceParent};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CLIENT_PROFILE: HeaderName = HeaderName::from_static("antwort-client-profile");
const PROCESSING_MS: HeaderName = HeaderName::from_static("openai-processing-ms");
const VERSION: HeaderName = HeaderName::from_static("openai-version");
/// Longer or stranger ids of clients are replaced: they end up in logs and in upstream requests.
const MAX_REQUEST_ID: usize = 128;

/// What ties a request to logs and traces.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    /// Sent back, logged, and sent upstream.
    pub request_id: Arc<str>,
    /// Where what is known of the request goes.
    pub log: Arc<RequestLog>,
    /// Where in which trace the caller is.
    pub trace_parent: Option<TraceParent>,
    /// What is different for the client, where it is recognised.
    pub client_profile: Option<&'static ClientProfile>,
    /// Where it came from, and for which host; trusted proxies are looked through.
    pub origin: RequestOrigin,
}

impl RequestContext {
    fn from_request(request: &Request<Body>, client_profiles: bool, trusted_proxies: &[IpNet]) -> Self {
        let headers = request.headers();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // From whoever gives it the answer, and so knows how the request ends.
        let log = request.extensions().get().cloned().unwrap_or_else(|| begin_log(request));
        Self {
            request_id: Arc::clone(log.request_id()),
            log,
            trace_parent: text("traceparent").and_then(TraceParent::parse),
            client_profile: client_profiles.then(|| client_profile::detect(headers)).flatten(),
            origin: RequestOrigin::from_request(request, trusted_proxies),
        }
    }

    /// The `traceparent` to send upstream from within the current span.
    pub(super) fn upstream_traceparent(&self) -> Option<String> {
        traces::upstream_parent(&Span::current(), self.trace_parent.clone()).map(|parent| parent.to_string())
    }
}

/// The log of a request that begins now: under its client's id, or a new one where that is none.
pub(crate) fn begin_log<B>(request: &Request<B>) -> Arc<RequestLog> {
    let acceptable =
        |id: &&str| (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    let request_id = request
        .headers()
        .get(REQUEST_ID)
        .and_then(|id| id.to_str().ok())
        .filter(acceptable)
        .map_or_else(|| Id::generate("req").as_str().into(), Arc::from);
    RequestLog::begin(request_id, request.method().clone())
}

/// Outermost of the middleware: sees every answer, whoever gave it.
pub(super) async fn observe_request(
    State(app): State<AppState>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let trail = RequestContext::from_request(&request, app.client_profiles, &app.trusted_proxies);
    let request_id = HeaderValue::from_str(&trail.request_id);
    request.extensions_mut().insert(trail.clone());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let pattern = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    trail.log.update(|facts| {
        facts.route = Some(pattern.into());
        facts.client_address = trail.origin.address;
    });
    let span = tracing::info_span!(
        "request",
        otel.name = "HTTP",
        otel.kind = "server",
        otel.status_code = Empty,
        request_id = %trail.request_id,
        %method,
        status = Empty
    );
    traces::set_remote_parent(&span, trail.trace_parent.clone());
    let mut response = next.run(request).instrument(span.clone()).await;
    span.record("status", response.status().as_u16());
    if response.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    let took = trail.log.started().elapsed();
    let headers = response.headers_mut();
    if let Ok(request_id) = request_id {
        headers.insert(REQUEST_ID, request_id);
    }
    if let Some(client) = trail.client_profile {
        headers.insert(CLIENT_PROFILE, HeaderValue::from_static(client.name));
    }
    headers.insert(PROCESSING_MS, HeaderValue::from(took.as_millis() as u64));
    headers.insert(VERSION, HeaderValue::from_static("2020-10-01"));
    app.metrics.http_request(pattern, method.as_str(), response.status().as_u16(), took);
    let refusal = response.extensions_mut().remove::<ErrorSummary>();
    trail.log.update(|facts| {
        facts.status = Some(response.status().as_u16());
        if let Some(ErrorSummary { code, param }) = refusal {
            (facts.code, facts.param) = (code, param);
        }
    });
    response
}
