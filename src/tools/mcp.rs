//! Tools of servers that speak the Model Context Protocol.
//!
//! `connection` is what the rest of the gateway knows of a server: it lists tools and runs calls. The SDK and the
//! transports are behind it, in `client`; `sampler` is what servers may ask of the model. `credentials` says who the
//! gateway is to a server, `pool` keeps connections apart by server, credential and tenant, and open between calls.

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
