//! A server's stream of events, as the SDK is to hear it.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::Stream;
use reqwest::Response;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

use super::events::{Data, Event, Events};
use super::message_router::{self, Dispatch, MessageRouter};

/// Events of an answer, or of a session.
pub(super) struct EventStream {
    /// `None` once nothing more is to come.
    response: Option<Response>,
    events: Events,
    router: Arc<MessageRouter>,
    /// The request that the stream answers; `None`: it is the session's.
    asked: Option<i64>,
    ready: VecDeque<Sse>,
    answered: bool,
}

impl EventStream {
    /// The stream that answers a request.
    pub fn for_request(response: Response, wire: Arc<MessageRouter>, asked: i64) -> Self {
        Self { asked: Some(asked), ..Self::for_session(response, wire) }
    }

    /// The stream of a session.
    pub fn for_session(response: Response, router: Arc<MessageRouter>) -> Self {
        let events = Events::new(router.limit);
        Self {
            response: Some(response),
            events,
            router,
            asked: None,
            ready: VecDeque::new(),
            answered: false,
        }
    }

    /// The events for the SDK.
    pub fn into_stream(self) -> impl Stream<Item = Result<Sse, SseError>> + Send {
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
            if self.router.closed.is_cancelled() {
                return None;
            }
            let Some(response) = &mut self.response else { return self.end().await };
            let chunk = tokio::select! {
                chunk = response.chunk() => chunk,
                () = self.router.closed.cancelled() => return None,
            };
            match chunk {
                Ok(Some(bytes)) => self.feed(&bytes),
                Ok(None) => self.response = None,
                Err(_) if self.answered => self.response = None,
                // The error's own words hold the URL.
                Err(_) => {
                    self.response = None;
                    return Some(Err(SseError::Body("the stream broke".into())));
                }
            }
        }
    }

    /// The SDK takes the end of a stream for a reason to take it up again, also behind the answer. It waits only a
    /// moment for an end that does not come.
    async fn end(&self) -> Option<Result<Sse, SseError>> {
        if self.answered {
            std::future::pending::<()>().await;
        }
        None
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.events.feed(bytes);
        while let Some(event) = self.events.next() {
            if let Some(event) = self.take(event) {
                self.ready.push_back(event);
            }
        }
        self.router.count_stray_bytes(self.events.take_stray());
        if self.events.is_skipping() {
            self.router.count_skipped(bytes.len());
        }
        // No use in reading on: the answer is what is too long.
        if let Some(asked) = self.asked.filter(|_| self.events.is_skipping()) {
            self.response = None;
            if let Some(id) = self.router.skip(&super::lines::Skipped::default(), Some(asked)) {
                self.answered = true;
                self.ready
                    .push_back(Sse::default().data(message_router::placeholder_response_text(id, "{}")));
            }
        }
    }

    fn take(&mut self, event: Event) -> Option<Sse> {
        let data = match event.data {
            Data::None if !self.router.count_notification(0) => return None,
            Data::None => None,
            Data::Skipped(skipped) => {
                self.router.skip(&skipped, self.asked).map(|id| self.answered_text(id, "{}"))
            }
            Data::Text(text) => self.take_text(event.name.as_deref(), text),
        };
        let sse = Sse { event: None, data, id: event.id, retry: event.retry };
        (sse != Sse::default()).then_some(sse)
    }

    fn take_text(&mut self, name: Option<&str>, text: String) -> Option<String> {
        if !matches!(name, None | Some("" | "message")) || text.trim_ascii().is_empty() {
            self.router.count_notification(text.len());
            return None;
        }
        match self.router.dispatch(text.as_bytes(), self.asked) {
            Ok(Dispatch::Answered { id, result }) => Some(self.answered_text(id, &result)),
            Ok(Dispatch::Handled) => None,
            Ok(Dispatch::Sdk) => Some(text),
            Ok(Dispatch::Replaced(message)) => Some(message),
            Err(error) => {
                tracing::debug!(target: "antwort::mcp", server = &*self.router.server, %error, "no message");
                None
            }
        }
    }

    fn answered_text(&mut self, id: i64, result: &str) -> String {
        self.answered |= self.asked == Some(id);
        message_router::placeholder_response_text(id, result)
    }
}
