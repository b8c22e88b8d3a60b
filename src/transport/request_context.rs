//! The request context: request id, access log entry, trace parent, client address; and what is recorded of each response.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::{HeaderName, HeaderValue, Method, Request};
use axum::response::Response;

use ipnet::IpNet;
use tracing::Span;
use tracing::field::Empty;

use super::AppState;
use super::client_profile::{self, ClientProfile};
use super::error::ErrorSummary;
use super::forwarded::RequestOrigin;
use antwort_protocol::id::Id;
use antwort_telemetry::request_log::RequestLog;
use antwort_telemetry::traces::{self, TraceParent};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CLIENT_PROFILE: HeaderName = HeaderName::from_static("antwort-client-profile");
const PROCESSING_MS: HeaderName = HeaderName::from_static("openai-processing-ms");
const VERSION: HeaderName = HeaderName::from_static("openai-version");
/// Longest request id that is taken from a client; it appears in logs and upstream requests.
const MAX_REQUEST_ID: usize = 128;

/// The route of a request that matches none, in logs and metrics.
const UNMATCHED: &str = "unmatched";

/// What handlers know of a request besides its body; an extension of it.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    /// Returned as `x-request-id`, logged, and sent upstream.
    pub request_id: Arc<str>,
    /// The access log entry of the request.
    pub log: Arc<RequestLog>,
    /// The caller's span, from `traceparent`.
    pub trace_parent: Option<TraceParent>,
    /// Compatibility settings of a detected client.
    pub client_profile: Option<&'static ClientProfile>,
    /// Client address and host, by trusted proxies.
    pub origin: RequestOrigin,
}

impl RequestContext {
    fn from_request(request: &Request<Body>, client_profiles: bool, trusted_proxies: &[IpNet]) -> Self {
        let headers = request.headers();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // Created by the connection, which records how the request ends.
        let log = request.extensions().get().cloned().unwrap_or_else(|| begin_log(request));
        Self {
            request_id: Arc::clone(log.request_id()),
            log,
            trace_parent: text("traceparent").and_then(TraceParent::parse),
            client_profile: client_profiles.then(|| client_profile::detect(headers)).flatten(),
            origin: RequestOrigin::from_request(request, trusted_proxies),
        }
    }

    /// The `traceparent` of the current span, to send upstream.
    pub(super) fn upstream_traceparent(&self) -> Option<String> {
        traces::upstream_parent(&Span::current(), self.trace_parent.clone()).map(|parent| parent.to_string())
    }
}

/// Begins the access log entry of a request, with the client's `x-request-id` if it is acceptable, else with a new id.
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

/// A request that is being served, until its response is finished.
pub(super) struct ObservedRequest {
    context: RequestContext,
    request_id: Option<HeaderValue>,
    method: Method,
    route: Option<MatchedPath>,
    /// The span of all that the request does.
    pub span: Span,
}

impl ObservedRequest {
    /// Begins with the request's head; adds its [`RequestContext`] to its extensions.
    pub(super) fn begin(app: &AppState, request: &mut Request<Body>) -> Self {
        let context =
            RequestContext::from_request(request, app.requests.client_profiles, &app.access.trusted_proxies);
        let extensions = request.extensions_mut();
        extensions.insert(context.clone());
        let route = extensions.get::<MatchedPath>().cloned();
        let method = request.method().clone();
        let pattern = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
        context.log.update(|facts| {
            facts.route = Some(pattern.into());
            facts.client_address = context.origin.address;
        });
        let span = tracing::info_span!(
            "request",
            otel.name = "HTTP",
            otel.kind = "server",
            otel.status_code = Empty,
            request_id = %context.request_id,
            %method,
            status = Empty
        );
        traces::set_remote_parent(&span, context.trace_parent.clone());
        let request_id = HeaderValue::from_str(&context.request_id).ok();
        Self { context, request_id, method, route, span }
    }

    /// Adds the headers of every response, and notes it in span, metrics and access log.
    pub(super) fn finish(self, app: &AppState, response: &mut Response) {
        let status = response.status();
        self.span.record("status", status.as_u16());
        if status.is_server_error() {
            self.span.record("otel.status_code", "ERROR");
        }
        let took = self.context.log.started().elapsed();
        let headers = response.headers_mut();
        if let Some(request_id) = self.request_id {
            headers.insert(REQUEST_ID, request_id);
        }
        if let Some(client) = self.context.client_profile {
            headers.insert(CLIENT_PROFILE, HeaderValue::from_static(client.name));
        }
        headers.insert(PROCESSING_MS, HeaderValue::from(took.as_millis() as u64));
        headers.insert(VERSION, HeaderValue::from_static("2020-10-01"));
        let pattern = self.route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
        app.metrics.http_request(pattern, self.method.as_str(), status.as_u16(), took);
        let error = response.extensions_mut().remove::<ErrorSummary>();
        self.context.log.update(|facts| {
            facts.status = Some(status.as_u16());
            if let Some(ErrorSummary { code, param }) = error {
                (facts.code, facts.param) = (code, param);
            }
        });
    }
}
