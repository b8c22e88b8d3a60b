//! Results of server-side calls.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use antwort_protocol::item::ItemStatus;
use antwort_protocol::item::hosted::{McpAuthChallenge, McpCall, McpCallError, ResultFile};

/// The result of a call.
#[derive(Debug, Clone, Default)]
pub struct CallResult {
    /// The text for the model.
    pub output: String,
    /// Pictures and other files for the model; clients do not see them.
    pub files: Vec<ResultFile>,
    /// The text for clients in place of `output`, if parts of that are for the model only.
    pub shown: Option<String>,
    /// The stable code of the failure; `output` describes it.
    pub error: Option<Cow<'static, str>>,
    /// The error that the server returned, in the terms of its protocol.
    pub remote: Option<RemoteError>,
    /// The call was skipped: neither made nor failed.
    pub skipped: bool,
    /// The work goes on: the item stays in progress until its result is reported.
    pub is_async: bool,
    /// Addresses of what a hosted tool found; `None`: not known.
    pub sources: Option<Vec<String>>,
    /// A message to the user, shown as an item of its own.
    pub user_message: Option<String>,
}

/// An error in the terms of the server's protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    } else if result.is_async {
        call.status = ItemStatus::InProgress;
    }
}
