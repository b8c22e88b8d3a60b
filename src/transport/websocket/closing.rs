//! Why connections end, and what clients are told.

use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::envelope::error_message;
use antwort_protocol::error::{ApiError, ErrorKind};

/// Why a connection is closed.
pub(super) struct Closing {
    pub code: CloseCode,
    pub reason: &'static str,
    /// Sent before the close frame.
    pub message: Option<String>,
}

impl Closing {
    pub(super) fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code, reason, message: None }
    }
}

/// How a connection ends.
pub(super) enum End {
    /// The gateway closes it.
    Close(Closing),
    /// The client has closed it, or it is broken.
    Gone,
}

/// What a failed read means for the connection.
pub(super) fn read_error(error: &Error) -> End {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => {
            let error = ApiError::new(
                ErrorKind::RequestTooLarge,
                "The message is larger than the limit (server.websocket.max_frame_bytes).",
            );
            let message = Some(error_message(&error, None));
            End::Close(Closing { message, ..Closing::new(CloseCode::Size, "the message is too large") })
        }
        Error::Utf8(_) => End::Close(Closing::new(CloseCode::Invalid, "a text is not UTF-8")),
        Error::Protocol(_) => End::Close(Closing::new(CloseCode::Protocol, "a frame is malformed")),
        // No memory for a large message.
        Error::Io(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
            let error =
                ApiError::new(ErrorKind::Unavailable, "There is no room for the message now. Try again.");
            let message = Some(error_message(&error, None));
            End::Close(Closing { message, ..Closing::new(CloseCode::Again, "no room for the message") })
        }
        _ => End::Gone,
    }
}

/// More requests wait than may.
pub(super) fn too_many() -> Closing {
    let error = ApiError::new(
        ErrorKind::RateLimited,
        "Too many requests wait on this connection (server.websocket.max_queued_turns). Wait for responses, or use \
         several connections.",
    )
    .with_code("websocket_queue_full");
    let message = Some(error_message(&error, None));
    Closing { message, ..Closing::new(CloseCode::Policy, "too many requests wait") }
}

/// The connection has reached its maximum age.
pub(super) fn too_old() -> Closing {
    let error = ApiError::new(
        ErrorKind::InvalidRequest,
        "The connection has reached its maximum age (server.websocket.max_age). Open another one.",
    )
    .with_code("websocket_connection_limit_reached");
    let message = Some(error_message(&error, None));
    Closing { message, ..Closing::new(CloseCode::Away, "the connection is too old") }
}
