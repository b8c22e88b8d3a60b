//! The interface to an MCP server: endpoint, tool listing and calls. Independent of the SDK.

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
use super::task::{RemoteTask, TaskSupport};
use antwort_net::egress::Egress;
use antwort_protocol::elicitation::{ElicitationAnswer, ElicitationModes};
use antwort_protocol::item::hosted::McpListedTool;
use antwort_protocol::json::RawJson;
use antwort_protocol::parse::truncate_for_display;
use antwort_tools::{Arguments, Asker, CallbackAddress, GivenInput, Progress, RequiredInput, canonical_json};

/// Beyond the time of a program's start.
const START_GRACE: Duration = Duration::from_secs(5);

/// The endpoint of a server.
#[derive(Clone)]
pub struct Endpoint {
    /// Name in logs and metrics: the label, or the host of a server that a request brought.
    pub name: Arc<str>,
    /// Address of the server.
    pub address: ServerAddress,
    /// Whether the server is configured by the operator rather than brought by a request.
    pub is_configured: bool,
    /// Whether the server may request sampling.
    pub may_sample: bool,
    /// The questions to the user that the clients of its callers show.
    pub shows: ElicitationModes,
}

impl Endpoint {
    /// For how long a connection is waited for, if one over HTTP may take this long. A program watches its own time, and
    /// says more of what was late.
    pub(super) fn connect_timeout(&self, over_http: Duration) -> Duration {
        match &self.address {
            ServerAddress::Http { .. } => over_http,
            ServerAddress::Stdio(command) => command.start_timeout.saturating_add(START_GRACE),
        }
    }
}

/// The address of a server.
#[derive(Clone)]
pub enum ServerAddress {
    /// An HTTP server.
    Http {
        /// The URL.
        url: Url,
        /// Transport.
        kind: HttpKind,
        /// Egress policy and HTTP client.
        egress: Arc<Egress>,
    },
    /// A child process (stdio).
    Stdio(Arc<StdioCommand>),
}

/// The transport of an HTTP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HttpKind {
    /// Streamable HTTP, falling back to HTTP with SSE.
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with SSE.
    Sse,
    /// Single JSON-RPC requests to `{url}/rpc`.
    JsonRpc,
}

/// The command of a stdio server.
#[derive(Debug, Clone)]
pub struct StdioCommand {
    /// Executable.
    pub program: String,
    /// Arguments.
    pub args: Vec<String>,
    /// The complete environment, except that `PATH` and `HOME` are inherited unless given here.
    pub env: BTreeMap<String, SecretString>,
    /// Working directory; `None`: that of the gateway.
    pub cwd: Option<PathBuf>,
    /// Time in which it has to be ready: started and initialized.
    pub start_timeout: Duration,
}

/// Creates connections.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Connects and initializes the session.
    async fn connect(
        &self,
        endpoint: &Endpoint,
        credentials: Arc<dyn Credentials>,
    ) -> Result<Arc<dyn Connection>, McpError>;
}

/// A connection to a server, usable by concurrent calls. Dropping it closes it.
#[async_trait]
pub trait Connection: Send + Sync {
    /// Identification of the server.
    fn server(&self) -> &ServerInfo;

    /// Lists the tools: all pages, up to the page on which there are more than `max`.
    async fn list_tools(&self, max: usize, context: Option<&CallerContext>) -> Result<RemoteTools, McpError>;

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    async fn call_tool(&self, call: RemoteCall<'_>, progress: &Progress) -> Result<RemoteResult, McpError>;

    /// How far a task is.
    async fn task_state(&self, look: TaskLook<'_>) -> Result<TaskState, McpError>;

    /// Tells the server that a task is not needed any more, without waiting.
    fn cancel_task(&self, task: &RemoteTask);

    /// Incremented when the server announces a changed tool list (`notifications/tools/list_changed`).
    fn tools_version(&self) -> u64;

    /// Whether the connection is unusable: the process has ended, or the stream cannot be resumed.
    fn is_closed(&self) -> bool;

    /// Whether the server reported the session as unknown. Requests in flight continue.
    fn is_lost(&self) -> bool {
        false
    }

    /// Why the gateway closed the connection, if the server flooded it with unsolicited messages.
    fn why_given_up(&self) -> Option<String> {
        None
    }

    /// Whether the server has sessions, which it may lose.
    fn has_sessions(&self) -> bool {
        true
    }

    /// Closes gracefully: deletes the session, or gives the process time to exit.
    async fn close(&self);
}

/// Identification of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Name of the server.
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Protocol version, such as `2025-06-18`.
    pub protocol: String,
    /// `stdio`, `streamable_http`, `sse` or `json_rpc`.
    pub transport: &'static str,
}

/// The tools of a server.
#[derive(Debug, Clone, Default)]
pub struct RemoteTools {
    /// Valid tools, in the server's order.
    pub tools: Vec<RemoteTool>,
    /// Invalid tools: name, if any, and reason.
    pub unreadable: Vec<(String, String)>,
    /// How long the list is valid according to the server.
    pub ttl: Option<Duration>,
}

/// Maximum number of invalid tools that are recorded: a server may list any number of them.
const MAX_UNREADABLE: usize = 256;

impl RemoteTools {
    /// Records an invalid tool, up to `MAX_UNREADABLE`.
    pub(crate) fn push_unreadable(&mut self, name: &str, why: String) {
        if self.unreadable.len() < MAX_UNREADABLE {
            self.unreadable.push((truncate_for_display(name).into_owned(), why));
        }
    }

    /// Whether another list describes the same tools.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(|(one, other)| one.is_equivalent(other))
            && self.unreadable == other.unreadable
    }
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteTool {
    /// As shown in lists: name (any text), description, schema of the arguments, and annotations as sent.
    pub listed: Arc<McpListedTool>,
    /// Display name.
    pub title: Option<String>,
    /// JSON Schema of structured results.
    pub output_schema: Option<RawJson>,
    /// Hints about side effects.
    pub hints: RemoteHints,
    /// Whether calls of it can be tasks, in version 2025-11-25.
    pub(crate) task_support: TaskSupport,
}

impl RemoteTool {
    /// Whether another tool is the same, ignoring whitespace and key order in schemas.
    fn is_equivalent(&self, other: &Self) -> bool {
        self == other
            || self.title == other.title
                && self.hints == other.hints
                && self.task_support == other.task_support
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

/// A server's annotations of a tool; `None` if absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by the protocol")]
pub struct RemoteHints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// A `tools/call` request.
#[derive(Debug, Clone, Copy)]
pub struct RemoteCall<'a> {
    /// Name of the tool on the server.
    pub name: &'a str,
    /// Arguments.
    pub arguments: &'a Arguments,
    /// The arguments as text on one line, if `arguments` would round a number; sent instead of it.
    pub(crate) exact_arguments: Option<&'a RawValue>,
    /// `_meta` of the request.
    pub meta: CallMeta<'a>,
    /// Idle timeout: maximum time without response or progress.
    pub idle: Duration,
    /// Asks the user for the server; `None`: nobody can be asked.
    pub asker: Option<&'a Asker>,
    /// The answers to the questions with which the call has ended before.
    pub input: Option<&'a GivenInput>,
    /// If the call becomes a task: whether it returns at once, and within which time the result is fetched later. `None`: it
    /// waits for the result.
    pub(crate) detach: Option<Duration>,
    /// Whether it is asked for as a task, in version 2025-11-25. In the extension the server decides.
    pub(crate) asks_for_task: bool,
}

/// `_meta` of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallMeta<'a> {
    /// `antwort/idempotency-key`: the same for all attempts of one call.
    pub idempotency_key: Option<&'a str>,
    /// `traceparent`: the trace to continue.
    pub traceparent: Option<&'a str>,
    /// `antwort/context`: the caller.
    pub context: Option<&'a CallerContext>,
    /// `antwort/callback`: where the result is reported if the work goes on after the answer.
    pub callback: Option<&'a CallbackAddress>,
}

/// A look at a task.
pub struct TaskLook<'a> {
    /// The task.
    pub task: &'a RemoteTask,
    /// For how long the server may be silent.
    pub idle: Duration,
    /// The caller, as in the call.
    pub context: Option<&'a CallerContext>,
    /// Asks the user for the server.
    pub asker: Option<&'a Asker>,
    /// Takes the progress of the task.
    pub progress: &'a Progress,
    /// The answers to its questions so far, by the server's keys.
    pub answered: &'a mut BTreeMap<String, TaskAnswer>,
}

/// An answer to a question of a task.
#[derive(Debug, Clone)]
pub struct TaskAnswer {
    /// The answer.
    pub answer: ElicitationAnswer,
    /// Whether the server was told of it.
    pub is_told: bool,
}

/// How far a task is. An error in place of it says nothing of the task.
#[derive(Debug)]
pub enum TaskState {
    /// It goes on; look again after this time.
    Working(Duration),
    /// It has a result.
    Done(Box<RemoteResult>),
    /// It has ended without one.
    Failed(McpError),
    /// It cannot go on, as the gateway does not do what it needs; it is to be cancelled.
    Stuck(McpError),
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteResult {
    /// Content parts, in the server's order.
    pub content: Vec<RemotePart>,
    /// Structured content.
    pub structured: Option<Value>,
    /// `structured` as text, if it rounds a number.
    pub(crate) exact_structured: Option<String>,
    /// Whether the tool reported an error.
    pub is_error: bool,
    /// `antwort/async` of its `_meta`: the work goes on, and its result is reported to the callback.
    pub is_async: bool,
    /// The call is to be repeated with the user's answers to these questions; there is no content then.
    pub requires_input: Option<Box<RequiredInput>>,
    /// The call goes on as a task.
    pub task: Option<Box<RemoteTask>>,
}

/// A content part and its audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotePart {
    /// The content.
    pub content: RemoteContent,
    /// The audience.
    pub audience: ContentAudience,
}

impl From<RemoteContent> for RemotePart {
    fn from(content: RemoteContent) -> Self {
        Self { content, audience: ContentAudience::Everybody }
    }
}

/// The audience of a content part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentAudience {
    /// Model and user; the default.
    #[default]
    Everybody,
    /// User only.
    User,
    /// Model only.
    Model,
}

/// A content part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteContent {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// MIME type, such as `image/png`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// A sound recording.
    Audio {
        /// MIME type, such as `audio/wav`.
        mime_type: String,
        /// Base64.
        data: String,
    },
    /// An embedded text file.
    TextResource {
        /// URI of the file.
        uri: String,
        /// MIME type.
        mime_type: Option<String>,
        /// Content.
        text: String,
    },
    /// An embedded binary file.
    BlobResource {
        /// URI of the file.
        uri: String,
        /// MIME type.
        mime_type: Option<String>,
        /// Base64.
        data: String,
    },
    /// A link to a file.
    ResourceLink {
        /// URI of the file.
        uri: String,
        /// URI of the file.
        name: String,
        /// Description of the file.
        description: Option<String>,
    },
    /// An unknown content type.
    Unknown(String),
}
