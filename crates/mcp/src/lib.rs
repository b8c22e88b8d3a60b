//! Tools of MCP (Model Context Protocol) servers. It uses the contract and the layers of `tools`, which know nothing of
//! MCP.
//!
//! `connection` is the trait through which the gateway lists and calls a server's tools. The SDK and the transports are
//! behind it, in `client`. `credentials` authenticates the gateway, `pool` keeps sessions open between calls, separate
//! by server, credentials and tenant. `sampler` serves servers that ask for the model (`sampling/createMessage`).

mod backoff;
mod caller_catalog;
pub mod client;
mod configured;
pub mod connection;
pub(crate) mod content;
mod context;
pub mod credentials;
pub(crate) mod error;
mod list_budget;
mod list_cache;
mod pool;
mod recovery;
mod routes;
pub(crate) mod sampler;
pub(crate) mod schema;
mod server_handle;
pub(crate) mod servers;
mod session;
mod source;
pub(crate) mod status;
pub mod task;
mod tool_builder;
mod tool_config;
mod tool_sets;

pub use caller_catalog::CallerCatalog;
pub use client::{Client, ClientOptions};
pub use connection::{Connector, RemoteHints};
pub use context::OnBehalfOf;
pub use error::McpError;
pub use sampler::{SampleAnswer, SampleContent, SampleMessage, SampleRequest, Sampler};
pub use server_handle::{CallDecision, RequestRules, ResolvedServer, ServerHandle, TaskOutput};
pub use servers::{BindError, McpCaller, McpDependencies, McpServers, PreviousServers, bearer};
pub use session::Freshness;
pub use status::ServerStatus;
pub use tool_builder::is_same_listing;
pub use tool_sets::{ServedTool, ServerToolSet};
