//! What the tools need of whoever keeps the journal: the engine, which has the store.

use async_trait::async_trait;

use super::call::CallKey;
use super::error::ToolError;
use super::output::ToolOutput;

/// Keeps which calls were dispatched and what came of them, so that none is made twice over a crash.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Returns once it is committed that this call is about to be made.
    async fn dispatching(&self, key: &CallKey) -> Result<(), ToolError>;

    /// Keeps what came of it. Not waited for: until it is committed the outcome counts as unknown.
    fn completed(&self, key: &CallKey, outcome: &Result<ToolOutput, ToolError>);
}
