//! Response bodies on their way out: bytes that clients do not take are bounded.
//!
//! A body above some size has its bytes reserved, until the last of them has gone to the client or the connection has.
//! What is stored is reserved before it is read. What was made for this request is reserved when it is there: until
//! then it was bounded as a part of its run or call, and all permits of those have been given back, so that nobody
//! holds one thing and waits for another.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::AppState;
use super::error::ErrorResponse;
use crate::admission::{Permit, Requester};
use crate::store::StoreError;

/// A body of at most so much is not counted: it mostly fits into the buffers of its socket.
const MAX_UNRESERVED_BYTES: u64 = 64 << 10;

/// A response whose body is reserved already.
#[derive(Debug, Clone, Copy)]
struct IsReserved;

/// Sees to it that the body of an answer is reserved, whatever made it; one of no known length is a stream, which
/// is made as it is taken.
pub(super) async fn reserve(
    app: &AppState,
    requester: &Requester,
    response: Response,
) -> Result<Response, ErrorResponse> {
    match response.body().size_hint().exact() {
        Some(bytes)
            if bytes > MAX_UNRESERVED_BYTES && response.extensions().get::<IsReserved>().is_none() =>
        {
            let permit = acquire(app, requester, bytes).await?;
            Ok(hold(response, permit))
        }
        _ => Ok(response),
    }
}

/// Reads something stored and makes an answer of it. `read` is told how many bytes it may be; where it is more, it is
/// read once there is room.
pub(super) async fn read_stored<T, F: Future<Output = Result<Option<T>, StoreError>>>(
    app: &AppState,
    requester: &Requester,
    read: impl Fn(u64) -> F,
    answer: impl FnOnce(T) -> Response,
) -> Result<Option<Response>, ErrorResponse> {
    let (mut max_bytes, mut reserved) = (MAX_UNRESERVED_BYTES, None);
    loop {
        match read(max_bytes).await {
            // Given back first, should it have grown meanwhile: nobody waits for more while holding some.
            Err(StoreError::TooLarge { bytes }) if bytes > max_bytes => {
                drop(reserved.take());
                reserved = Some(acquire(app, requester, bytes).await?);
                max_bytes = bytes;
            }
            result => {
                let answer = result?.map(answer);
                return Ok(match reserved {
                    Some(permit) => answer.map(|answer| hold(answer, permit)),
                    None => answer,
                });
            }
        }
    }
}

/// Where bytes of a stream are reserved.
#[derive(Clone)]
pub(super) struct ResponseBudget {
    app: AppState,
    requester: Requester,
}

impl ResponseBudget {
    pub(super) fn new(app: &AppState, requester: Requester) -> Self {
        Self { app: app.clone(), requester }
    }

    /// Waits for so many bytes.
    pub(super) async fn acquire(self, bytes: usize) -> Result<Permit, ErrorResponse> {
        acquire(&self.app, &self.requester, bytes as u64).await
    }
}

/// Bytes that keep their reservation for as long as anybody has them.
pub(super) fn keep(bytes: Bytes, permit: Arc<Permit>) -> Bytes {
    Bytes::from_owner(ReservedBytes { bytes, _permit: permit })
}

async fn acquire(app: &AppState, requester: &Requester, bytes: u64) -> Result<Permit, ErrorResponse> {
    Ok(app.engine.admission().response_bodies.acquire(requester, bytes).await?)
}

fn hold(mut response: Response, permit: Permit) -> Response {
    response.extensions_mut().insert(IsReserved);
    let permit = Arc::new(permit);
    response.map(|body| Body::new(ReservedBody { body, permit }))
}

/// A body whose bytes are reserved.
struct ReservedBody {
    body: Body,
    permit: Arc<Permit>,
}

/// The connection keeps what it could not send yet when the body has ended long since.
struct ReservedBytes {
    bytes: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for ReservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let keep = |bytes| keep(bytes, Arc::clone(&self.permit));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(keep))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
