//! Callbacks: results of tools whose work has gone on, reported by other programs.

use super::callback_token::CallbackToken;
use super::completions::FAILED;
use super::context::unix_now;
use super::inputs::check_output_size;
use crate::context::EngineParts;
use antwort_identity::Owner;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_store::{AsyncCallKey, AsyncOutcome, AsyncResult};

/// A callback that may report the result of its call.
pub struct OpenedCallback {
    key: AsyncCallKey,
}

impl OpenedCallback {
    /// Whose call it is.
    pub fn owner(&self) -> &Owner {
        &self.key.owner
    }
}

/// [`Engine::open_callback`](crate::Engine::open_callback).
pub(crate) fn open_callback(parts: &EngineParts, token: &str) -> Result<OpenedCallback, ApiError> {
    let token = CallbackToken::open(&parts.seal, token).ok_or_else(callback_not_found)?;
    if token.expires_at <= unix_now() {
        let message = "The callback has expired: the call counts as failed.";
        return Err(ApiError::new(ErrorKind::Gone, message).with_code("callback_expired"));
    }
    Ok(OpenedCallback { key: token.into_key() })
}

/// [`Engine::complete_call`](crate::Engine::complete_call).
pub(crate) async fn complete_call(
    parts: &EngineParts,
    callback: OpenedCallback,
    result: Result<String, String>,
) -> Result<(), ApiError> {
    let (output, error) = match result {
        Ok(output) => (output, None),
        Err(message) => (message, Some(FAILED)),
    };
    check_output_size(output.len(), parts.options.engine.max_item_bytes)?;
    let timeout = parts.options.tools.callback_timeout;
    let result = AsyncResult { key: callback.key, output, error, timeout };
    match parts.store.complete_async(result).await? {
        AsyncOutcome::Stored | AsyncOutcome::Repeated => parts.in_flight.result_reported(),
        AsyncOutcome::NotFound => return Err(callback_not_found()),
    }
    Ok(())
}

fn callback_not_found() -> ApiError {
    ApiError::not_found("There is no such callback.").with_code("callback_not_found")
}
