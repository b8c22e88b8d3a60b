//! Tools that the gateway runs itself: the contract, the registry, and the stack around every call.
//!
//! [`ToolExecutor`] is what runs tools, [`Tool`] the short form for a single one. Executors know nothing of
//! timeouts, caches or policy: those are layers. Floor 3: knows nothing of the engine or the store; what it
//! needs of them ([`Journal`]) it defines as a trait.

pub mod builtin;
mod call;
mod context;
mod definition;
mod error;
mod executor;
mod journal;
mod output;

pub use call::{Arguments, CallKey, ToolCall};
pub use context::{Budget, CacheUse, ToolContext};
pub use definition::{Annotations, ToolDefinition, ToolKind};
pub use error::{Code, Fault, ToolError};
pub use executor::{Health, Local, Progress, Tool, ToolExecutor};
pub use journal::Journal;
pub use output::{Citation, Outcome, OutputMeta, ToolOutput};
