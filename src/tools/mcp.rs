//! Tools of MCP (Model Context Protocol) servers.
//!
//! `connection` is the trait through which the gateway lists and calls a server's tools. The SDK and the transports are
//! behind it, in `client`. `credentials` authenticates the gateway, `pool` keeps sessions open between calls, separate
//! by server, credentials and tenant. `sampler` serves servers that ask for the model (`sampling/createMessage`).

mod backoff;
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
mod toolset;

pub use client::{Client, ClientOptions};
pub(crate) use connection::{Connector, RemoteHints};
pub(crate) use context::OnBehalfOf;
pub(crate) use error::McpError;
pub(crate) use routes::CallerCatalog;
pub(crate) use sampler::{SampleAnswer, SampleContent, SampleMessage, SampleRequest, Sampler};
pub(crate) use server_handle::{CallDecision, RequestRules, ResolvedServer, ServerHandle};
pub(crate) use servers::{BindError, McpCaller, McpDependencies, McpServers};
pub(crate) use session::Freshness;
pub(crate) use source::PreviousServers;
pub(crate) use status::ServerStatus;
pub(crate) use toolset::{ServedTool, ServerToolSet, is_same_listing};
