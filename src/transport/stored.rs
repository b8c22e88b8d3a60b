//! Stored texts as answers. They are JSON already: they are written one after another as they are, neither read nor
//! copied, and each is freed once it was written.

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

use crate::store::Page;

/// An answer whose body is JSON.
pub(super) fn json(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// One stored object.
pub(super) fn object(text: Arc<str>) -> Response {
    json(Body::from(bytes(text)))
}

/// A page of a list.
pub(super) fn list(page: Page) -> Response {
    let ids = (page.data.first().map(|(id, _)| id), page.data.last().map(|(id, _)| id));
    let end =
        format!(r#"],"first_id":{},"last_id":{},"has_more":{}}}"#, json!(ids.0), json!(ids.1), page.has_more);
    let mut pieces = VecDeque::with_capacity(page.data.len() * 2 + 2);
    pieces.push_back(Bytes::from_static(br#"{"object":"list","data":["#));
    for (i, (_, text)) in page.data.into_iter().enumerate() {
        if i > 0 {
            pieces.push_back(Bytes::from_static(b","));
        }
        pieces.push_back(bytes(text));
    }
    pieces.push_back(Bytes::from(end));
    json(Body::new(Pieces::new(pieces)))
}

fn bytes(text: Arc<str>) -> Bytes {
    struct Text(Arc<str>);
    impl AsRef<[u8]> for Text {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    Bytes::from_owner(Text(text))
}

/// A body of pieces that are all there.
struct Pieces {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl Pieces {
    fn new(pieces: VecDeque<Bytes>) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, left }
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
