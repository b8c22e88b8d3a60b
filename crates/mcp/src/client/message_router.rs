//! Routes incoming messages: responses to their pending requests; notifications are handled here; initialization and
//! requests of the server go to the SDK. Unsolicited messages are counted first (`unsolicited`).

mod skipped_id;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use reqwest::StatusCode;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use self::skipped_id::{id_at_head, id_at_tail};
use super::elicitation;
use super::log::ServerLog;
use super::notices::{self, sanitize_for_error};
use super::pending::{PendingRequests, ResponseOwner, own_params};
use super::protocol_error::protocol_error;
use super::unsolicited::{AnsweringGuard, FloodVerdict, UnsolicitedLimiter};
use crate::connection::Endpoint;
use crate::error::{FailureReason, McpError};
use antwort_net::sse::Excerpt;
use antwort_protocol::parse::truncate_for_display;
use antwort_telemetry::fields::{CAUSE, KIND, SERVER};

/// Passed to the SDK in place of a result that was delivered to its pending request.
const SDK_EMPTY_RESULT: &str = "{}";
/// Marks tools whose arguments the SDK copies into headers, for which it has to see the list.
const HEADER_MARK: &[u8] = b"\"x-mcp-header\"";
/// Maximum bytes of a request id, which the response repeats.
const MAX_ID_BYTES: usize = 256;
/// Maximum bytes of a server's request, except for sampling.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Bytes of an event beside its message: field names, a name and an id.
const MAX_EVENT_FIELD_BYTES: usize = 1024;
/// Method that replaces an oversized request: the SDK does not know it and rejects the request.
const TOO_LONG: &str = "antwort/request_too_long";

/// The receiving side of a connection, independent of the transport.
#[derive(Debug)]
pub(super) struct MessageRouter {
    /// Name of the server in logs.
    pub server: Arc<str>,
    /// Maximum bytes of one message.
    pub limit: usize,
    /// Requests that wait for a response.
    pub pending: PendingRequests,
    /// Cancelled when the connection is closed.
    pub closed: CancellationToken,
    may_sample: bool,
    unsolicited: UnsolicitedLimiter,
    log: ServerLog,
    close_reason: OnceLock<FailureReason>,
    closed_by_flood: AtomicBool,
    tools_version: AtomicU64,
    is_lost: AtomicBool,
    /// Whether calls can ask for a task, in version 2025-11-25.
    makes_tasks: AtomicBool,
    unknown_version: OnceLock<String>,
}

/// How a message was handled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// A response that was delivered; the SDK gets `result` in its place.
    Answered {
        /// Id of the request.
        id: i64,
        /// JSON.
        result: Cow<'static, str>,
    },
    /// Handled or dropped.
    Handled,
    /// To be passed to the SDK.
    Sdk,
    /// To be replaced by this message for the SDK.
    Replaced(String),
}

/// A JSON-RPC message.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(default, borrow)]
    pub id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub error: Option<&'a RawValue>,
}

/// The relevant part of `notifications/cancelled`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    request_id: RequestId,
}

/// The relevant part of a response to `initialize`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
    /// The SDK does not know `tasks` of version 2025-11-25.
    #[serde(default)]
    capabilities: Value,
}

impl MessageRouter {
    /// A router for a new connection.
    pub(super) fn new(endpoint: &Endpoint, limit: usize, may_sample: bool) -> Arc<Self> {
        let server = Arc::clone(&endpoint.name);
        Arc::new(Self {
            log: ServerLog::for_session(Arc::clone(&server), endpoint.is_configured),
            server,
            limit,
            pending: PendingRequests::default(),
            closed: CancellationToken::new(),
            may_sample,
            unsolicited: UnsolicitedLimiter::new(limit, !endpoint.shows.is_empty()),
            close_reason: OnceLock::new(),
            closed_by_flood: AtomicBool::new(false),
            tools_version: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            makes_tasks: AtomicBool::new(false),
            unknown_version: OnceLock::new(),
        })
    }

    /// Marks the session as lost: requests in flight continue, new ones need another session.
    pub(super) fn mark_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Whether the server has lost the session.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Whether calls can ask for a task, in version 2025-11-25.
    pub(super) fn makes_tasks(&self) -> bool {
        self.makes_tasks.load(Ordering::Acquire)
    }

    /// Number of `notifications/tools/list_changed` so far.
    pub(super) fn tools_version(&self) -> u64 {
        self.tools_version.load(Ordering::Acquire)
    }

    /// Closes the connection with a reason; the first reason counts.
    pub(super) fn close(&self, why: impl Into<FailureReason>) {
        let _first = self.close_reason.set(why.into());
        self.closed.cancel();
    }

    /// Why the connection was closed.
    pub(super) fn why_closed(&self) -> FailureReason {
        let unset = || "the connection was closed before the response".into();
        self.close_reason.get().cloned().unwrap_or_else(unset)
    }

    /// Why the gateway closed the connection, if because of a flood.
    pub(super) fn why_given_up(&self) -> Option<String> {
        self.closed_by_flood.load(Ordering::Acquire).then(|| self.why_closed().message().to_owned())
    }

    /// An error if the connection is closed.
    pub(super) fn check_open(&self) -> Result<(), McpError> {
        if self.closed.is_cancelled() { Err(McpError::Connect(self.why_closed())) } else { Ok(()) }
    }

    /// To be held while a message is sent: a request of the server counts as open until its response has been sent.
    pub(super) fn sending(&self, message: &ClientJsonRpcMessage) -> Option<AnsweringGuard<'_>> {
        match message {
            ClientJsonRpcMessage::Response(answer) => {
                self.pending.take_question(&answer.id);
                Some(self.unsolicited.answering(Some(&answer.id)))
            }
            ClientJsonRpcMessage::Error(error) => {
                error.id.as_ref().map(|id| self.pending.take_question(id));
                Some(self.unsolicited.answering(error.id.as_ref()))
            }
            ClientJsonRpcMessage::Request(_) | ClientJsonRpcMessage::Notification(_) => None,
        }
    }

    /// Counts bytes that belong to no message.
    pub(super) fn count_stray_bytes(&self, bytes: usize) {
        if bytes > 0 {
            self.close_on_flood(self.unsolicited.stray_bytes(bytes));
        }
    }

    /// Bytes of an event that carries a message: its other fields need room as well.
    pub(super) fn max_event_bytes(&self) -> usize {
        self.limit.saturating_add(MAX_EVENT_FIELD_BYTES)
    }

    /// Counts an unsolicited message; `false`: it is to be dropped.
    pub(super) fn count_notification(&self, bytes: usize) -> bool {
        self.close_on_flood(self.unsolicited.notification(bytes))
    }

    /// Counts bytes of an oversized message, unless it may be the response to a pending request.
    pub(super) fn count_skipped(&self, bytes: usize) {
        if self.pending.is_empty() {
            self.count_stray_bytes(bytes);
        }
    }

    /// Whether to handle an unsolicited message; closes the connection on a flood.
    fn close_on_flood(&self, verdict: FloodVerdict) -> bool {
        if let FloodVerdict::GiveUp(why) = verdict
            && !self.closed_by_flood.swap(true, Ordering::AcqRel)
        {
            tracing::warn!(
                target: "antwort::mcp",
                { { SERVER } = &*self.server, { KIND } = "flood", { CAUSE } = why },
                "MCP server floods the connection, closing it"
            );
            self.close(format!("the server sent too many unsolicited messages: {why}"));
        }
        verdict == FloodVerdict::Accept
    }

    /// Parses and handles a message. `request` is the request that it answers if it has no id. A response to `initialize`
    /// with an unsupported protocol version closes the connection.
    pub(super) fn dispatch(&self, bytes: &[u8], request: Option<i64>) -> Result<Dispatch, McpError> {
        if bytes.len() > self.limit {
            return Ok(match self.skip(&Excerpt::from_bytes(bytes), request) {
                Some(id) => Dispatch::Answered { id, result: Cow::Borrowed(SDK_EMPTY_RESULT) },
                None => Dispatch::Handled,
            });
        }
        let envelope: Envelope<'_> = match serde_json::from_slice(bytes) {
            Ok(envelope) => envelope,
            Err(_) if !self.count_notification(bytes.len()) => return Ok(Dispatch::Handled),
            Err(error) => return Err(McpError::Malformed(sanitize_for_error(&error.to_string()))),
        };
        match (&envelope.method, envelope.id) {
            (None, _) => {
                let dispatch = self.dispatch_response(&envelope, request, bytes);
                if dispatch == Dispatch::Sdk {
                    self.read_initialized(envelope.result)?;
                }
                Ok(dispatch)
            }
            (Some(method), Some(id)) => {
                Ok(self.dispatch_request(id, method, (envelope.params, request), bytes.len()))
            }
            (Some(method), None) => Ok(self.dispatch_notification(method, envelope.params, bytes.len())),
        }
    }

    /// Parses a message that must be a response.
    pub(super) fn read_answer(
        &self,
        bytes: &[u8],
        request: i64,
    ) -> Result<Option<ServerJsonRpcMessage>, McpError> {
        let envelope: Option<Envelope<'_>> = serde_json::from_slice(bytes).ok();
        if envelope.is_some_and(|envelope| envelope.method.is_some()) {
            return Err(McpError::Malformed("the response does not match the request".to_owned()));
        }
        self.read(bytes, Some(request))
    }

    /// Handles a message and returns what the SDK has to see of it.
    pub(super) fn read(
        &self,
        bytes: &[u8],
        request: Option<i64>,
    ) -> Result<Option<ServerJsonRpcMessage>, McpError> {
        match self.dispatch(bytes, request)? {
            Dispatch::Handled => Ok(None),
            Dispatch::Answered { id, result } if result == SDK_EMPTY_RESULT => {
                Ok(Some(placeholder_response(id)))
            }
            Dispatch::Answered { id, result } => {
                let result = serde_json::from_str(&result).unwrap_or_else(|_| ServerResult::empty(()));
                Ok(Some(ServerJsonRpcMessage::response(result, RequestId::Number(id))))
            }
            Dispatch::Sdk => for_sdk(bytes, request).map(Some),
            Dispatch::Replaced(message) => for_sdk(message.as_bytes(), request).map(Some),
        }
    }

    /// Handles an oversized message: fails the request that it answers, if its id can be found.
    pub(super) fn skip(&self, skipped: &Excerpt, request: Option<i64>) -> Option<i64> {
        let id = request.or_else(|| id_at_head(&skipped.head)).or_else(|| id_at_tail(&skipped.tail));
        self.count_skipped(self.limit);
        tracing::debug!(target: "antwort::mcp", server = &*self.server, id, "ignoring an MCP message that exceeds the size limit");
        let id = id?;
        self.pending.fail(id, McpError::TooLarge { limit: self.limit }).then_some(id)
    }

    fn dispatch_response(&self, envelope: &Envelope<'_>, request: Option<i64>, bytes: &[u8]) -> Dispatch {
        let id = match envelope.id {
            Some(id) => number(id),
            None => request,
        };
        let owner = id.map_or(ResponseOwner::Unknown, |id| self.pending.owner_of(id));
        let id = match (id, owner) {
            (Some(id), ResponseOwner::Pending) => id,
            (_, ResponseOwner::Sdk) => return Dispatch::Sdk,
            // The SDK waits for a response itself, so it may accept this one.
            _ if self.count_notification(bytes.len()) && self.pending.sdk_waits() => return Dispatch::Sdk,
            _ => return Dispatch::Handled,
        };
        match (envelope.result, envelope.error) {
            (Some(result), _) => self.pending.resolve(id, result),
            (None, Some(error)) => self.pending.refuse(id, error),
            (None, None) => self
                .pending
                .fail(id, McpError::Malformed("the response has neither result nor error".to_owned())),
        };
        let header_result = memchr::memmem::find(bytes, HEADER_MARK).and(envelope.result);
        let result = header_result
            .map_or(Cow::Borrowed(SDK_EMPTY_RESULT), |result| Cow::Owned(result.get().to_owned()));
        Dispatch::Answered { id, result }
    }

    /// Notes whether the server makes tasks, and closes the connection if its version is not known.
    fn read_initialized(&self, result: Option<&RawValue>) -> Result<(), McpError> {
        let result: Option<Initialized> = result.and_then(|result| serde_json::from_str(result.get()).ok());
        let Some(Initialized { protocol_version: version, capabilities }) = result else { return Ok(()) };
        if capabilities.pointer("/tasks/requests/tools/call").is_some_and(Value::is_object) {
            self.makes_tasks.store(true, Ordering::Release);
        }
        if ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) {
            return Ok(());
        }
        let version = sanitize_for_error(&truncate_for_display(&version));
        _ = self.unknown_version.set(version.clone());
        self.close("the server uses an unsupported protocol version");
        Err(McpError::UnknownVersion(version))
    }

    /// The unsupported protocol version, if that ended initialization.
    pub(super) fn unknown_version(&self) -> Option<&str> {
        self.unknown_version.get().map(String::as_str)
    }

    /// A request of the server: for the SDK, within the limits. `on` is the request on whose stream it came.
    fn dispatch_request(
        &self,
        id: &RawValue,
        method: &str,
        (params, on): (Option<&RawValue>, Option<i64>),
        bytes: usize,
    ) -> Dispatch {
        let readable = Some(id.get()).filter(|id| id.len() <= MAX_ID_BYTES);
        let Some(number) = readable.and_then(|id| serde_json::from_str::<RequestId>(id).ok()) else {
            self.count_notification(bytes);
            return Dispatch::Handled;
        };
        if self.closed.is_cancelled() || !self.close_on_flood(self.unsolicited.request(number.clone(), bytes))
        {
            return Dispatch::Handled;
        }
        // The handler asks what was read here. The SDK could not read every schema, and would refuse the request then.
        if let Some(question) = params.filter(|_| method == elicitation::METHOD).and_then(elicitation::read)
            && self.pending.add_question(number, on, question)
        {
            return Dispatch::Replaced(elicitation::request_without_question(id.get()));
        }
        let is_sampling = self.may_sample && method == "sampling/createMessage";
        if bytes <= MAX_REQUEST_BYTES || is_sampling {
            return Dispatch::Sdk;
        }
        Dispatch::Replaced(format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{TOO_LONG}"}}"#, id.get()))
    }

    fn dispatch_notification(&self, method: &str, params: Option<&RawValue>, bytes: usize) -> Dispatch {
        let is_accepted = self.count_notification(bytes);
        // Counted even beyond the rate limit, since that costs nothing.
        if method == "notifications/tools/list_changed" {
            self.tools_version.fetch_add(1, Ordering::AcqRel);
        }
        let Some(params) = params.filter(|_| is_accepted) else { return Dispatch::Handled };
        match method {
            "notifications/progress" => {
                if let Some((token, message)) = notices::progress(params) {
                    self.pending.progress(token, message);
                }
            }
            "notifications/message" => self.log.message(params),
            "notifications/cancelled" => {
                let cancelled: Option<Cancelled> = serde_json::from_str(params.get()).ok();
                if cancelled.is_some_and(|cancelled| self.unsolicited.cancel(&cancelled.request_id)) {
                    return Dispatch::Sdk;
                }
            }
            _ => {}
        }
        Dispatch::Handled
    }
}

/// The placeholder for a delivered response.
pub(super) fn placeholder_response(id: i64) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(id))
}

/// The placeholder as text.
pub(super) fn placeholder_response_text(id: i64, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// Serializes a message of the client.
pub(super) fn write(message: &ClientJsonRpcMessage) -> Result<Vec<u8>, McpError> {
    let written = match own_params(message) {
        None => serde_json::to_vec(message),
        Some(own) => write_with(message, own),
    };
    written.map_err(|error| McpError::Malformed(sanitize_for_error(&error.to_string())))
}

/// Serializes a message with exact arguments in place of the SDK's, which are rounded, and with `task`.
fn write_with(
    message: &ClientJsonRpcMessage,
    (arguments, task): (Option<&RawValue>, Option<&Value>),
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Message<'a> {
        #[serde(flatten)]
        rest: Map<String, Value>,
        params: Params<'a>,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(flatten)]
        rest: Map<String, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<&'a Value>,
    }
    let mut rest: Map<String, Value> = serde_json::from_value(serde_json::to_value(message)?)?;
    let params = rest.remove("params").unwrap_or_default();
    let mut params: Map<String, Value> = serde_json::from_value(params)?;
    if arguments.is_some() {
        params.remove("arguments");
    }
    serde_json::to_vec(&Message { rest, params: Params { rest: params, arguments, task } })
}

/// Whether an error means that the server does not know the session. By the protocol that is a 404, but servers
/// modelled on the reference example answer 400 before they parse the message, hence without id. An error with an id is
/// about the call itself.
pub(super) fn names_lost_session(status: StatusCode, body: &[u8]) -> bool {
    if status != StatusCode::BAD_REQUEST {
        return false;
    }
    let Ok(Envelope { id: None, error: Some(error), .. }) = serde_json::from_slice(body) else {
        return false;
    };
    match protocol_error(error) {
        McpError::Protocol { code: -32000, message } => {
            let message = message.to_ascii_lowercase();
            message.contains("session") || message.contains("not initialized")
        }
        _ => false,
    }
}

/// Parses a message for the SDK. An error without id is assigned to `request`.
fn for_sdk(bytes: &[u8], request: Option<i64>) -> Result<ServerJsonRpcMessage, McpError> {
    let message = serde_json::from_slice::<ServerJsonRpcMessage>(bytes)
        .map_err(|error| McpError::Malformed(sanitize_for_error(&error.to_string())))?;
    let (ServerJsonRpcMessage::Error(error), Some(request)) = (&message, request) else { return Ok(message) };
    let error: ErrorData = error.error.clone();
    Ok(ServerJsonRpcMessage::error(error, Some(RequestId::Number(request))))
}

/// A numeric id, also if it was returned as a string.
fn number(raw: &RawValue) -> Option<i64> {
    raw.get().trim_matches('"').parse().ok()
}
