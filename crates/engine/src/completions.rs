//! What a run gives to tools whose work goes on after their calls: the addresses of callbacks, and who takes results in this
//! process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::callback_token::CallbackToken;
use super::context::{EngineParts, unix_after};
use super::in_flight::InFlight;
use antwort_identity::Owner;
use antwort_response::seal::SealKeys;
use antwort_store::{AsyncCallKey, AsyncOutcome, AsyncResult, Store};
use antwort_tools::{CallKey, CallbackAddress, Completions, ToolError, ToolErrorCode, ToolOutput};

/// The code of work that has failed.
pub(super) const FAILED: &str = "tool_execution_failed";

/// Takes the results of one run.
pub(super) struct RunCompletions {
    owner: Owner,
    store: Arc<dyn Store>,
    seal: Arc<SealKeys>,
    in_flight: Arc<InFlight>,
    public_url: Option<Arc<str>>,
    timeout: Duration,
}

impl RunCompletions {
    pub(super) fn new(parts: &EngineParts, owner: &Owner) -> Arc<Self> {
        Arc::new(Self {
            owner: owner.clone(),
            store: Arc::clone(&parts.store),
            seal: Arc::clone(&parts.seal),
            in_flight: Arc::clone(&parts.in_flight),
            public_url: parts.options.public_url.clone(),
            timeout: parts.options.tools.callback_timeout,
        })
    }

    fn key(&self, call: &CallKey) -> AsyncCallKey {
        AsyncCallKey {
            owner: self.owner.clone(),
            response: call.response.clone(),
            turn: call.turn,
            index: call.index,
        }
    }
}

#[async_trait]
impl Completions for RunCompletions {
    fn address(&self, call: &CallKey) -> Option<CallbackAddress> {
        let url = self.public_url.as_deref()?;
        let expires_at = unix_after(self.timeout);
        let token = CallbackToken::new(&self.key(call), expires_at).seal(&self.seal)?;
        let url = format!("{}/v1/tool_callbacks/{token}", url.trim_end_matches('/'));
        Some(CallbackAddress { url, expires_at })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn complete(
        &self,
        call: &CallKey,
        result: Result<ToolOutput, ToolError>,
    ) -> Result<bool, ToolError> {
        let (output, error) = match result {
            Ok(output) => {
                let error = output.is_error.then_some(FAILED);
                (output.into_text(), error)
            }
            Err(error) => (error.message, Some(error.code.as_str())),
        };
        let result = AsyncResult { key: self.key(call), output, error, timeout: self.timeout };
        let stored = self.store.complete_async(result).await;
        let stored =
            stored.map_err(|error| ToolError::fatal(ToolErrorCode::StorageError, error.to_string()))?;
        self.in_flight.result_reported();
        Ok(stored == AsyncOutcome::Stored)
    }
}
