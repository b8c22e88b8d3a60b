//! Pending requests and their responses.
//!
//! The SDK sends requests and notifies the caller of a response. The response itself is parsed here, once and directly
//! into the gateway's types. A request carries its [`PendingRequest`] as an extension; the transport that sends it
//! registers it under the request's id.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, GetMeta, NumberOrString, ProgressToken, RequestId};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::elicitation;
use super::listing::{self, Page};
use super::protocol_error::protocol_error;
use super::results::{self, CallAnswer};
use super::task_report::{self, TaskReport};
use crate::error::McpError;
use antwort_protocol::elicitation::{Elicitation, ElicitationAnswer};
use antwort_tools::{Asker, Progress};

/// All requests that wait for a response.
#[derive(Debug, Default)]
pub(super) struct PendingRequests(Mutex<Registered>);

#[derive(Debug, Default)]
struct Registered {
    by_id: HashMap<i64, Arc<PendingRequest>>,
    by_token: HashMap<i64, Arc<PendingRequest>>,
    /// Requests of the SDK itself, such as `initialize`.
    sdk: HashSet<i64>,
    /// Questions of the server to the user, by the id of its request.
    questions: HashMap<RequestId, CallQuestion>,
}

/// A question of the server, and the call that it belongs to.
#[derive(Debug)]
pub(super) struct CallQuestion {
    pub question: Elicitation,
    pub call: Arc<PendingRequest>,
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
    /// `task` of a call that is to become one, which the SDK does not know.
    task: OnceLock<Value>,
    /// Asks the user for the server.
    asker: Option<Asker>,
    /// Questions that the user has not answered: meanwhile the server is not idle.
    open_questions: AtomicUsize,
    /// Cancelled when there is a response, or nobody waits for it: nobody is asked any more.
    ended: Option<CancellationToken>,
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
    /// `tasks/get`.
    Task,
    /// `tasks/update`.
    Update,
}

/// A parsed response.
#[derive(Debug)]
pub(super) enum ServerAnswer {
    /// Result of `tools/call`.
    Call(CallAnswer),
    /// Result of `tools/list`.
    Page(Page),
    /// Result of `tasks/get`.
    Task(TaskReport),
    /// A result of which nothing is read.
    Empty,
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

/// Parameters of a request that are not the SDK's: exact arguments, and `task`. `None` if there are none.
pub(super) fn own_params(message: &ClientJsonRpcMessage) -> Option<(Option<&RawValue>, Option<&Value>)> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let RequestTag(pending) = request.request.extensions().get()?;
    let own = (pending.exact_arguments.as_deref(), pending.task.get());
    (own.0.is_some() || own.1.is_some()).then_some(own)
}

impl PendingRequest {
    /// A pending request of this kind.
    pub(super) fn new(asks: RequestKind, progress: Progress) -> Arc<Self> {
        Self::build(asks, progress, None, None)
    }

    /// A pending call, sent with exact arguments in place of the SDK's. The asker asks the user for the server.
    pub(super) fn call(progress: Progress, exact: Option<&RawValue>, asker: Option<&Asker>) -> Arc<Self> {
        Self::build(RequestKind::Call, progress, exact, asker)
    }

    fn build(
        asks: RequestKind,
        progress: Progress,
        exact: Option<&RawValue>,
        asker: Option<&Asker>,
    ) -> Arc<Self> {
        Arc::new(Self {
            asks,
            progress,
            exact_arguments: exact.map(ToOwned::to_owned),
            task: OnceLock::new(),
            asker: asker.cloned(),
            open_questions: AtomicUsize::new(0),
            ended: asker.map(|_| CancellationToken::new()),
            activity: Notify::new(),
            state: Mutex::default(),
        })
    }

    /// The call becomes a task that is kept for so long.
    pub(super) fn as_task(&self, ttl: Duration) {
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        _ = self.task.set(json!({ "ttl": ttl }));
    }

    /// Asks the user for the server. Until the answer the idle timeout of the request does not run.
    pub(super) async fn ask(&self, question: Elicitation) -> Option<ElicitationAnswer> {
        let asker = self.asker.as_ref()?;
        let _open = OpenQuestion::begin(self);
        tokio::select! {
            biased;
            () = self.ended.as_ref()?.cancelled() => None,
            answer = asker.ask(question) => Some(answer),
        }
    }

    /// Nobody is asked any more.
    fn end_questions(&self) {
        if let Some(ended) = &self.ended {
            ended.cancel();
        }
    }

    /// Whether the server waits for the user.
    pub(super) fn waits_for_user(&self) -> bool {
        self.open_questions.load(Ordering::Acquire) > 0
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
        self.end_questions();
    }

    fn read(&self, raw: &RawValue) -> Result<ServerAnswer, McpError> {
        match self.asks {
            RequestKind::Call => results::read(raw).map(ServerAnswer::Call),
            RequestKind::Page => listing::read(raw).map(ServerAnswer::Page),
            RequestKind::Task => task_report::read(raw).map(ServerAnswer::Task),
            RequestKind::Update => Ok(ServerAnswer::Empty),
        }
    }

    /// Reads an error. One of a call may ask the user to open addresses first.
    fn read_error(&self, raw: &RawValue) -> Result<ServerAnswer, McpError> {
        let shows_urls = self.asker.as_ref().is_some_and(|asker| asker.modes().url);
        let error = protocol_error(raw);
        match (elicitation::required_urls(raw).filter(|_| shows_urls), &error) {
            (Some(urls), McpError::Protocol { message, .. }) => {
                Ok(ServerAnswer::Call(CallAnswer::UrlsRequired(urls, message.clone())))
            }
            _ => Err(error),
        }
    }

    fn can_ask(&self, question: &Elicitation) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.modes().can_show(question))
    }
}

/// Counts a question as open until it is dropped.
struct OpenQuestion<'a>(&'a PendingRequest);

impl<'a> OpenQuestion<'a> {
    fn begin(of: &'a PendingRequest) -> Self {
        of.open_questions.fetch_add(1, Ordering::AcqRel);
        Self(of)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.open_questions.fetch_sub(1, Ordering::AcqRel);
        // The idle timeout begins anew.
        self.0.activity.notify_one();
    }
}

/// The trace that a request continues.
pub(super) fn traceparent(message: &ClientJsonRpcMessage) -> Option<&str> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    request.request.get_meta().get_traceparent()
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
        pending.end_questions();
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

    /// Delivers an error of the server; `false` if the request is not pending.
    pub(super) fn refuse(&self, id: i64, raw: &RawValue) -> bool {
        self.find(id).map(|pending| pending.resolve(pending.read_error(raw))).is_some()
    }

    /// Keeps a question of the server until its request is handled. It belongs to the call on whose stream it came; if that
    /// says nothing, to the only call that is pending. Others are not asked to anybody. Returns whether it is kept.
    pub(super) fn add_question(&self, id: RequestId, on: Option<i64>, question: Elicitation) -> bool {
        let mut registered = self.0.lock();
        let call = match on {
            Some(id) => registered.by_id.get(&id).cloned(),
            None => {
                let mut calls = registered.by_id.values().filter(|pending| pending.asks == RequestKind::Call);
                calls.next().filter(|_| calls.next().is_none()).cloned()
            }
        };
        let Some(call) = call.filter(|call| call.can_ask(&question)) else { return false };
        registered.questions.insert(id, CallQuestion { question, call });
        true
    }

    /// Takes a question of the server; `None` if nobody can be asked.
    pub(super) fn take_question(&self, id: &RequestId) -> Option<CallQuestion> {
        self.0.lock().questions.remove(id)
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
