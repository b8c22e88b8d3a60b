//! A server's stream of events, as the SDK is to hear it.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{Stream, TryStream};
use reqwest::Response;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::SseError;

use super::message_router::{self, Dispatch, MessageRouter};
use crate::net::sse::{Decoded, Event, Excerpt, SkippingDecoder};

/// The SDK's type of an event, which it does not export under a name.
pub(super) type Sse = <BoxedSseResponse as TryStream>::Ok;

/// The events of a response to one request, or of a session's stream.
pub(super) struct EventStream {
    /// `None` once nothing more is to come.
    response: Option<Response>,
    decoder: SkippingDecoder,
    reader: EventReader,
    ready: VecDeque<Sse>,
}

/// Gives each message to whom it is for, and the SDK what it needs to see.
struct EventReader {
    router: Arc<MessageRouter>,
    /// The request that the stream answers; `None` for a session's stream.
    request: Option<i64>,
    answered: bool,
}

impl EventStream {
    /// The stream that answers a request.
    pub(super) fn for_request(response: Response, router: Arc<MessageRouter>, request: i64) -> Self {
        Self::new(response, router, Some(request))
    }

    /// The stream of a session.
    pub(super) fn for_session(response: Response, router: Arc<MessageRouter>) -> Self {
        Self::new(response, router, None)
    }

    fn new(response: Response, router: Arc<MessageRouter>, request: Option<i64>) -> Self {
        Self {
            response: Some(response),
            decoder: SkippingDecoder::new(router.max_event_bytes()),
            reader: EventReader { router, request, answered: false },
            ready: VecDeque::new(),
        }
    }

    /// The events for the SDK.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Sse, SseError>> + Send {
        futures_util::stream::unfold(
            self,
            |mut this| async move { this.next().await.map(|event| (event, this)) },
        )
    }

    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let closed = &self.reader.router.closed;
            if closed.is_cancelled() {
                return None;
            }
            let Some(response) = &mut self.response else { return self.end().await };
            let chunk = tokio::select! {
                chunk = response.chunk() => chunk,
                () = closed.cancelled() => return None,
            };
            match chunk {
                Ok(Some(bytes)) => self.feed(&bytes),
                Ok(None) => self.response = None,
                Err(_) if self.reader.answered => self.response = None,
                // The error's own words hold the URL.
                Err(_) => {
                    self.response = None;
                    return Some(Err(SseError::Body("the stream broke".into())));
                }
            }
        }
    }

    /// The SDK takes the end of a stream for a reason to resume it, even after the answer. It waits only a moment for
    /// an end that does not come.
    async fn end(&self) -> Option<Result<Sse, SseError>> {
        if self.reader.answered {
            std::future::pending::<()>().await;
        }
        None
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
        while let Some(event) = self.decoder.next() {
            self.ready.extend(self.reader.read(event));
        }
        let router = &self.reader.router;
        router.count_stray_bytes(self.decoder.take_stray_bytes());
        if !self.decoder.is_skipping() {
            return;
        }
        router.count_skipped(bytes.len());
        // No use in reading on: the answer is what is too long.
        if self.reader.request.is_some() {
            self.response = None;
            let data = self.reader.skip(&Excerpt::default());
            self.ready.extend(data.map(|data| Sse::default().data(data)));
        }
    }
}

impl EventReader {
    fn read(&mut self, decoded: Decoded<'_>) -> Option<Sse> {
        let (id, retry, data) = match decoded {
            Decoded::Event(Event { data, id, retry, .. }) if data.is_empty() => {
                if !self.router.count_notification(0) {
                    return None;
                }
                (id, retry, None)
            }
            Decoded::Event(Event { name, data, id, retry }) => {
                (id, retry, self.read_data(name.is_some(), data.into_owned()))
            }
            Decoded::Oversized(Event { id, retry, .. }, excerpt) => (id, retry, self.skip(&excerpt)),
        };
        let retry = retry.and_then(|retry| u64::try_from(retry.as_millis()).ok());
        (id.is_some() || retry.is_some() || data.is_some()).then(|| {
            let mut sse = Sse::default();
            (sse.id, sse.retry, sse.data) = (id, retry, data);
            sse
        })
    }

    /// Messages come in events without a name.
    fn read_data(&mut self, is_named: bool, text: String) -> Option<String> {
        if is_named || text.trim_ascii().is_empty() {
            self.router.count_notification(text.len());
            return None;
        }
        match self.router.dispatch(text.as_bytes(), self.request) {
            Ok(Dispatch::Answered { id, result }) => Some(self.placeholder(id, &result)),
            Ok(Dispatch::Handled) => None,
            Ok(Dispatch::Sdk) => Some(text),
            Ok(Dispatch::Replaced(message)) => Some(message),
            Err(error) => {
                tracing::debug!(target: "antwort::mcp", server = &*self.router.server, %error, "no message");
                None
            }
        }
    }

    fn skip(&mut self, excerpt: &Excerpt) -> Option<String> {
        self.router.skip(excerpt, self.request).map(|id| self.placeholder(id, "{}"))
    }

    fn placeholder(&mut self, id: i64, result: &str) -> String {
        self.answered |= self.request == Some(id);
        message_router::placeholder_response_text(id, result)
    }
}
