//! Work of a tool that goes on when its call has returned: where its result is reported.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::call_key::CallKey;
use super::error::ToolError;
use super::output::ToolOutput;

/// Where a tool reports the result of work that it has started, once. Clones are the same.
#[derive(Clone)]
pub struct Callback {
    key: CallKey,
    to: Arc<dyn Completions>,
}

/// Where another program reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackAddress {
    /// Takes a POST of `{"output": …}` or `{"error": …}`, without a key.
    pub url: String,
    /// In Unix seconds. After that the call has failed.
    pub expires_at: i64,
}

/// Takes the results of work that goes on; implemented by the engine.
#[async_trait]
pub trait Completions: Send + Sync {
    /// Where other programs report the result of a call; `None` if the gateway has no public URL.
    fn address(&self, key: &CallKey) -> Option<CallbackAddress>;

    /// For how long results are waited for.
    fn timeout(&self) -> Duration;

    /// Stores the result of a call. False if there was one before, which counts.
    async fn complete(&self, key: &CallKey, result: Result<ToolOutput, ToolError>)
    -> Result<bool, ToolError>;
}

impl Callback {
    pub(super) fn new(key: CallKey, to: Arc<dyn Completions>) -> Self {
        Self { key, to }
    }

    /// For how long the result is waited for.
    pub fn timeout(&self) -> Duration {
        self.to.timeout()
    }

    /// Where another program reports the result; `None` if the gateway has no public URL.
    pub fn address(&self) -> Option<CallbackAddress> {
        self.to.address(&self.key)
    }

    /// Reports the result. Returns whether it is the first report, which counts.
    ///
    /// # Errors
    /// If it could not be stored: it can be reported again.
    pub async fn complete(&self, result: Result<ToolOutput, ToolError>) -> Result<bool, ToolError> {
        self.to.complete(&self.key, result).await
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("key", &self.key).finish_non_exhaustive()
    }
}
