//! Results of server-side calls, and the items that show them.

use std::borrow::Cow;

use crate::protocol::item::hosted::{McpAuthChallenge, McpCall, McpCallError, WebSearchAction, WebSource};
use crate::protocol::item::{ItemStatus, ServerToolCall, ServerToolError};
use crate::protocol::tool::BUILTIN_SERVER_LABEL;

/// The result of a call.
#[derive(Debug, Clone, Default)]
pub struct CallResult {
    /// The text for the model.
    pub output: String,
    /// The text for clients in place of `output`, if parts of that are for the model only.
    pub shown: Option<String>,
    /// The stable code of the failure; `output` describes it.
    pub error: Option<Cow<'static, str>>,
    /// The error that the server returned, in the terms of its protocol.
    pub remote: Option<RemoteError>,
    /// The call was skipped: neither made nor failed.
    pub skipped: bool,
    /// The query and results of a search.
    pub search: Option<Search>,
    /// A message to the user, shown as an item of its own.
    pub user_message: Option<String>,
}

/// An error in the terms of the server's protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteError {
    /// A JSON-RPC error of this code.
    Protocol(i64),
    /// An HTTP status, with what a login needs.
    Http {
        /// The status.
        status: u16,
        /// The authentication challenge.
        login: Option<Box<McpAuthChallenge>>,
    },
}

/// The query and results of a search.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The query.
    pub query: String,
    /// Addresses of the results, once they are known.
    pub sources: Option<Vec<String>>,
}

/// Sets the result of a call, with this text.
pub(super) fn set_result(call: &mut McpCall, result: &CallResult, words: &str) {
    match &result.error {
        Some(code) => {
            call.status = ItemStatus::Failed;
            let message = || words.to_owned();
            call.error = Some(match &result.remote {
                Some(RemoteError::Protocol(code)) => {
                    McpCallError::McpProtocolError { code: *code, message: message() }
                }
                Some(RemoteError::Http { status, login }) => McpCallError::HttpError {
                    code: i64::from(*status),
                    message: message(),
                    login: login.clone(),
                },
                None => McpCallError::from_tool_error(code, words),
            });
        }
        None => call.output = Some(words.to_owned()),
    }
    if result.skipped {
        call.status = ItemStatus::Incomplete;
    }
}

pub(super) fn extension(call: McpCall, result: &CallResult) -> ServerToolCall {
    let words = result.shown.as_ref().unwrap_or(&result.output);
    let error = result.error.as_deref();
    let error = error.map(|code| ServerToolError { code: code.to_owned(), message: words.clone() });
    let McpCall { id, server_label, name, arguments, output, status, approval_request_id, .. } = call;
    let server_label = Some(server_label).filter(|label| label != BUILTIN_SERVER_LABEL);
    ServerToolCall { id, status, server_label, name, arguments, output, error, approval_request_id }
}

pub(super) fn action(search: Search) -> WebSearchAction {
    let source = |url| WebSource { kind: "url".to_owned(), url: Some(url), name: None };
    WebSearchAction::Search {
        queries: Some(vec![search.query.clone()]),
        query: Some(search.query),
        sources: search.sources.map(|sources| sources.into_iter().map(source).collect()),
    }
}
