//! What a server's bytes say. Answers go to who waits for them, notices are dealt with here; only what the SDK has to
//! act upon goes on to the SDK: the handshake, the server's own requests. What nobody asked for is counted first
//! (`unasked`).

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

use super::log::ServerLog;
use super::notices::{self, sanitize_for_error};
use super::pending::{PendingRequests, ResponseOwner, exact_arguments};
use super::unsolicited::{AnsweringGuard, FloodVerdict, UnsolicitedLimiter};
use crate::net::sse::Excerpt;
use crate::protocol::parse::truncate_for_display;
use crate::telemetry::fields::{CAUSE, KIND, SERVER};
use crate::tools::mcp::connection::Endpoint;
use crate::tools::mcp::error::{FailureReason, McpError};

/// What the SDK is told of an answer that has gone where it belongs.
const PLACEHOLDER_RESULT: &str = "{}";
/// Marks tools whose arguments go into headers, which is the SDK's business.
const HEADER_MARK: &[u8] = b"\"x-mcp-header\"";
/// Bytes of a request's id, which its answer repeats.
const MAX_ID_BYTES: usize = 256;
/// Bytes of a request that is read; more has only what a model is to read.
const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Bytes of an event beside its message: field names, a name and an id.
const MAX_EVENT_FIELD_BYTES: usize = 1024;
/// What the SDK is handed in the place of a longer one. It knows no such method, and so answers it.
const TOO_LONG: &str = "antwort/request_too_long";

/// A connection's reading end, whatever it is made of.
#[derive(Debug)]
pub(super) struct MessageRouter {
    /// The server's name in logs.
    pub server: Arc<str>,
    /// Bytes of one message.
    pub limit: usize,
    /// Requests that await their answer.
    pub pending: PendingRequests,
    /// Cancelled once nothing can come any more.
    pub closed: CancellationToken,
    may_sample: bool,
    unasked: UnsolicitedLimiter,
    log: ServerLog,
    close_reason: OnceLock<FailureReason>,
    gave_up: AtomicBool,
    tools_version: AtomicU64,
    is_lost: AtomicBool,
    unknown_version: OnceLock<String>,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// An answer that has gone where it belongs; `result` is what the SDK is told that it is.
    Answered {
        /// The request.
        id: i64,
        /// JSON.
        result: Cow<'static, str>,
    },
    /// It is dealt with.
    Handled,
    /// The SDK is to read it.
    Sdk,
    /// The SDK is to read this in its place.
    Replaced(String),
}

/// A message of JSON-RPC.
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

#[derive(Deserialize)]
struct RawError {
    #[serde(default)]
    code: Option<Value>,
    #[serde(default)]
    message: Option<String>,
}

/// The part of a `notifications/cancelled` that is looked at here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    request_id: RequestId,
}

/// The part of an answer to `initialize` that is looked at here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
}

impl MessageRouter {
    /// The reading end of a connection to a server.
    pub(super) fn new(endpoint: &Endpoint, limit: usize, may_sample: bool) -> Arc<Self> {
        let server = Arc::clone(&endpoint.name);
        Arc::new(Self {
            log: ServerLog::for_session(Arc::clone(&server), endpoint.is_configured),
            server,
            limit,
            pending: PendingRequests::default(),
            closed: CancellationToken::new(),
            may_sample,
            unasked: UnsolicitedLimiter::new(limit),
            close_reason: OnceLock::new(),
            gave_up: AtomicBool::new(false),
            tools_version: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            unknown_version: OnceLock::new(),
        })
    }

    /// The server knows nothing of the session any more. What is under way goes on; nothing else is asked.
    pub(super) fn mark_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Whether the server knows nothing of the session any more.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// How often the server said that its tools have changed.
    pub(super) fn tools_version(&self) -> u64 {
        self.tools_version.load(Ordering::Acquire)
    }

    /// Nothing can come any more, and why.
    pub(super) fn close(&self, why: impl Into<FailureReason>) {
        let _first = self.close_reason.set(why.into());
        self.closed.cancel();
    }

    /// Why nothing can come any more.
    pub(super) fn why_closed(&self) -> FailureReason {
        let unset = || "it ended before the answer".into();
        self.close_reason.get().cloned().unwrap_or_else(unset)
    }

    /// Why the gateway gave the connection up, if it did.
    pub(super) fn why_given_up(&self) -> Option<String> {
        self.gave_up.load(Ordering::Acquire).then(|| self.why_closed().message().to_owned())
    }

    /// An error once nothing is to be sent any more.
    pub(super) fn check_open(&self) -> Result<(), McpError> {
        if self.closed.is_cancelled() { Err(McpError::Connect(self.why_closed())) } else { Ok(()) }
    }

    /// To be held while a message is sent: if it answers a request of the server's, that is open until it has left.
    pub(super) fn sending(&self, message: &ClientJsonRpcMessage) -> Option<AnsweringGuard<'_>> {
        match message {
            ClientJsonRpcMessage::Response(answer) => Some(self.unasked.answering(Some(&answer.id))),
            ClientJsonRpcMessage::Error(error) => Some(self.unasked.answering(error.id.as_ref())),
            ClientJsonRpcMessage::Request(_) | ClientJsonRpcMessage::Notification(_) => None,
        }
    }

    /// Bytes that are no message.
    pub(super) fn count_stray_bytes(&self, bytes: usize) {
        if bytes > 0 {
            self.apply_verdict(self.unasked.stray_bytes(bytes));
        }
    }

    /// Bytes of an event that carries a message: its other fields need room as well.
    pub(super) fn max_event_bytes(&self) -> usize {
        self.limit.saturating_add(MAX_EVENT_FIELD_BYTES)
    }

    /// Something that is no message but costs as much. `false`: it is to be dropped.
    pub(super) fn count_notification(&self, bytes: usize) -> bool {
        self.apply_verdict(self.unasked.notification(bytes))
    }

    /// More of something that is already too long. While an answer is awaited, it may be that.
    pub(super) fn count_skipped(&self, bytes: usize) {
        if self.pending.is_empty() {
            self.count_stray_bytes(bytes);
        }
    }

    /// Whether to deal with something; ends the connection if it was too much.
    fn apply_verdict(&self, verdict: FloodVerdict) -> bool {
        if let FloodVerdict::GiveUp(why) = verdict
            && !self.gave_up.swap(true, Ordering::AcqRel)
        {
            tracing::warn!(
                target: "antwort::mcp",
                { { SERVER } = &*self.server, { KIND } = "flood", { CAUSE } = why },
                "the connection is given up"
            );
            self.close(format!("the server asks too much: {why}"));
        }
        verdict == FloodVerdict::Accept
    }

    /// Reads a message and sees to it. `asked` is the request that it answers if it does not say. An answer to the
    /// handshake with a version of the protocol that nobody here knows ends the connection.
    pub(super) fn dispatch(&self, bytes: &[u8], asked: Option<i64>) -> Result<Dispatch, McpError> {
        if bytes.len() > self.limit {
            return Ok(match self.skip(&Excerpt::from_bytes(bytes), asked) {
                Some(id) => Dispatch::Answered { id, result: Cow::Borrowed(PLACEHOLDER_RESULT) },
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
                let taken = self.dispatch_response(&envelope, asked, bytes);
                if taken == Dispatch::Sdk {
                    self.check_version(envelope.result)?;
                }
                Ok(taken)
            }
            (Some(method), Some(id)) => Ok(self.dispatch_request(id, method, bytes.len())),
            (Some(method), None) => Ok(self.dispatch_notification(method, envelope.params, bytes.len())),
        }
    }

    /// Reads a message that can only be an answer: nothing else is dealt with.
    pub(super) fn read_answer(
        &self,
        bytes: &[u8],
        asked: i64,
    ) -> Result<Option<ServerJsonRpcMessage>, McpError> {
        let envelope: Option<Envelope<'_>> = serde_json::from_slice(bytes).ok();
        if envelope.is_some_and(|envelope| envelope.method.is_some()) {
            return Err(McpError::Malformed("it answers something else".to_owned()));
        }
        self.read(bytes, Some(asked))
    }

    /// Reads a message; the SDK's part of it if it has one.
    pub(super) fn read(
        &self,
        bytes: &[u8],
        asked: Option<i64>,
    ) -> Result<Option<ServerJsonRpcMessage>, McpError> {
        match self.dispatch(bytes, asked)? {
            Dispatch::Handled => Ok(None),
            Dispatch::Answered { id, result } if result == PLACEHOLDER_RESULT => {
                Ok(Some(placeholder_response(id)))
            }
            Dispatch::Answered { id, result } => {
                let result = serde_json::from_str(&result).unwrap_or_else(|_| ServerResult::empty(()));
                Ok(Some(ServerJsonRpcMessage::response(result, RequestId::Number(id))))
            }
            Dispatch::Sdk => for_sdk(bytes, asked).map(Some),
            Dispatch::Replaced(message) => for_sdk(message.as_bytes(), asked).map(Some),
        }
    }

    /// Something was too long. The call that it answered fails, if it can be told.
    pub(super) fn skip(&self, skipped: &Excerpt, asked: Option<i64>) -> Option<i64> {
        let id = asked.or_else(|| id_at_head(&skipped.head)).or_else(|| id_at_tail(&skipped.tail));
        self.count_skipped(self.limit);
        tracing::debug!(target: "antwort::mcp", server = &*self.server, id, "a message is too long");
        let id = id?;
        self.pending.fail(id, McpError::TooLarge { limit: self.limit }).then_some(id)
    }

    fn dispatch_response(&self, envelope: &Envelope<'_>, asked: Option<i64>, bytes: &[u8]) -> Dispatch {
        let id = match envelope.id {
            Some(id) => number(id),
            None => asked,
        };
        let whose = id.map_or(ResponseOwner::Unknown, |id| self.pending.owner_of(id));
        let id = match (id, whose) {
            (Some(id), ResponseOwner::Pending) => id,
            (_, ResponseOwner::Sdk) => return Dispatch::Sdk,
            // Whether the SDK still takes it for an answer to the handshake is its business.
            _ if self.count_notification(bytes.len()) && self.pending.sdk_waits() => return Dispatch::Sdk,
            _ => return Dispatch::Handled,
        };
        match (envelope.result, envelope.error) {
            (Some(result), _) => self.pending.answer(id, result),
            (None, Some(error)) => self.pending.fail(id, protocol_error(error)),
            (None, None) => self.pending.fail(id, McpError::Malformed("neither result nor error".to_owned())),
        };
        let marked = memchr::memmem::find(bytes, HEADER_MARK).and(envelope.result);
        let result =
            marked.map_or(Cow::Borrowed(PLACEHOLDER_RESULT), |result| Cow::Owned(result.get().to_owned()));
        Dispatch::Answered { id, result }
    }

    fn check_version(&self, result: Option<&RawValue>) -> Result<(), McpError> {
        let result: Option<Initialized> = result.and_then(|result| serde_json::from_str(result.get()).ok());
        let Some(Initialized { protocol_version: version }) = result else { return Ok(()) };
        if ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) {
            return Ok(());
        }
        let version = sanitize_for_error(&truncate_for_display(&version));
        _ = self.unknown_version.set(version.clone());
        self.close("it speaks another version of the protocol");
        Err(McpError::UnknownVersion(version))
    }

    /// The version of the protocol for which the handshake was ended.
    pub(super) fn unknown_version(&self) -> Option<&str> {
        self.unknown_version.get().map(String::as_str)
    }

    /// A request of the server's: the SDK's, if it is not one too many.
    fn dispatch_request(&self, id: &RawValue, method: &str, bytes: usize) -> Dispatch {
        let readable = Some(id.get()).filter(|id| id.len() <= MAX_ID_BYTES);
        let Some(number) = readable.and_then(|id| serde_json::from_str::<RequestId>(id).ok()) else {
            self.count_notification(bytes);
            return Dispatch::Handled;
        };
        if self.closed.is_cancelled() || !self.apply_verdict(self.unasked.request(number, bytes)) {
            return Dispatch::Handled;
        }
        let is_sampling = self.may_sample && method == "sampling/createMessage";
        if bytes <= MAX_REQUEST_BYTES || is_sampling {
            return Dispatch::Sdk;
        }
        Dispatch::Replaced(format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{TOO_LONG}"}}"#, id.get()))
    }

    fn dispatch_notification(&self, method: &str, params: Option<&RawValue>, bytes: usize) -> Dispatch {
        let is_taken = self.count_notification(bytes);
        // However many there are, it costs nothing to know that there was one.
        if method == "notifications/tools/list_changed" {
            self.tools_version.fetch_add(1, Ordering::AcqRel);
        }
        let Some(params) = params.filter(|_| is_taken) else { return Dispatch::Handled };
        match method {
            "notifications/progress" => {
                if let Some((token, message)) = notices::progress(params) {
                    self.pending.progress(token, message);
                }
            }
            "notifications/message" => self.log.message(params),
            "notifications/cancelled" => {
                let cancelled: Option<Cancelled> = serde_json::from_str(params.get()).ok();
                if cancelled.is_some_and(|cancelled| self.unasked.withdraw(&cancelled.request_id)) {
                    return Dispatch::Sdk;
                }
            }
            _ => {}
        }
        Dispatch::Handled
    }
}

/// What the SDK is told of an answer that has gone where it belongs.
pub(super) fn placeholder_response(id: i64) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(id))
}

/// The same as text.
pub(super) fn placeholder_response_text(id: i64, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// A message of the client's as text.
pub(super) fn write(message: &ClientJsonRpcMessage) -> Result<Vec<u8>, McpError> {
    let written = match exact_arguments(message) {
        None => serde_json::to_vec(message),
        Some(arguments) => write_with(message, arguments),
    };
    written.map_err(|error| McpError::Malformed(sanitize_for_error(&error.to_string())))
}

/// The message with these arguments: the SDK's are rounded.
fn write_with(message: &ClientJsonRpcMessage, arguments: &RawValue) -> serde_json::Result<Vec<u8>> {
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
        arguments: &'a RawValue,
    }
    let mut rest: Map<String, Value> = serde_json::from_value(serde_json::to_value(message)?)?;
    let params = rest.remove("params").unwrap_or_default();
    let mut params: Map<String, Value> = serde_json::from_value(params)?;
    params.remove("arguments");
    serde_json::to_vec(&Message { rest, params: Params { rest: params, arguments } })
}

/// A JSON-RPC error as ours.
pub(super) fn protocol_error(raw: &RawValue) -> McpError {
    let error: RawError = serde_json::from_str(raw.get()).unwrap_or(RawError { code: None, message: None });
    let code = error.code.and_then(|code| code.as_i64()).unwrap_or(-32603);
    let message = error
        .message
        .map_or_else(|| "the server gave no reason".to_owned(), |words| sanitize_for_error(&words));
    McpError::Protocol { code, message }
}

/// The JSON-RPC error that a body is; `None` if it is anything else.
pub(super) fn error_in(body: &[u8]) -> Option<McpError> {
    let error = serde_json::from_slice::<Envelope<'_>>(body).ok()?.error?;
    let coded: RawError = serde_json::from_str(error.get()).ok()?;
    coded.code?.as_i64()?;
    Some(protocol_error(error))
}

/// Whether an error says that the server does not know the session. Not every server says so with a 404: those after
/// the reference's example say it with a 400, before they look at the message and so without its id. An error with an
/// id is about the call, whatever it speaks of.
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

/// Reads a message that the SDK is to act upon. An error that does not say what it answers is about `asked`.
fn for_sdk(bytes: &[u8], asked: Option<i64>) -> Result<ServerJsonRpcMessage, McpError> {
    let message = serde_json::from_slice::<ServerJsonRpcMessage>(bytes)
        .map_err(|error| McpError::Malformed(sanitize_for_error(&error.to_string())))?;
    let (ServerJsonRpcMessage::Error(error), Some(asked)) = (&message, asked) else { return Ok(message) };
    let error: ErrorData = error.error.clone();
    Ok(ServerJsonRpcMessage::error(error, Some(RequestId::Number(asked))))
}

/// An id, also one that came back as text.
fn number(raw: &RawValue) -> Option<i64> {
    raw.get().trim_matches('"').parse().ok()
}

/// The id of a message of which this is the beginning.
fn id_at_head(head: &[u8]) -> Option<i64> {
    let (mut depth, mut in_string, mut escaped) = (0_u32, false, false);
    for (at, byte) in head.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => {
                let key = head.get(at..).and_then(|rest| rest.strip_prefix(b"\"id\""));
                if let (1, false, Some(rest)) = (depth, in_string, key)
                    && let Some(value) = rest.trim_ascii_start().strip_prefix(b":")
                {
                    return leading_number(value).map(|(id, _)| id);
                }
                in_string = !in_string;
            }
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The id of a message of which this is the end: servers also write it last.
fn id_at_tail(tail: &[u8]) -> Option<i64> {
    let at = memchr::memmem::rfind(tail, b"\"id\"")?;
    let value = tail.get(at..)?.strip_prefix(b"\"id\"")?.trim_ascii_start().strip_prefix(b":")?;
    let (id, rest) = leading_number(value)?;
    (rest.trim_ascii() == b"}").then_some(id)
}

fn leading_number(text: &[u8]) -> Option<(i64, &[u8])> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    let id = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((id, rest.strip_prefix(b"\"").unwrap_or(rest)))
}
