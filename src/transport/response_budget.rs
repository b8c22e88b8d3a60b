//! The budget of response bodies: bounds the bytes that slow clients leave unread.
//!
//! Bodies above [`MAX_UNRESERVED_BYTES`] reserve their bytes until the last one was sent or the connection is closed.
//! Stored rows are reserved before they are read from the store. Bodies that were built for this request are reserved once
//! complete: until then they were bounded as part of their run or call, whose permits have all been released by then, so
//! that no request holds one permit while it waits for another.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::error::ErrorResponse;
use super::shared_bodies::{ReadText, ReservedText, ResponseText};
use super::{AppState, stored};
use antwort_engine::is_unfinished;
use antwort_identity::{Owner, Requester};
use antwort_limits::Permit;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_store::StoreError;
use antwort_util::held_bytes::holding;

/// Largest body that needs no reservation: it mostly fits into the socket's buffers.
const MAX_UNRESERVED_BYTES: u64 = 64 << 10;

/// Marks a response whose body is reserved already.
#[derive(Debug, Clone, Copy)]
struct IsReserved;

/// Reserves the body of a response unless that was done before. A body without a known length is a stream, which is
/// produced only as fast as the client reads.
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
            Ok(response_with_permit(response, permit))
        }
        _ => Ok(response),
    }
}

/// Reads a stored row or page and builds a response from it. `read` takes the most bytes that it may return; if there are
/// more, they are reserved first and it is called again.
pub(super) async fn read_stored<T, F: Future<Output = Result<Option<T>, StoreError>>>(
    app: &AppState,
    requester: &Requester,
    read: impl Fn(u64) -> F,
    respond: impl FnOnce(T) -> Response,
) -> Result<Option<Response>, ErrorResponse> {
    let Some((found, reserved)) = read_reserved(app, requester, None, read).await? else { return Ok(None) };
    let response = respond(found);
    Ok(Some(match reserved {
        Some(permit) => response_with_permit(response, permit),
        None => response,
    }))
}

/// A stored response, whose text is shared with all who read it at this time.
pub(super) async fn read_response(
    app: &AppState,
    requester: &Requester,
    owner: &Owner,
    id: &str,
) -> Result<Option<Response>, ErrorResponse> {
    let bytes = match app.engine.response(owner, id, MAX_UNRESERVED_BYTES).await {
        Err(StoreError::TooLarge { bytes }) => bytes,
        found => return Ok(found?.map(stored::object)),
    };
    let key = ResponseText { owner: owner.clone(), id: Id::from(id), bytes };
    let read = || {
        let (app, requester, owner, id) = (app.clone(), requester.clone(), owner.clone(), id.to_owned());
        async move {
            let read = |max_bytes| app.engine.response(&owner, &id, max_bytes);
            let found = read_reserved(&app, &requester, Some(bytes), read).await?;
            Ok(found.map(|(text, reserved)| ReservedText { text, reserved: reserved.map(Arc::new) }))
        }
    };
    // Who asks later for a response that is being made may get more.
    let lasts = |read: &ReadText| matches!(read, Ok(Some(found)) if !is_unfinished(&found.text));
    let (mut shared, is_others) = app.shared_bodies.join(key.clone(), lasts, read);
    let mut found = shared.clone().await;
    if is_others && found.is_err() {
        // Another's budget had no room, or another had waited for it longer.
        shared = app.shared_bodies.join(key, lasts, read).0;
        found = shared.clone().await;
    }
    let Some(ReservedText { text, reserved }) = found? else { return Ok(None) };
    // Others get it as long as it is being sent.
    let shared = (!is_unfinished(&text)).then_some(shared);
    let mut response = stored::json(Body::from(holding(stored::bytes(text), (reserved, shared))));
    response.extensions_mut().insert(IsReserved);
    Ok(Some(response))
}

/// Reads a stored row or page, and the reservation of its bytes if they are many; `known`: it is known to have so many.
async fn read_reserved<T, F: Future<Output = Result<Option<T>, StoreError>>>(
    app: &AppState,
    requester: &Requester,
    known: Option<u64>,
    read: impl Fn(u64) -> F,
) -> Result<Option<(T, Option<Permit>)>, ApiError> {
    let (mut max_bytes, mut reserved) = match known {
        Some(bytes) => (bytes, Some(acquire(app, requester, bytes).await?)),
        None => (MAX_UNRESERVED_BYTES, None),
    };
    loop {
        match read(max_bytes).await {
            // Should the row have grown meanwhile: releases the smaller reservation before waiting for the larger one.
            Err(StoreError::TooLarge { bytes }) if bytes > max_bytes => {
                drop(reserved.take());
                reserved = Some(acquire(app, requester, bytes).await?);
                max_bytes = bytes;
            }
            found => return Ok(found?.map(|found| (found, reserved))),
        }
    }
}

/// The budget for the bytes of one stream.
#[derive(Clone)]
pub(super) struct ResponseBudget {
    app: AppState,
    requester: Requester,
}

impl ResponseBudget {
    pub(super) fn new(app: &AppState, requester: Requester) -> Self {
        Self { app: app.clone(), requester }
    }

    /// Reserves this many bytes; waits while there is no room.
    pub(super) async fn acquire(self, bytes: usize) -> Result<Permit, ErrorResponse> {
        Ok(self.reserve(bytes as u64).await?)
    }

    /// The same, for what is no response yet.
    pub(super) async fn reserve(self, bytes: u64) -> Result<Permit, ApiError> {
        acquire(&self.app, &self.requester, bytes).await
    }
}

/// Bytes that hold their reservation: the connection still buffers unsent bytes after the body has ended.
pub(super) fn bytes_with_permit(bytes: Bytes, permit: Arc<Permit>) -> Bytes {
    holding(bytes, permit)
}

async fn acquire(app: &AppState, requester: &Requester, bytes: u64) -> Result<Permit, ApiError> {
    app.services.admission.response_bodies.acquire(requester, bytes).await
}

fn response_with_permit(mut response: Response, permit: Permit) -> Response {
    response.extensions_mut().insert(IsReserved);
    let permit = Arc::new(permit);
    response.map(|body| Body::new(ReservedBody { body, permit }))
}

/// A body whose bytes are reserved.
struct ReservedBody {
    body: Body,
    permit: Arc<Permit>,
}

impl HttpBody for ReservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let with_permit = |bytes| bytes_with_permit(bytes, Arc::clone(&self.permit));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(with_permit))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
