//! Tools that the gateway runs itself: the contract, the registry, and the stack around every call.
//!
//! [`ToolExecutor`] is what runs tools, [`Tool`] the short form for a single one. [`Toolbox`] holds them all and
//! gives out [`Catalog`]s, whose tools are called through the layers of `stack`. Executors know nothing of
//! timeouts, caches or policy. Floor 3: knows nothing of the engine or the store; what it needs of them
//! ([`Journal`]) it defines as a trait.

mod assemble;
mod audit;
pub mod builtin;
mod call;
mod canonical;
mod catalog;
mod chance;
mod context;
mod definition;
mod error;
mod executor;
mod journal;
mod kept;
mod layers;
pub mod mcp;
mod mock;
mod naming;
mod output;
mod plan;
mod policy;
mod read_output;
mod results;
mod router;
mod routes;
mod stack;
mod toolbox;
mod verbatim;

pub use call::{Arguments, CallKey, ToolCall};
pub use canonical::{canonical, canonical_arguments};
pub use catalog::{Catalog, RegisteredTool};
pub use context::{Budget, CacheUse, ToolContext};
pub use definition::{Annotations, ToolDefinition, ToolKind};
pub use error::{Challenge, Code, Fault, Remote, ToolError};
pub use executor::{Health, Local, Progress, Tool, ToolExecutor};
pub use journal::Journal;
pub use mock::{Mock, MockError};
pub use naming::wire_name;
pub use output::{Citation, Outcome, OutputMeta, ToolOutput};
pub use policy::{BadPattern, Subject};
pub use toolbox::{Toolbox, ToolboxError};

#[cfg(test)]
mod tests;
