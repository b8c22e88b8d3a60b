//! The journal of tool calls, as the tools need it; implemented by the engine on top of the store.

use async_trait::async_trait;

use super::call_key::CallKey;
use super::error::ToolError;
use super::output::ToolOutput;

/// Records dispatched calls and their outcomes, so that no call is repeated after a crash.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Returns once the dispatch of this call is committed.
    async fn dispatching(&self, key: &CallKey) -> Result<(), ToolError>;

    /// Records the outcome without waiting for the commit; until then the outcome counts as unknown.
    fn completed(&self, key: &CallKey, outcome: &Result<ToolOutput, ToolError>);
}
