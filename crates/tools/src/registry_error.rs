//! Why the configured tools cannot be set up.

use super::error::ToolError;
use super::policy::InvalidPattern;

/// Why the configured tools cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ToolRegistryError {
    /// An executor failed to initialize.
    #[error("tools of '{executor}': {problem}")]
    Initialize {
        /// Id of the executor.
        executor: String,
        /// Why.
        problem: ToolError,
    },
    /// Two executors have a tool of the same name.
    #[error("'{first}' and '{second}' both have a tool named '{tool}'; see tools.collision and tools.routes")]
    Collision {
        /// Name of the tool.
        tool: String,
        /// Id of the first executor.
        first: String,
        /// Id of the second executor.
        second: String,
    },
    /// A route that can never be used.
    #[error("{key}: {problem}")]
    Route {
        /// Key of the setting.
        key: String,
        /// Why.
        problem: String,
    },
    /// A list of tools has an invalid glob pattern.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
}
