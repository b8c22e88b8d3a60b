//! Tools of MCP (Model Context Protocol) servers. Floor 3: uses the contract and the layers of `tools`, which know nothing of
//! MCP.
//!
//! `connection` is the trait through which the gateway lists and calls a server's tools. The SDK and the transports are
//! behind it, in `client`. `credentials` authenticates the gateway, `pool` keeps sessions open between calls, separate
//! by server, credentials and tenant. `sampler` serves servers that ask for the model (`sampling/createMessage`).

mod backoff;
mod caller_catalog;
pub(crate) mod client;
mod configured;
pub(crate) mod connection;
pub(crate) mod content;
mod context;
pub(crate) mod credentials;
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
pub(crate) mod task;
mod tool_builder;
mod tool_config;
mod tool_sets;

pub(crate) use caller_catalog::CallerCatalog;
pub use client::{Client, ClientOptions};
pub(crate) use connection::{Connector, RemoteHints};
pub(crate) use context::OnBehalfOf;
pub(crate) use error::McpError;
pub(crate) use sampler::{SampleAnswer, SampleContent, SampleMessage, SampleRequest, Sampler};
pub(crate) use server_handle::{CallDecision, RequestRules, ResolvedServer, ServerHandle, TaskOutput};
pub(crate) use servers::{BindError, McpCaller, McpDependencies, McpServers, PreviousServers, bearer};
pub(crate) use session::Freshness;
pub(crate) use status::ServerStatus;
pub(crate) use tool_builder::is_same_listing;
pub(crate) use tool_sets::{ServedTool, ServerToolSet};
