//! Tools of servers that speak the Model Context Protocol.
//!
//! `connection` is what the rest of the gateway knows of a server: it lists tools and runs calls. The SDK and the
//! transports are behind it, in `client`; `sampler` is what servers may ask of the model. `credentials` says who the
//! gateway is to a server, `pool` keeps connections apart by server, credential and tenant, and open between calls.

mod backoff;
pub mod client;
mod configured;
pub mod connection;
pub mod content;
mod context;
pub mod credentials;
pub mod error;
mod list_budget;
mod list_cache;
mod pool;
mod recovery;
mod routes;
pub mod sampler;
pub mod schema;
mod server_handle;
pub mod servers;
mod session;
mod source;
pub mod status;
mod toolset;

pub use client::{Client, ClientOptions};
pub use connection::{
    CallMeta, Connection, Connector, ContentAudience, Endpoint, HttpKind, RemoteCall, RemoteContent,
    RemoteHints, RemotePart, RemoteResult, RemoteTool, RemoteTools, ServerAddress, ServerInfo, StdioCommand,
};
pub use context::{CallerContext, OnBehalfOf};
pub use credentials::{CredentialSource, Credentials, Fingerprint, InvalidHeader};
pub use error::McpError;
pub use pool::Pool as SessionPool;
pub use routes::CallerCatalog;
pub use sampler::{SampleAnswer, SampleContent, SampleMessage, SampleRequest, Sampler};
pub use server_handle::{CallDecision, RequestRules, ResolvedServer, ServerHandle};
pub use servers::{BindError, McpCaller, McpDependencies, McpServers};
pub use session::Freshness;
pub use source::PreviousServers;
pub use status::ServerStatus;
pub use toolset::{ServedTool, ServerToolSet, is_same_listing};
