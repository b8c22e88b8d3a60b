//! What a server's bytes say. Answers go to who waits for them, notices are dealt with here; only what the SDK has to
//! act upon goes on to the SDK: the handshake, the server's own requests.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use reqwest::StatusCode;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::lines::Skipped;
use super::notices::{self, told};
use crate::protocol::parse::shorten;
use crate::tools::mcp::error::McpError;

/// What the SDK is told of an answer that has gone where it belongs.
const ELSEWHERE: &str = "{}";
/// Marks tools whose arguments go into headers, which is the SDK's business.
const HEADER_MARK: &[u8] = b"\"x-mcp-header\"";

/// A connection's reading end, whatever it is made of.
#[derive(Debug)]
pub(super) struct Wire {
    /// The server's name in logs.
    pub server: Arc<str>,
    /// Bytes of one message.
    pub limit: usize,
    /// Requests that await their answer.
    pub calls: Calls,
    /// Cancelled once nothing can come any more.
    pub closed: CancellationToken,
    why: OnceLock<String>,
    tools_version: AtomicU64,
    is_lost: AtomicBool,
    unknown_version: OnceLock<String>,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
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

/// The part of an answer to `initialize` that is looked at here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
}

impl Wire {
    /// The reading end of a connection to a server.
    pub fn new(server: Arc<str>, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            server,
            limit,
            calls: Calls::default(),
            closed: CancellationToken::new(),
            why: OnceLock::new(),
            tools_version: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            unknown_version: OnceLock::new(),
        })
    }

    /// The server knows nothing of the session any more. What is under way goes on; nothing else is asked.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Whether the server knows nothing of the session any more.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// How often the server said that its tools have changed.
    pub fn tools_version(&self) -> u64 {
        self.tools_version.load(Ordering::Acquire)
    }

    /// Nothing can come any more, and why.
    pub fn close(&self, why: impl Into<String>) {
        let _first = self.why.set(why.into());
        self.closed.cancel();
    }

    /// Why nothing can come any more.
    pub fn why_closed(&self) -> String {
        let unset = || "it ended before the answer".to_owned();
        self.why.get().cloned().unwrap_or_else(unset)
    }

    /// Reads a message and sees to it. `asked` is the request that it answers if it does not say. An answer to the
    /// handshake with a version of the protocol that nobody here knows ends the connection.
    pub fn take(&self, bytes: &[u8], asked: Option<i64>) -> Result<Taken, McpError> {
        let envelope: Envelope<'_> =
            serde_json::from_slice(bytes).map_err(|error| McpError::Malformed(told(&error.to_string())))?;
        let Some(method) = &envelope.method else {
            let taken = self.answered(&envelope, asked, bytes);
            if taken == Taken::Sdk {
                self.check_version(envelope.result)?;
            }
            return Ok(taken);
        };
        if envelope.id.is_some() || method == "notifications/cancelled" {
            return Ok(Taken::Sdk);
        }
        self.noticed(method, envelope.params);
        Ok(Taken::Handled)
    }

    /// Reads a message; the SDK's part of it if it has one.
    pub fn read(&self, bytes: &[u8], asked: Option<i64>) -> Result<Option<ServerJsonRpcMessage>, McpError> {
        match self.take(bytes, asked)? {
            Taken::Handled => Ok(None),
            Taken::Answered { id, result } if result == ELSEWHERE => Ok(Some(answered(id))),
            Taken::Answered { id, result } => {
                let result = serde_json::from_str(&result).unwrap_or_else(|_| ServerResult::empty(()));
                Ok(Some(ServerJsonRpcMessage::response(result, RequestId::Number(id))))
            }
            Taken::Sdk => for_sdk(bytes, asked).map(Some),
        }
    }

    /// Something was too long. The call that it answered fails, if it can be told.
    pub fn skip(&self, skipped: &Skipped, asked: Option<i64>) -> Option<i64> {
        let id = asked.or_else(|| id_at_head(&skipped.head)).or_else(|| id_at_tail(&skipped.tail));
        tracing::debug!(target: "antwort::mcp", server = &*self.server, id, "a message is too long");
        let id = id?;
        self.calls.fail(id, McpError::TooLarge { limit: self.limit }).then_some(id)
    }

    fn answered(&self, envelope: &Envelope<'_>, asked: Option<i64>, bytes: &[u8]) -> Taken {
        let id = match envelope.id {
            Some(id) => number(id),
            None => asked,
        };
        let Some(id) = id else { return Taken::Sdk };
        let found = match (envelope.result, envelope.error) {
            (Some(result), _) => self.calls.answer(id, result),
            (None, Some(error)) => self.calls.fail(id, protocol_error(error)),
            (None, None) => self.calls.fail(id, McpError::Malformed("neither result nor error".to_owned())),
        };
        if !found {
            return Taken::Sdk;
        }
        let marked = memchr::memmem::find(bytes, HEADER_MARK).and(envelope.result);
        let result = marked.map_or(Cow::Borrowed(ELSEWHERE), |result| Cow::Owned(result.get().to_owned()));
        Taken::Answered { id, result }
    }

    fn check_version(&self, result: Option<&RawValue>) -> Result<(), McpError> {
        let result: Option<Initialized> = result.and_then(|result| serde_json::from_str(result.get()).ok());
        let Some(Initialized { protocol_version: version }) = result else { return Ok(()) };
        if ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) {
            return Ok(());
        }
        let version = told(&shorten(&version));
        _ = self.unknown_version.set(version.clone());
        self.close("it speaks another version of the protocol");
        Err(McpError::UnknownVersion(version))
    }

    /// The version of the protocol for which the handshake was ended.
    pub fn unknown_version(&self) -> Option<&str> {
        self.unknown_version.get().map(String::as_str)
    }

    fn noticed(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/progress" => {
                if let Some((token, message)) = params.and_then(notices::progress) {
                    self.calls.progress(token, message);
                }
            }
            "notifications/message" => {
                if let Some(params) = params {
                    notices::log(&self.server, params);
                }
            }
            "notifications/tools/list_changed" => {
                self.tools_version.fetch_add(1, Ordering::AcqRel);
            }
            _ => {}
        }
    }
}

/// What the SDK is told of an answer that has gone where it belongs.
pub(super) fn answered(id: i64) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::response(ServerResult::empty(()), RequestId::Number(id))
}

/// The same as text.
pub(super) fn answered_text(id: i64, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// A message of the client's as text.
pub(super) fn write(message: &ClientJsonRpcMessage) -> Result<Vec<u8>, McpError> {
    serde_json::to_vec(message).map_err(|error| McpError::Malformed(told(&error.to_string())))
}

/// A JSON-RPC error as ours.
pub(super) fn protocol_error(raw: &RawValue) -> McpError {
    let error: RawError = serde_json::from_str(raw.get()).unwrap_or(RawError { code: None, message: None });
    let code = error.code.and_then(|code| code.as_i64()).unwrap_or(-32603);
    let message = error.message.map_or_else(|| "the server gave no reason".to_owned(), |words| told(&words));
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
        .map_err(|error| McpError::Malformed(told(&error.to_string())))?;
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
