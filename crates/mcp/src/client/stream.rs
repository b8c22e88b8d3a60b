//! A server's event stream, as the SDK sees it: responses and notifications are taken out on the way.

use std::sync::Arc;

use async_stream::try_stream;
use bytes::Bytes;
use futures_util::{Stream, TryStream};
use reqwest::Response;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::SseError;

use super::message_router::{self, Dispatch, MessageRouter};
use antwort_net::sse::{Decoded, Event, Excerpt, SkippingDecoder};

/// The SDK's type of an event, which it does not export under a name.
pub(super) type Sse = <BoxedSseResponse as TryStream>::Ok;

/// The events of a response to one request, or of a session's stream.
pub(super) struct EventStream {
    /// `None` once nothing more is to come.
    response: Option<Response>,
    decoder: SkippingDecoder,
    reader: EventReader,
}

/// Routes each message, and keeps what the SDK needs to see.
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
        }
    }

    /// The events for the SDK.
    pub(super) fn into_stream(mut self) -> impl Stream<Item = Result<Sse, SseError>> + Send {
        try_stream! {
            while let Some(bytes) = self.chunk().await? {
                for event in self.read(&bytes) {
                    yield event;
                }
            }
        }
    }

    /// The next bytes of the body.
    async fn chunk(&mut self) -> Result<Option<Bytes>, SseError> {
        let EventStream { response, reader: EventReader { router, answered, .. }, .. } = self;
        if router.closed.is_cancelled() {
            return Ok(None);
        }
        if let Some(body) = response {
            let chunk = tokio::select! {
                chunk = body.chunk() => chunk,
                () = router.closed.cancelled() => return Ok(None),
            };
            if let Ok(Some(bytes)) = chunk {
                return Ok(Some(bytes));
            }
            *response = None;
            // The error's own words hold the URL.
            if chunk.is_err() && !*answered {
                return Err(SseError::Body("the stream broke".into()));
            }
        }
        // The SDK takes the end of a stream for a reason to resume it, even after the answer. It waits only a moment
        // for an end that does not come.
        if *answered {
            router.closed.cancelled().await;
        }
        Ok(None)
    }

    /// The events that are whole with these bytes.
    fn read(&mut self, bytes: &[u8]) -> Vec<Sse> {
        let mut events = Vec::new();
        self.decoder.feed(bytes);
        while let Some(event) = self.decoder.next_event() {
            events.extend(self.reader.read(event));
        }
        let router = &self.reader.router;
        router.count_stray_bytes(self.decoder.take_stray_bytes());
        if self.decoder.is_skipping() {
            router.count_skipped(bytes.len());
            // No use in reading on: the answer is what is too long.
            if self.reader.request.is_some() {
                self.response = None;
                let data = self.reader.skip(&Excerpt::default());
                events.extend(data.map(|data| Sse::default().data(data)));
            }
        }
        events
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
                tracing::debug!(target: "antwort::mcp", server = &*self.router.server, %error, "ignoring an event that is not a JSON-RPC message");
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
