//! What the gateway knows of a server: where it is, what it lists, how it is called. Names no SDK.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use secrecy::SecretString;
use serde_json::Value;
use serde_json::value::RawValue;

use super::context::CallerContext;
use super::credentials::Credentials;
use super::error::McpError;
use crate::net::egress::Egress;
use crate::protocol::item::hosted::McpListedTool;
use crate::protocol::json::RawJson;
use crate::protocol::parse::truncate_for_display;
use crate::tools::{Arguments, Progress, canonical_json};

/// Where a server is, and what it takes to speak to it.
#[derive(Clone)]
pub struct Endpoint {
    /// Names it in logs and metrics; of a server that a request brought, its host.
    pub name: Arc<str>,
    /// Where.
    pub address: ServerAddress,
    /// Whether the operator configured it; else a request brought it.
    pub is_configured: bool,
    /// Whether it may use the model, if any server may.
    pub may_sample: bool,
}

/// Where a server is.
#[derive(Clone)]
pub enum ServerAddress {
    /// At a URL.
    Http {
        /// The URL.
        url: Url,
        /// How it is spoken to there.
        kind: HttpKind,
        /// What connections to it are made through.
        egress: Arc<Egress>,
    },
    /// In a process of its own.
    Stdio(Arc<StdioCommand>),
}

/// How a server at a URL is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpKind {
    /// Streamable HTTP, or HTTP with SSE where the server knows only that.
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with SSE.
    Sse,
    /// Single JSON-RPC requests to `{url}/rpc`.
    JsonRpc,
}

/// A program that is a server.
#[derive(Debug, Clone)]
pub struct StdioCommand {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// All its environment but `PATH` and `HOME`, which are the gateway's unless given here.
    pub env: BTreeMap<String, SecretString>,
    /// The folder that it runs in; `None`: the gateway's.
    pub cwd: Option<PathBuf>,
}

/// Makes connections.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Connects and shakes hands.
    async fn connect(
        &self,
        endpoint: &Endpoint,
        credentials: Arc<dyn Credentials>,
    ) -> Result<Arc<dyn Connection>, McpError>;
}

/// A connection to a server. Several calls may be made over it at the same time. Dropping it closes it.
#[async_trait]
pub trait Connection: Send + Sync {
    /// Who answered.
    fn server(&self) -> &ServerInfo;

    /// The tools that it has, all pages of them, up to the page on which there are more than `most`.
    async fn list_tools(&self, most: usize, context: Option<&CallerContext>)
    -> Result<RemoteTools, McpError>;

    /// Runs a call. Dropping the future tells the server that it is cancelled.
    async fn call_tool(&self, call: RemoteCall<'_>, progress: &Progress) -> Result<RemoteResult, McpError>;

    /// Grows whenever the server says that its tools have changed.
    fn tools_version(&self) -> u64;

    /// Whether nothing can be asked any more: the process has ended, the stream is gone for good.
    fn is_closed(&self) -> bool;

    /// Whether the server has said that it knows nothing of the session any more. What is under way goes on.
    fn is_lost(&self) -> bool {
        false
    }

    /// Why the gateway gave the connection up, if it did: the server sent too much that was not asked for.
    fn why_given_up(&self) -> Option<String> {
        None
    }

    /// Whether the server may lose what it was told in the handshake.
    fn has_sessions(&self) -> bool {
        true
    }

    /// Ends it in order: the session is deleted, the process gets the time to end.
    async fn close(&self);
}

/// Who answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The program's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The protocol's version, such as `2025-06-18`.
    pub protocol: String,
    /// How it is spoken to: `stdio`, `streamable_http`, `sse`, `json_rpc`.
    pub transport: &'static str,
}

/// The tools of a server.
#[derive(Debug, Clone, Default)]
pub struct RemoteTools {
    /// Those that could be read, in the server's order.
    pub tools: Vec<RemoteTool>,
    /// Those that could not: their names, as far as they have any, and why.
    pub unreadable: Vec<(String, String)>,
    /// For how long the server says that the list holds.
    pub ttl: Option<Duration>,
}

/// Names of tools that are left out which are kept: servers may list what nobody can read without end.
const MAX_UNREADABLE: usize = 256;

impl RemoteTools {
    /// Keeps a tool out, and why; not more of them than anybody reads.
    pub fn push_unreadable(&mut self, name: &str, why: String) {
        if self.unreadable.len() < MAX_UNREADABLE {
            self.unreadable.push((truncate_for_display(name).into_owned(), why));
        }
    }

    /// Whether another list says the same of the tools.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(|(one, other)| one.is_equivalent(other))
            && self.unreadable == other.unreadable
    }
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    /// As lists show it: its name there, which is any text, its description, the schema of its arguments, and its hints as
    /// sent.
    pub listed: Arc<McpListedTool>,
    /// For people.
    pub title: Option<String>,
    /// JSON Schema of its structured results.
    pub output_schema: Option<RawJson>,
    /// Hints about its effects.
    pub hints: RemoteHints,
}

impl RemoteTool {
    /// Whether another says the same, whatever spaces and orders of keys its schemas were written with.
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
            || self.title == other.title
                && self.hints == other.hints
                && same_json(self.output_schema.as_ref(), other.output_schema.as_ref())
                && self.listed.name == other.listed.name
                && self.listed.description == other.listed.description
                && same_json(Some(&self.listed.input_schema), Some(&other.listed.input_schema))
                && same_json(self.listed.annotations.as_ref(), other.listed.annotations.as_ref())
    }
}

fn same_json(one: Option<&RawJson>, other: Option<&RawJson>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one == other || canonical_json(one.get()) == canonical_json(other.get()),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// A server's hints about a tool; what it does not say is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own names")]
pub struct RemoteHints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// A call of a server's tool.
#[derive(Debug, Clone, Copy)]
pub struct RemoteCall<'a> {
    /// The tool, by its server's name for it.
    pub name: &'a str,
    /// Its arguments.
    pub arguments: &'a Arguments,
    /// The same as text in one line, where `arguments` rounds a number: this is what the server gets.
    pub exact_arguments: Option<&'a RawValue>,
    /// What goes along in `_meta`.
    pub meta: CallMeta<'a>,
    /// How long it may go on without a sign of life.
    pub idle: Duration,
}

/// What goes along with a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallMeta<'a> {
    /// The same for every try of one call, so that a server can tell: `antwort/idempotency-key`.
    pub idempotency_key: Option<&'a str>,
    /// The trace to continue: `traceparent`.
    pub traceparent: Option<&'a str>,
    /// For whom the call is: `antwort/context`.
    pub context: Option<&'a CallerContext>,
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteResult {
    /// In the server's order.
    pub content: Vec<RemotePart>,
    /// The same for programs.
    pub structured: Option<Value>,
    /// `structured` as text, where it rounds a number.
    pub exact_structured: Option<String>,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// A piece of a result, and whom it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePart {
    /// What it is.
    pub content: RemoteContent,
    /// Whom it is for.
    pub audience: ContentAudience,
}

impl From<RemoteContent> for RemotePart {
    fn from(content: RemoteContent) -> Self {
        Self { content, audience: ContentAudience::Everybody }
    }
}

/// Whom a piece of a result is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentAudience {
    /// The model and the user; also where the server says nothing.
    #[default]
    Everybody,
    /// The user alone.
    User,
    /// The model alone.
    Model,
}

/// What a piece of a result is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteContent {
    /// Text.
    Text(String),
    /// A picture, in base64.
    Image {
        /// Such as `image/png`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// A recording, in base64.
    Audio {
        /// Such as `audio/wav`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// A text file that came along.
    TextResource {
        /// What it is called.
        uri: String,
        /// What it is.
        mime_type: Option<String>,
        /// All of it.
        text: String,
    },
    /// Another file that came along, in base64.
    BlobResource {
        /// What it is called.
        uri: String,
        /// What it is.
        mime_type: Option<String>,
        /// Base64.
        data: String,
    },
    /// A file that did not come along.
    ResourceLink {
        /// Where it is.
        uri: String,
        /// What it is called.
        name: String,
        /// What is in it.
        description: Option<String>,
    },
    /// Something that this version knows nothing of: its `type`.
    Unknown(String),
}
