//! Tools that the gateway runs itself: the contract, the registry, and the stack around every call.
//!
//! A [`ToolExecutor`] runs tools; [`Tool`] is the short form for a single one. [`ToolRegistry`] owns the executors and
//! publishes [`Catalog`]s, whose tools are called through the middleware of `stack`: executors need not care about
//! timeouts, caches or policy. It does not depend on the engine or the store; what it needs from them
//! ([`Journal`]) is a trait defined here.

mod audit;
pub mod builtin;
mod call;
mod call_key;
mod callback;
mod canonical;
pub mod catalog;
pub mod catalog_builder;
mod circuit;
mod context;
pub mod definition;
mod error;
mod executor;
mod executor_stack;
pub mod executor_state;
mod journal;
mod kept_results;
mod layers;
mod mock;
mod naming;
mod output;
mod pause;
pub mod plan;
mod policy;
mod question;
mod read_output;
mod registry;
mod registry_error;
mod result_store;
mod route_check;
pub mod router;
pub mod stack;
mod ttl_cache;
pub mod verbatim;

pub use antwort_protocol::item::hosted::ResultFile;
pub use audit::{RefusedCallAudit, RefusedFollowUp, audit_refused_call, audit_refused_follow_up};
pub use call::{Arguments, ToolCall};
pub use call_key::CallKey;
pub use callback::{Callback, CallbackAddress, Completions};
pub use canonical::{arguments_read_again, canonical_arguments, canonical_json, is_same_arguments};
pub use catalog::{Catalog, RegisteredTool};
pub use context::{CacheMode, CallBudget, ToolContext};
pub use definition::{Annotations, ToolDefinition, ToolKind};
pub use error::{AuthChallenge, FailureStage, RemoteFailure, ToolError, ToolErrorCode};
pub use executor::{ExecutorHealth, LocalExecutor, Progress, Tool, ToolExecutor};
pub use journal::Journal;
pub use layers::shorten;
pub use mock::{MockError, MockExecutor};
pub use naming::wire_name;
pub use output::{Citation, OutputMeta, StartedTask, ToolOutcome, ToolOutput};
pub use pause::{Pause, PauseClock};
pub use policy::{InvalidPattern, PolicySubject};
pub use question::{AskedQuestion, Asker, GivenInput, RequiredInput};
pub use registry::ToolRegistry;
pub use registry_error::ToolRegistryError;

#[cfg(test)]
mod tests;
