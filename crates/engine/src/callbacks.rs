//! Callbacks: results of tools whose work has gone on, reported by other programs.

use super::Engine;
use super::callback_token::CallbackToken;
use super::completions::FAILED;
use super::context::unix_now;
use super::inputs::check_output_size;
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

impl Engine {
    /// The call that a callback is for.
    ///
    /// # Errors
    /// 404 if the gateway has not made the token, 410 if it has expired.
    pub fn open_callback(&self, token: &str) -> Result<OpenedCallback, ApiError> {
        let token = CallbackToken::open(&self.parts.seal, token).ok_or_else(callback_not_found)?;
        if token.expires_at <= unix_now() {
            let message = "The callback has expired: the call counts as failed.";
            return Err(ApiError::new(ErrorKind::Gone, message).with_code("callback_expired"));
        }
        Ok(OpenedCallback { key: token.into_key() })
    }

    /// Stores the result of a call. The first one counts.
    ///
    /// # Errors
    /// 404 if the response is gone; 413 if the result is larger than an item may be.
    pub async fn complete_call(
        &self,
        callback: OpenedCallback,
        result: Result<String, String>,
    ) -> Result<(), ApiError> {
        let (output, error) = match result {
            Ok(output) => (output, None),
            Err(message) => (message, Some(FAILED)),
        };
        check_output_size(output.len(), self.parts.options.engine.max_item_bytes)?;
        let timeout = self.parts.options.tools.callback_timeout;
        let result = AsyncResult { key: callback.key, output, error, timeout };
        match self.parts.store.complete_async(result).await? {
            AsyncOutcome::Stored | AsyncOutcome::Repeated => self.parts.in_flight.result_reported(),
            AsyncOutcome::NotFound => return Err(callback_not_found()),
        }
        Ok(())
    }
}

fn callback_not_found() -> ApiError {
    ApiError::not_found("There is no such callback.").with_code("callback_not_found")
}
