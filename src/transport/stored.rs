//! Responses made of stored rows. These are JSON texts already: they are sent as they are, neither parsed nor copied, and
//! each is freed once it was sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use serde_json::json;

use antwort_protocol::error::ApiError;
use antwort_protocol::parse::truncate_for_display;
use antwort_store::Page;

/// A 200 response with a JSON body.
pub(super) fn json(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// One stored object.
pub(super) fn object(text: Arc<str>) -> Response {
    json(Body::from(bytes(text)))
}

/// The error for a response that does not exist, or is another owner's.
pub(super) fn response_not_found(id: &str) -> ApiError {
    ApiError::not_found(format!("Response with id '{}' not found.", truncate_for_display(id)))
}

/// The confirmation that an object was deleted.
pub(super) fn deleted(id: &str, object: &'static str) -> Response {
    json(Body::from(json!({"id": id, "object": object, "deleted": true}).to_string()))
}

/// A page of a list.
pub(super) fn list(page: Page) -> Response {
    let ids = (page.data.first().map(|(id, _)| id), page.data.last().map(|(id, _)| id));
    let end =
        format!(r#"],"first_id":{},"last_id":{},"has_more":{}}}"#, json!(ids.0), json!(ids.1), page.has_more);
    let mut chunks = VecDeque::with_capacity(page.data.len() * 2 + 2);
    chunks.push_back(Bytes::from_static(br#"{"object":"list","data":["#));
    for (i, (_, text)) in page.data.into_iter().enumerate() {
        if i > 0 {
            chunks.push_back(Bytes::from_static(b","));
        }
        chunks.push_back(bytes(text));
    }
    chunks.push_back(Bytes::from(end));
    json(Body::new(ChunkedBody::new(chunks)))
}

/// The bytes of a text, which is not copied.
pub(super) fn bytes(text: Arc<str>) -> Bytes {
    struct Text(Arc<str>);
    impl AsRef<[u8]> for Text {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    Bytes::from_owner(Text(text))
}

/// A body of chunks in memory.
struct ChunkedBody {
    chunks: VecDeque<Bytes>,
    remaining: u64,
}

impl ChunkedBody {
    fn new(chunks: VecDeque<Bytes>) -> Self {
        let remaining = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self { chunks, remaining }
    }
}

impl http_body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.pop_front();
        self.remaining -= chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}
