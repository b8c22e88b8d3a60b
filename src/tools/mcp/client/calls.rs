//! Requests that await their answer, and where the answer goes.
//!
//! The SDK carries requests and tells whoever waits that there is an answer. The answer itself goes by here: it is
//! read where its bytes are, once, into what the gateway makes of it. A request carries its [`Slot`] along, and the
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
pub(super) struct Calls(Mutex<Filed>);

#[derive(Debug, Default)]
struct Filed {
    by_id: HashMap<i64, Arc<Slot>>,
    by_token: HashMap<i64, Arc<Slot>>,
    /// Requests that are the SDK's own, such as the handshake.
    sdk: HashSet<i64>,
}

/// Whose an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Its slot waits for it.
    Slot,
    /// The SDK's.
    Sdk,
    /// Nobody waits for it, or not any more.
    Nobodys,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) struct Slot {
    asks: Asks,
    progress: Progress,
    /// The arguments as text, where the SDK's form of them would round a number.
    exact_arguments: Option<Box<RawValue>>,
    /// Told of each sign of life.
    pub life: Notify,
    state: Mutex<State>,
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// `tools/call`.
    Call,
    /// `tools/list`.
    Page,
}

/// An answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// To `tools/call`.
    Call(CallAnswer),
    /// To `tools/list`.
    Page(Page),
}

#[derive(Debug, Default)]
struct State {
    sent: bool,
    abandoned: bool,
    answer: Option<Result<Answer, McpError>>,
}

/// How a request carries its slot.
#[derive(Debug, Clone)]
pub(super) struct Carried(pub Arc<Slot>);

/// The arguments that a request is to be sent with, if they are not those that the SDK has.
pub(super) fn exact_arguments(message: &ClientJsonRpcMessage) -> Option<&RawValue> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let Carried(slot) = request.request.extensions().get()?;
    slot.exact_arguments.as_deref()
}

impl Slot {
    /// A slot for the answer to this.
    pub fn new(asks: Asks, progress: Progress) -> Arc<Self> {
        Self::with_arguments(asks, progress, None)
    }

    /// A slot of a request that is sent with these arguments in the place of the SDK's.
    pub fn with_arguments(asks: Asks, progress: Progress, exact: Option<&RawValue>) -> Arc<Self> {
        let exact_arguments = exact.map(ToOwned::to_owned);
        Arc::new(Self { asks, progress, exact_arguments, life: Notify::new(), state: Mutex::default() })
    }

    /// Takes the answer out.
    pub fn take(&self) -> Option<Result<Answer, McpError>> {
        lock(&self.state).answer.take()
    }

    /// Whether the request may have left.
    pub fn was_sent(&self) -> bool {
        lock(&self.state).sent
    }

    fn settle(&self, answer: Result<Answer, McpError>) {
        lock(&self.state).answer.get_or_insert(answer);
    }

    fn read(&self, raw: &RawValue) -> Result<Answer, McpError> {
        match self.asks {
            Asks::Call => results::read(raw).map(Answer::Call),
            Asks::Page => listing::read(raw).map(Answer::Page),
        }
    }
}

impl Calls {
    /// Files the slot of a message that is about to be sent. The id if it is a request.
    pub fn file(&self, message: &ClientJsonRpcMessage) -> Option<i64> {
        let ClientJsonRpcMessage::Request(request) = message else { return None };
        let NumberOrString::Number(id) = request.id else { return None };
        let Some(Carried(slot)) = request.request.extensions().get() else {
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
    pub fn forget(&self, id: i64, token: Option<i64>, slot: &Slot) {
        let mut filed = lock(&self.0);
        lock(&slot.state).abandoned = true;
        filed.by_id.remove(&id);
        if let Some(token) = token {
            filed.by_token.remove(&token);
        }
    }

    /// Whose the answer to a request is. The SDK's counts as had from here on.
    pub fn whose(&self, id: i64) -> Whose {
        let mut filed = lock(&self.0);
        if let Some(slot) = filed.by_id.get(&id) {
            return if lock(&slot.state).answer.is_none() { Whose::Slot } else { Whose::Nobodys };
        }
        if filed.sdk.remove(&id) { Whose::Sdk } else { Whose::Nobodys }
    }

    /// Whether the SDK waits for an answer.
    pub fn sdk_waits(&self) -> bool {
        !lock(&self.0).sdk.is_empty()
    }

    /// Whether no answer at all is awaited.
    pub fn are_none(&self) -> bool {
        let filed = lock(&self.0);
        filed.by_id.is_empty() && filed.sdk.is_empty()
    }

    /// Reads the answer to a request; `false` if it is none of these.
    pub fn answer(&self, id: i64, raw: &RawValue) -> bool {
        self.slot(id).map(|slot| slot.settle(slot.read(raw))).is_some()
    }

    /// A request failed; `false` if it is none of these.
    pub fn fail(&self, id: i64, error: McpError) -> bool {
        self.slot(id).map(|slot| slot.settle(Err(error))).is_some()
    }

    /// Whether an answer to a request has come.
    pub fn is_answered(&self, id: i64) -> bool {
        self.slot(id).is_none_or(|slot| lock(&slot.state).answer.is_some())
    }

    /// A request goes on.
    pub fn progress(&self, token: i64, message: Option<String>) {
        let slot = lock(&self.0).by_token.get(&token).cloned();
        if let Some(slot) = slot {
            slot.life.notify_one();
            if let Some(message) = message {
                slot.progress.report(message);
            }
        }
    }

    /// All requests go on: the server waits for the gateway.
    pub fn stir(&self) {
        for slot in lock(&self.0).by_id.values() {
            slot.life.notify_one();
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        let filed = lock(&self.0);
        filed.by_id.len() + filed.by_token.len()
    }

    fn slot(&self, id: i64) -> Option<Arc<Slot>> {
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
