//! Tools of servers that speak the Model Context Protocol.
//!
//! `connection` is what the rest of the gateway knows of a server: it lists tools and runs calls. The SDK and the
//! transports are behind it, in `client`; `sampler` is what servers may ask of the model. `credentials` says who the
//! gateway is to a server, `pool` keeps connections apart by server, credential and tenant, and open between calls.

mod binding;
mod budget;
pub mod client;
mod configured;
pub mod connection;
pub mod content;
mod context;
pub mod credentials;
pub mod error;
mod lists;
mod pool;
mod recovery;
mod routes;
pub mod sampler;
pub mod schema;
pub mod servers;
mod session;
mod source;
pub mod status;
mod toolset;
mod trouble;

pub use binding::{Binding, Decision, Found, RequestRules};
pub use client::{Client, ClientOptions};
pub use connection::{
    Audience, CallMeta, Connection, Connector, Endpoint, HttpKind, Place, RemoteCall, RemoteContent,
    RemoteHints, RemotePart, RemoteResult, RemoteTool, RemoteTools, ServerInfo, StdioCommand,
};
pub use context::{CallerContext, OnBehalfOf};
pub use credentials::{BadHeader, CredentialSource, Credentials, Fingerprint};
pub use error::McpError;
pub use pool::Pool as SessionPool;
pub use routes::CallerCatalog;
pub use sampler::{SampleAnswer, SampleContent, SampleMessage, SampleRequest, Sampler};
pub use servers::{BindError, McpParts, McpServers, Wanting};
pub use session::Freshness;
pub use source::Previous;
pub use status::ServerState;
pub use toolset::{ServedTool, ToolSet, shows_same};
