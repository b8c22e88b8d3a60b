//! Requests that await their answer, and where the answer goes.
//!
//! The SDK carries requests and tells whoever waits that there is an answer. The answer itself goes by here: it is
//! read where its bytes are, once, into what the gateway makes of it. A request carries its [`PendingRequest`] along, and the
//! transport that sends it files the slot under the request's id.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, GetExtensions, GetMeta, NumberOrString, ProgressToken};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::listing::{self, Page};
use super::results::{self, CallAnswer};
use crate::tools::Progress;
use crate::tools::mcp::error::McpError;

/// The slots of the requests that were sent.
#[derive(Debug, Default)]
pub(super) struct PendingRequests(Mutex<Filed>);

#[derive(Debug, Default)]
struct Filed {
    by_id: HashMap<i64, Arc<PendingRequest>>,
    by_token: HashMap<i64, Arc<PendingRequest>>,
    /// Requests that are the SDK's own, such as the handshake.
    sdk: HashSet<i64>,
}

/// Whose an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseOwner {
    /// Its slot waits for it.
    Pending,
    /// The SDK's.
    Sdk,
    /// Nobody waits for it, or not any more.
    Unknown,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) struct PendingRequest {
    asks: RequestKind,
    progress: Progress,
    /// The arguments as text, where the SDK's form of them would round a number.
    exact_arguments: Option<Box<RawValue>>,
    /// Told of each sign of life.
    pub activity: Notify,
    state: Mutex<State>,
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// `tools/call`.
    Call,
    /// `tools/list`.
    Page,
}

/// An answer.
#[derive(Debug)]
pub(super) enum ServerAnswer {
    /// To `tools/call`.
    Call(CallAnswer),
    /// To `tools/list`.
    Page(Page),
}

#[derive(Debug, Default)]
struct State {
    sent: bool,
    abandoned: bool,
    answer: Option<Result<ServerAnswer, McpError>>,
}

/// How a request carries its slot.
#[derive(Debug, Clone)]
pub(super) struct RequestTag(pub Arc<PendingRequest>);

/// The arguments that a request is to be sent with, if they are not those that the SDK has.
pub(super) fn exact_arguments(message: &ClientJsonRpcMessage) -> Option<&RawValue> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let RequestTag(slot) = request.request.extensions().get()?;
    slot.exact_arguments.as_deref()
}

impl PendingRequest {
    /// A slot for the answer to this.
    pub(super) fn new(asks: RequestKind, progress: Progress) -> Arc<Self> {
        Self::with_arguments(asks, progress, None)
    }

    /// A slot of a request that is sent with these arguments in the place of the SDK's.
    pub(super) fn with_arguments(
        asks: RequestKind,
        progress: Progress,
        exact: Option<&RawValue>,
    ) -> Arc<Self> {
        let exact_arguments = exact.map(ToOwned::to_owned);
        Arc::new(Self { asks, progress, exact_arguments, activity: Notify::new(), state: Mutex::default() })
    }

    /// Takes the answer out.
    pub(super) fn take(&self) -> Option<Result<ServerAnswer, McpError>> {
        lock(&self.state).answer.take()
    }

    /// Whether the request may have left.
    pub(super) fn was_sent(&self) -> bool {
        lock(&self.state).sent
    }

    fn resolve(&self, answer: Result<ServerAnswer, McpError>) {
        lock(&self.state).answer.get_or_insert(answer);
    }

    fn read(&self, raw: &RawValue) -> Result<ServerAnswer, McpError> {
        match self.asks {
            RequestKind::Call => results::read(raw).map(ServerAnswer::Call),
            RequestKind::Page => listing::read(raw).map(ServerAnswer::Page),
        }
    }
}

impl PendingRequests {
    /// Files the slot of a message that is about to be sent. The id if it is a request.
    pub(super) fn register(&self, message: &ClientJsonRpcMessage) -> Option<i64> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let NumberOrString::Number(id) = request.id else { return None };
        let Some(RequestTag(slot)) = request.request.extensions().get() else {
            lock(&self.0).sdk.insert(id);
            return Some(id);
        };
        let token = request.request.get_meta().get_progress_token().as_ref().and_then(token_number);
        let mut filed = lock(&self.0);
        let mut state = lock(&slot.state);
        state.sent = true;
        if !state.abandoned {
            filed.by_id.insert(id, Arc::clone(slot));
            if let Some(token) = token {
                filed.by_token.insert(token, Arc::clone(slot));
            }
        }
        Some(id)
    }

    /// Nobody waits for the answer any more.
    pub(super) fn abandon(&self, id: i64, token: Option<i64>, slot: &PendingRequest) {
        let mut filed = lock(&self.0);
        lock(&slot.state).abandoned = true;
        filed.by_id.remove(&id);
        if let Some(token) = token {
            filed.by_token.remove(&token);
        }
    }

    /// Whose the answer to a request is. The SDK's counts as had from here on.
    pub(super) fn owner_of(&self, id: i64) -> ResponseOwner {
        let mut filed = lock(&self.0);
        if let Some(slot) = filed.by_id.get(&id) {
            return if lock(&slot.state).answer.is_none() {
                ResponseOwner::Pending
            } else {
                ResponseOwner::Unknown
            };
        }
        if filed.sdk.remove(&id) { ResponseOwner::Sdk } else { ResponseOwner::Unknown }
    }

    /// Whether the SDK waits for an answer.
    pub(super) fn sdk_waits(&self) -> bool {
        !lock(&self.0).sdk.is_empty()
    }

    /// Whether no answer at all is awaited.
    pub(super) fn is_empty(&self) -> bool {
        let filed = lock(&self.0);
        filed.by_id.is_empty() && filed.sdk.is_empty()
    }

    /// Reads the answer to a request; `false` if it is none of these.
    pub(super) fn answer(&self, id: i64, raw: &RawValue) -> bool {
        self.find(id).map(|slot| slot.resolve(slot.read(raw))).is_some()
    }

    /// A request failed; `false` if it is none of these.
    pub(super) fn fail(&self, id: i64, error: McpError) -> bool {
        self.find(id).map(|slot| slot.resolve(Err(error))).is_some()
    }

    /// Whether an answer to a request has come.
    pub(super) fn is_answered(&self, id: i64) -> bool {
        self.find(id).is_none_or(|slot| lock(&slot.state).answer.is_some())
    }

    /// A request goes on.
    pub(super) fn progress(&self, token: i64, message: Option<String>) {
        let slot = lock(&self.0).by_token.get(&token).cloned();
        if let Some(slot) = slot {
            slot.activity.notify_one();
            if let Some(message) = message {
                slot.progress.report(message);
            }
        }
    }

    /// All requests go on: the server waits for the gateway.
    pub(super) fn touch_all(&self) {
        for slot in lock(&self.0).by_id.values() {
            slot.activity.notify_one();
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let filed = lock(&self.0);
        filed.by_id.len() + filed.by_token.len()
    }

    fn find(&self, id: i64) -> Option<Arc<PendingRequest>> {
        lock(&self.0).by_id.get(&id).cloned()
    }
}

/// A progress token as the SDK makes them.
pub(super) fn token_number(token: &ProgressToken) -> Option<i64> {
    match token.0 {
        NumberOrString::Number(number) => Some(number),
        NumberOrString::String(_) => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
