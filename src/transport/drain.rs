//! Draining of request bodies that a handler did not read.
//!
//! An error response may be ready before the request body was read. Closing the connection then makes the client
//! see a broken pipe instead of the response, or lose its next request. So a bounded remainder of the body is read
//! first; if more is to come, the response carries `Connection: close`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;

/// Most bytes of a body that are read and discarded.
const MAX_DRAIN_BYTES: usize = 4 << 20;
/// Longest time spent on draining a body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// What a handler leaves of a request's body.
pub(super) struct UnreadBody {
    left: Arc<Mutex<Option<Body>>>,
    version: Version,
}

impl UnreadBody {
    /// Watches the body of a request; `None` if it has none.
    pub(super) fn watch(request: Request) -> (Request, Option<Self>) {
        if request.body().is_end_stream() {
            return (request, None);
        }
        let unread = Self { left: Arc::default(), version: request.version() };
        let keep = Arc::clone(&unread.left);
        (request.map(|body| Body::new(RecoverableBody { body, keep })), Some(unread))
    }

    /// Drains what was left of the body before the response is sent.
    pub(super) async fn drain(self, response: &mut Response) {
        let left = self.left.lock().take();
        if let Some(body) = left
            && !tokio::time::timeout(DRAIN_TIMEOUT, drain(body)).await.unwrap_or(false)
            && self.version <= Version::HTTP_11
        {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Whether the body ended within [`MAX_DRAIN_BYTES`].
async fn drain(mut body: Body) -> bool {
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > MAX_DRAIN_BYTES {
            return false;
        }
    }
    true
}

/// A body that is put into `keep` if its reader drops it before its end.
struct RecoverableBody {
    body: Body,
    keep: Arc<Mutex<Option<Body>>>,
}

impl HttpBody for RecoverableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RecoverableBody {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            *self.keep.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}
