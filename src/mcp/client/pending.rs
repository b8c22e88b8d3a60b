//! Pending requests and their responses.
//!
//! The SDK sends requests and notifies the caller of a response. The response itself is parsed here, once and directly
//! into the gateway's types. A request carries its [`PendingRequest`] as an extension; the transport that sends it
//! registers it under the request's id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, GetMeta, NumberOrString, ProgressToken};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::listing::{self, Page};
use super::results::{self, CallAnswer};
use crate::mcp::error::McpError;
use crate::tools::Progress;

/// All requests that wait for a response.
#[derive(Debug, Default)]
pub(super) struct PendingRequests(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    by_id: HashMap<i64, Arc<PendingRequest>>,
    by_token: HashMap<i64, Arc<PendingRequest>>,
    /// Requests of the SDK itself, such as `initialize`.
    sdk: HashSet<i64>,
}

/// Who waits for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseOwner {
    /// A pending request.
    Pending,
    /// The SDK.
    Sdk,
    /// No one, or no one any more.
    Unknown,
}

/// A request that waits for its response.
#[derive(Debug)]
pub(super) struct PendingRequest {
    asks: RequestKind,
    progress: Progress,
    /// The arguments as text, if the SDK's representation would round a number.
    exact_arguments: Option<Box<RawValue>>,
    /// Notified of progress, which resets the idle timeout.
    pub activity: Notify,
    state: Mutex<State>,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// `tools/call`.
    Call,
    /// `tools/list`.
    Page,
}

/// A parsed response.
#[derive(Debug)]
pub(super) enum ServerAnswer {
    /// Result of `tools/call`.
    Call(CallAnswer),
    /// Result of `tools/list`.
    Page(Page),
}

#[derive(Debug, Default)]
struct State {
    sent: bool,
    abandoned: bool,
    answer: Option<Result<ServerAnswer, McpError>>,
}

/// The extension by which an SDK request refers to its pending request.
#[derive(Debug, Clone)]
pub(super) struct RequestTag(pub Arc<PendingRequest>);

/// The exact arguments of a request, if they differ from the SDK's.
pub(super) fn exact_arguments(message: &ClientJsonRpcMessage) -> Option<&RawValue> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let RequestTag(pending) = request.request.extensions().get()?;
    pending.exact_arguments.as_deref()
}

impl PendingRequest {
    /// A pending request of this kind.
    pub(super) fn new(asks: RequestKind, progress: Progress) -> Arc<Self> {
        Self::with_arguments(asks, progress, None)
    }

    /// A pending request sent with exact arguments in place of the SDK's.
    pub(super) fn with_arguments(
        asks: RequestKind,
        progress: Progress,
        exact: Option<&RawValue>,
    ) -> Arc<Self> {
        let exact_arguments = exact.map(ToOwned::to_owned);
        Arc::new(Self { asks, progress, exact_arguments, activity: Notify::new(), state: Mutex::default() })
    }

    /// Takes the response.
    pub(super) fn take(&self) -> Option<Result<ServerAnswer, McpError>> {
        self.state.lock().answer.take()
    }

    /// Whether the request may have been sent.
    pub(super) fn was_sent(&self) -> bool {
        self.state.lock().sent
    }

    fn resolve(&self, answer: Result<ServerAnswer, McpError>) {
        self.state.lock().answer.get_or_insert(answer);
    }

    fn read(&self, raw: &RawValue) -> Result<ServerAnswer, McpError> {
        match self.asks {
            RequestKind::Call => results::read(raw).map(ServerAnswer::Call),
            RequestKind::Page => listing::read(raw).map(ServerAnswer::Page),
        }
    }
}

impl PendingRequests {
    /// Registers a request that is about to be sent; returns its id, `None` for other messages.
    pub(super) fn register(&self, message: &ClientJsonRpcMessage) -> Option<i64> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let NumberOrString::Number(id) = request.id else { return None };
        let Some(RequestTag(pending)) = request.request.extensions().get() else {
            self.0.lock().sdk.insert(id);
            return Some(id);
        };
        let token = request.request.get_meta().get_progress_token().as_ref().and_then(token_number);
        let mut registered = self.0.lock();
        let mut state = pending.state.lock();
        state.sent = true;
        if !state.abandoned {
            registered.by_id.insert(id, Arc::clone(pending));
            if let Some(token) = token {
                registered.by_token.insert(token, Arc::clone(pending));
            }
        }
        Some(id)
    }

    /// Removes a request whose caller has stopped waiting.
    pub(super) fn abandon(&self, id: i64, token: Option<i64>, pending: &PendingRequest) {
        let mut registered = self.0.lock();
        pending.state.lock().abandoned = true;
        registered.by_id.remove(&id);
        if let Some(token) = token {
            registered.by_token.remove(&token);
        }
    }

    /// Who waits for the response to a request. A response to the SDK counts as delivered after this call.
    pub(super) fn owner_of(&self, id: i64) -> ResponseOwner {
        let mut registered = self.0.lock();
        if let Some(pending) = registered.by_id.get(&id) {
            return if pending.state.lock().answer.is_none() {
                ResponseOwner::Pending
            } else {
                ResponseOwner::Unknown
            };
        }
        if registered.sdk.remove(&id) { ResponseOwner::Sdk } else { ResponseOwner::Unknown }
    }

    /// Whether the SDK waits for a response.
    pub(super) fn sdk_waits(&self) -> bool {
        !self.0.lock().sdk.is_empty()
    }

    /// Whether no request is pending.
    pub(super) fn is_empty(&self) -> bool {
        let registered = self.0.lock();
        registered.by_id.is_empty() && registered.sdk.is_empty()
    }

    /// Delivers a response; `false` if the request is not pending.
    pub(super) fn resolve(&self, id: i64, raw: &RawValue) -> bool {
        self.find(id).map(|pending| pending.resolve(pending.read(raw))).is_some()
    }

    /// Fails a request; `false` if it is not pending.
    pub(super) fn fail(&self, id: i64, error: McpError) -> bool {
        self.find(id).map(|pending| pending.resolve(Err(error))).is_some()
    }

    /// Whether a request has its response.
    pub(super) fn is_answered(&self, id: i64) -> bool {
        self.find(id).is_none_or(|pending| pending.state.lock().answer.is_some())
    }

    /// Reports progress of a request.
    pub(super) fn progress(&self, token: i64, message: Option<String>) {
        let pending = self.0.lock().by_token.get(&token).cloned();
        if let Some(pending) = pending {
            pending.activity.notify_one();
            if let Some(message) = message {
                pending.progress.report(message);
            }
        }
    }

    /// Resets the idle timeout of all requests, while the server waits for the gateway.
    pub(super) fn touch_all(&self) {
        for pending in self.0.lock().by_id.values() {
            pending.activity.notify_one();
        }
    }

    /// Number of pending requests.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let registered = self.0.lock();
        registered.by_id.len() + registered.by_token.len()
    }

    fn find(&self, id: i64) -> Option<Arc<PendingRequest>> {
        self.0.lock().by_id.get(&id).cloned()
    }
}

/// A progress token in the SDK's format.
pub(super) fn token_number(token: &ProgressToken) -> Option<i64> {
    match token.0 {
        NumberOrString::Number(number) => Some(number),
        NumberOrString::String(_) => None,
    }
}
