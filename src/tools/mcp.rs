//! Tools of servers that speak the Model Context Protocol.
//!
//! `connection` is what the rest of the gateway knows of a server: it lists tools and runs calls. The SDK and the
//! transports are behind it, in `client`. `credentials` says who the gateway is to a server, `pool` keeps
//! connections apart by server, credential and tenant, and open between calls. `schema` makes of a tool's schema what
//! providers take, `content` of a result what the model reads.

pub mod connection;
pub mod content;
pub mod credentials;
pub mod error;
pub mod schema;

pub use connection::{
    CallMeta, Connection, Connector, Endpoint, HttpKind, Place, RemoteCall, RemoteContent, RemoteHints,
    RemoteResult, RemoteTool, RemoteTools, ServerInfo, StdioCommand,
};
pub use credentials::{BadHeader, CredentialSource, Credentials, Fingerprint};
pub use error::McpError;
