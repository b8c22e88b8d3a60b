//! A response that is passed through to the client as it is, but for its errors, in which secrets are masked.
//!
//! After status 200 a server reports errors in the body. Of a stream, incomplete events are buffered until they
//! are complete; of a JSON body, the first [`MAX_ERROR_BODY`] bytes, as no error is longer.

use std::sync::Arc;
use std::time::Instant;

use async_stream::try_stream;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use memchr::memmem;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::server::{MAX_ERROR_BODY, Server};
use super::timer::Timer;
use super::upstream_body::UpstreamBody;
use crate::lenient::LenientText;
use crate::{CallContext, ProviderError, ProviderErrorKind, ProxiedBody, ProxiedResponse};
use antwort_net::sse::{self, Decoder, Event, TooLarge};

/// Sends a body as it is, and returns the response.
pub(super) async fn pass_through(
    server: &Arc<Server>,
    path: &str,
    body: ProxiedBody,
    call: &CallContext,
) -> Result<ProxiedResponse, ProviderError> {
    let url = format!("{}{path}", server.settings.url);
    let mut headers = server.call_headers(call);
    if let Some(form) = body.form.as_deref().and_then(|form| HeaderValue::from_str(form).ok()) {
        headers.insert(CONTENT_TYPE, form);
    }
    let request = server.http.post(url).headers(headers).body(body.bytes).send();
    let limits = &server.settings.timeouts;
    let sent = Instant::now();
    let response = Timer::default()
        .run(limits.first_byte, ProviderErrorKind::FirstByteTimeout, limits.total, request)
        .await?;
    let response = response.map_err(|error| server.proxy_mode.send_error(&error))?;
    let header = |name: HeaderName| {
        response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let status = response.status().as_u16();
    let content_type = header(CONTENT_TYPE).unwrap_or_else(|| "application/json".to_owned());
    // Client errors are passed on with the server's message. Other errors get a message of the gateway: the server's
    // body could be a web page, or disclose hosts and keys.
    let to_client =
        matches!(status, 200..=299 | 400 | 404..=406 | 408..=429) && !content_type.contains("html");
    if !to_client {
        return Err(server.error_from_response(response).await);
    }
    let retry_after = header(RETRY_AFTER);
    let is_error = !response.status().is_success();
    let incoming = server.upstream_body(response, sent);
    let body = if is_error {
        let text = incoming.read_to_end(MAX_ERROR_BODY).await.map_err(|error| match error.kind {
            ProviderErrorKind::Malformed => ProviderError::new(
                ProviderErrorKind::Status(status),
                format!(
                    "The model provider answered with status {status} and an error body that is too large."
                ),
            ),
            _ => error,
        })?;
        server.log_failure(
            without_query(path),
            Some(call),
            &ProviderError::new(ProviderErrorKind::Status(status), ""),
            None,
        );
        server.secrets().mask_body(text).into()
    } else {
        masked_body(
            server,
            incoming,
            &content_type,
            ProxiedCall { path: without_query(path).to_owned(), call: call.clone() },
        )
        .await?
    };
    Ok(ProxiedResponse { status, content_type, retry_after, body })
}

/// What is logged of a path: a query may hold anything.
fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// The body to pass on, by its content type.
async fn masked_body(
    server: &Arc<Server>,
    mut incoming: UpstreamBody,
    content_type: &str,
    watched: ProxiedCall,
) -> Result<reqwest::Body, ProviderError> {
    let content_type = content_type.to_ascii_lowercase();
    if content_type.contains("event-stream") {
        return Ok(watched.log_failures(server, mask_events(EventFilter::new(server), incoming)));
    }
    if !content_type.starts_with("application/json") {
        return Ok(watched.log_failures(server, incoming.into_stream()));
    }
    let mut start = Vec::new();
    while start.len() <= MAX_ERROR_BODY {
        match incoming.next().await? {
            Some(piece) => start.extend_from_slice(&piece),
            None => return Ok(mask_json(server, start).into()),
        }
    }
    let start = stream::iter([Ok(Bytes::from(start))]);
    Ok(watched.log_failures(server, start.chain(incoming.into_stream())))
}

/// The call whose response is passed on.
struct ProxiedCall {
    pub path: String,
    pub call: CallContext,
}

impl ProxiedCall {
    /// A body whose failure is logged.
    fn log_failures(
        self,
        server: &Arc<Server>,
        stream: impl Stream<Item = Result<Bytes, ProviderError>> + Send + 'static,
    ) -> reqwest::Body {
        let server = Arc::clone(server);
        let Self { path, call } = self;
        let stream = stream.inspect_err(move |error| server.log_failure(&path, Some(&call), error, None));
        reqwest::Body::wrap_stream(stream)
    }
}

/// Masks a body that is short enough to be an error.
fn mask_json(server: &Server, body: Vec<u8>) -> Vec<u8> {
    if !names_an_error(&body) {
        return body;
    }
    match String::from_utf8(body) {
        Ok(text) if is_error(&text) => server.secrets().mask_body(text).into_bytes(),
        Ok(text) => text.into_bytes(),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            server.secrets().mask_body(text).into_bytes()
        }
    }
}

/// A stream with the secrets in its errors masked.
fn mask_events(
    mut filter: EventFilter,
    mut incoming: UpstreamBody,
) -> impl Stream<Item = Result<Bytes, ProviderError>> {
    try_stream! {
        while let Some(piece) = incoming.next().await? {
            yield filter.take(piece)?;
        }
        yield filter.end()?;
    }
}

/// Masks the secrets in a stream's error events.
struct EventFilter {
    server: Arc<Server>,
    /// Bytes of an event that is not complete.
    held: Vec<u8>,
}

impl EventFilter {
    fn new(server: &Arc<Server>) -> Self {
        Self { server: Arc::clone(server), held: Vec::new() }
    }

    /// The events that are complete with these bytes, byte for byte if none of them is an error.
    fn take(&mut self, mut piece: Bytes) -> Result<Bytes, ProviderError> {
        if self.held.is_empty() {
            let events = piece.split_to(sse::end_of_events(&piece));
            self.held.extend_from_slice(&piece);
            self.check_held()?;
            return self.masked(events);
        }
        // A blank line may have been split between two pieces.
        let looked_at = self.held.len().saturating_sub(3);
        self.held.extend_from_slice(&piece);
        let end = sse::end_of_events(self.held.get(looked_at..).unwrap_or_default());
        if end == 0 {
            self.check_held()?;
            return Ok(Bytes::new());
        }
        let rest = self.held.split_off(looked_at + end);
        let events = std::mem::replace(&mut self.held, rest);
        self.check_held()?;
        self.masked(events.into())
    }

    /// The incomplete event at the end of the stream.
    fn end(&mut self) -> Result<Bytes, ProviderError> {
        let rest = std::mem::take(&mut self.held);
        self.masked(rest.into())
    }

    fn check_held(&self) -> Result<(), ProviderError> {
        let limit = self.server.settings.max_event_bytes;
        if self.held.len() <= limit { Ok(()) } else { Err(super::streaming::too_large(TooLarge { limit })) }
    }

    fn masked(&self, events: Bytes) -> Result<Bytes, ProviderError> {
        if !names_an_error(&events) {
            return Ok(events);
        }
        let mut decoder = Decoder::new(self.server.settings.max_event_bytes);
        decoder.feed(&events);
        decoder.end();
        let (mut masked, mut any) = (String::new(), false);
        while let Some(Event { name, data, .. }) =
            decoder.next_event().map_err(super::streaming::too_large)?
        {
            let failed = name.as_deref() == Some("error") || is_error(&data);
            any |= failed;
            let data =
                if failed { self.server.secrets().mask_body(data.into_owned()) } else { data.into_owned() };
            if let Some(name) = name {
                masked.extend(["event: ", &name, "\n"]);
            }
            for line in data.lines() {
                masked.extend(["data: ", line, "\n"]);
            }
            masked.push('\n');
        }
        Ok(if any { masked.into() } else { events })
    }
}

/// Whether there may be an error: cheaper than parsing.
fn names_an_error(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"error").is_some()
}

/// Whether JSON reports an error, in one of the places where servers put it. Text that has the word and is not JSON
/// counts as one.
fn is_error(text: &str) -> bool {
    #[derive(Deserialize)]
    struct ErrorFields<'a> {
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
        #[serde(borrow, default)]
        object: LenientText<'a>,
        #[serde(borrow, default)]
        choices: Option<Vec<ErrorChoice<'a>>>,
    }
    #[derive(Deserialize)]
    struct ErrorChoice<'a> {
        #[serde(borrow, default)]
        error: Option<&'a RawValue>,
    }
    if !names_an_error(text.as_bytes()) {
        return false;
    }
    match serde_json::from_str::<ErrorFields<'_>>(text) {
        Ok(ErrorFields { error, object, choices }) => {
            let of_choices = || choices.iter().flatten().any(|choice| choice.error.is_some());
            error.is_some() || object.as_str() == "error" || of_choices()
        }
        Err(_) => true,
    }
}
