//! What a refused client is still sending.
//!
//! A refusal may be ready before its request's body has been read. Closing the connection then makes the
//! client see a broken pipe instead of the answer, or lose its next request. So a bounded remainder is read
//! first; with more than that to come, the client is told that the connection closes.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

/// At most this much is read and thrown away.
const MAX_DRAIN_BYTES: usize = 4 << 20;
/// For at most this long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads what a handler left of its request's body before the answer leaves.
pub(super) async fn drain_unread_body(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let version = request.version();
    let left = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&left);
    let request = request.map(|body| Body::new(RecoverableBody { body, keep }));
    let mut response = next.run(request).await;
    let left = left.lock().ok().and_then(|mut left| left.take());
    if let Some(body) = left
        && !tokio::time::timeout(DRAIN_TIMEOUT, drain(body)).await.unwrap_or(false)
        && version <= Version::HTTP_11
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether the body came to its end within the limit.
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

/// A body that comes back when whoever reads it is done before its end.
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
        if !self.body.is_end_stream()
            && let Ok(mut keep) = self.keep.lock()
        {
            *keep = Some(std::mem::take(&mut self.body));
        }
    }
}
