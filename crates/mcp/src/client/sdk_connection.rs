//! A connection maintained by the SDK, and calls over it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientNotification, ClientRequest, GetExtensions, JsonObject, ListToolsRequest, NumberOrString,
    PaginatedRequestParams, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RunningService, ServiceError};
use serde_json::Value;
use tokio::sync::{Mutex, oneshot};

use super::elicitation;
use super::failure;
use super::handler::Handler;
use super::listing;
use super::message_router::MessageRouter;
use super::pending::{PendingRequest, RequestKind, RequestTag, ServerAnswer, token_number};
use super::protocol_error::unsupported;
use super::results::CallAnswer;
use crate::connection::{
    CallMeta, Connection, RemoteCall, RemoteResult, RemoteTools, ServerInfo, TaskLook, TaskState,
};
use crate::context::{self, CALLBACK_KEY, CallerContext, callback_value};
use crate::error::{McpError, TimeoutKind};
use crate::task::RemoteTask;
use antwort_config::ElicitationPolicy;
use antwort_protocol::elicitation::{ElicitationAction, ElicitationAnswer};
use antwort_tools::verbatim::Verbatim;
use antwort_tools::{Asker, GivenInput, Progress, RequiredInput};

/// Maximum number of times that a server may request input during one call.
const MAX_INPUT_ROUNDS: u32 = 5;
/// Time for deleting the session or for the exit of the program.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);
/// The code of a call that must be a task, and is none.
const METHOD_NOT_FOUND: i64 = -32601;
/// How long a server keeps a task whose call waits for it.
const AWAITED_TASK_TTL: Duration = Duration::from_hours(1);
/// For requests whose caller applies its own timeout.
pub(super) const NO_IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// The SDK's side of a connection.
pub(super) type SdkService = RunningService<RoleClient, Handler>;

/// A connection maintained by the SDK.
pub(super) struct SdkConnection {
    pub(super) peer: Peer<RoleClient>,
    /// Closes the connection on drop.
    service: Mutex<Option<SdkService>>,
    router: Arc<MessageRouter>,
    info: ServerInfo,
    pub(super) elicitation: ElicitationPolicy,
}

/// Responses to a server's input requests, and its opaque state.
type Replies = (std::collections::BTreeMap<String, Value>, Option<String>);

impl SdkConnection {
    /// Wraps an initialized connection.
    pub(super) fn new(service: SdkService, router: Arc<MessageRouter>, transport: &'static str) -> Arc<Self> {
        let known = service.peer().peer_info();
        let program = known.as_ref().and_then(|info| info.server_info.clone());
        let (name, version) = program.map(|program| (program.name, program.version)).unwrap_or_default();
        let protocol = known.map(|info| info.protocol_version.to_string()).unwrap_or_default();
        Arc::new(Self {
            peer: service.peer().clone(),
            elicitation: service.service().elicitation,
            service: Mutex::new(Some(service)),
            router,
            info: ServerInfo { name, version, protocol, transport },
        })
    }

    pub(super) async fn request(
        &self,
        mut request: ClientRequest,
        meta: JsonObject,
        pending: &Arc<PendingRequest>,
        idle: Duration,
    ) -> Result<ServerAnswer, McpError> {
        request.extensions_mut().insert(RequestTag(Arc::clone(pending)));
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject::from(meta));
        let handle = self.peer.send_cancellable_request(request, options).await;
        let Ok(handle) = handle else { return Err(self.connection_error(pending)) };
        let token = token_number(&handle.progress_token);
        let mut in_flight = InFlightRequest { session: self, id: handle.id, token, pending, finished: false };
        in_flight.wait(handle.rx, idle).await
    }

    async fn page(
        &self,
        cursor: Option<String>,
        context: Option<&CallerContext>,
    ) -> Result<listing::Page, McpError> {
        let pending = PendingRequest::new(RequestKind::Page, Progress::none());
        let request = match cursor {
            Some(_) => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor)),
            None => ListToolsRequest::default(),
        };
        let meta = meta(CallMeta { context, ..CallMeta::default() });
        match self.request(ClientRequest::ListToolsRequest(request), meta, &pending, NO_IDLE_TIMEOUT).await? {
            ServerAnswer::Page(page) => Ok(page),
            ServerAnswer::Call(_) | ServerAnswer::Task(_) | ServerAnswer::Empty => {
                Err(McpError::Malformed("the response is not a tool list".to_owned()))
            }
        }
    }

    /// The error of a request after the connection was closed.
    fn connection_error(&self, pending: &PendingRequest) -> McpError {
        let why = self.router.why_closed();
        if pending.was_sent() { McpError::Broken(why) } else { McpError::Connect(why) }
    }
}

#[async_trait]
impl Connection for SdkConnection {
    fn server(&self) -> &ServerInfo {
        &self.info
    }

    async fn list_tools(&self, max: usize, context: Option<&CallerContext>) -> Result<RemoteTools, McpError> {
        let (limit, server) = (self.router.limit, &*self.router.server);
        listing::fetch_all(max, limit, server, |cursor| self.page(cursor, context)).await
    }

    async fn call_tool(&self, call: RemoteCall<'_>, progress: &Progress) -> Result<RemoteResult, McpError> {
        let (rounds, mut replies) = match call.input {
            Some(input) => (input.rounds, replies(input)?),
            None => (0, None),
        };
        let ttl = call.detach.unwrap_or(AWAITED_TASK_TTL);
        let mut asks_for_task = call.asks_for_task;
        for round in rounds..MAX_INPUT_ROUNDS {
            let pending = PendingRequest::call(progress.clone(), call.exact_arguments, call.asker);
            if asks_for_task && self.router.makes_tasks() {
                pending.as_task(ttl);
            }
            let request = CallToolRequest::new(parameters(&call, replies.clone()));
            let request = ClientRequest::CallToolRequest(request);
            let answer = match self.request(request, meta(call.meta), &pending, call.idle).await {
                // A tool that must be called as a task, which its list did not say. The call was not processed.
                Err(McpError::Protocol { code: METHOD_NOT_FOUND, .. })
                    if !asks_for_task && self.router.makes_tasks() =>
                {
                    asks_for_task = true;
                    continue;
                }
                answer => answer?,
            };
            let required = match answer {
                ServerAnswer::Call(CallAnswer::Done(result)) => return Ok(result),
                ServerAnswer::Call(CallAnswer::InputRequired(requests)) => {
                    let modes = call.asker.map(Asker::modes).unwrap_or_default();
                    elicitation::split(requests, modes, self.elicitation)?
                }
                ServerAnswer::Call(CallAnswer::UrlsRequired(urls, why)) => {
                    let questions =
                        (0..).zip(urls).map(|(key, url): (u32, _)| (key.to_string(), url)).collect();
                    RequiredInput { questions, refusal: Some(why), ..RequiredInput::default() }
                }
                ServerAnswer::Call(CallAnswer::Task(task)) => {
                    return Ok(RemoteResult { task: Some(Box::new(task)), ..RemoteResult::default() });
                }
                ServerAnswer::Page(_) | ServerAnswer::Task(_) | ServerAnswer::Empty => {
                    return Err(McpError::Malformed("the response is not a tool result".to_owned()));
                }
            };
            // Nobody is asked for an answer that the server does not get.
            if round + 1 == MAX_INPUT_ROUNDS {
                break;
            }
            if !required.questions.is_empty() {
                let requires_input = Some(Box::new(required));
                return Ok(RemoteResult { requires_input, ..RemoteResult::default() });
            }
            replies = Some((elicitation::replies(&required.answered), required.state));
        }
        Err(unsupported("requests input too often during the call"))
    }

    async fn task_state(&self, look: TaskLook<'_>) -> Result<TaskState, McpError> {
        self.look_at_task(look).await
    }

    fn cancel_task(&self, task: &RemoteTask) {
        self.cancel_task_now(task);
    }

    fn tools_version(&self) -> u64 {
        self.router.tools_version()
    }

    fn is_closed(&self) -> bool {
        self.router.closed.is_cancelled() || self.peer.is_transport_closed()
    }

    fn is_lost(&self) -> bool {
        self.router.is_lost()
    }

    fn why_given_up(&self) -> Option<String> {
        self.router.why_given_up()
    }

    async fn close(&self) {
        let Some(mut service) = self.service.lock().await.take() else { return };
        // Fail pending requests now rather than after the graceful close.
        self.router.close("the session was closed");
        let _reason = service.close_with_timeout(CLOSE_TIMEOUT).await;
    }
}

impl Drop for SdkConnection {
    fn drop(&mut self) {
        self.router.close("the session was closed");
    }
}

/// A sent request. Dropped before its response, it sends a cancellation.
struct InFlightRequest<'a> {
    session: &'a SdkConnection,
    id: RequestId,
    token: Option<i64>,
    pending: &'a Arc<PendingRequest>,
    finished: bool,
}

type SdkReply = Result<Result<ServerResult, ServiceError>, oneshot::error::RecvError>;

impl InFlightRequest<'_> {
    async fn wait(
        &mut self,
        mut reply: oneshot::Receiver<Result<ServerResult, ServiceError>>,
        idle: Duration,
    ) -> Result<ServerAnswer, McpError> {
        let idle_timer = tokio::time::sleep(idle);
        tokio::pin!(idle_timer);
        loop {
            tokio::select! {
                biased;
                reply = &mut reply => {
                    self.finished = true;
                    return self.outcome(reply);
                }
                () = self.session.router.closed.cancelled() => {
                    self.finished = true;
                    return self.pending.take().unwrap_or_else(|| Err(self.session.connection_error(self.pending)));
                }
                () = self.pending.activity.notified() => {
                    idle_timer.as_mut().reset(tokio::time::Instant::now() + idle);
                }
                () = &mut idle_timer => {
                    if self.pending.waits_for_user() {
                        idle_timer.as_mut().reset(tokio::time::Instant::now() + idle);
                        continue;
                    }
                    // Dropping `self` sends the cancellation.
                    return Err(McpError::Timeout { after: idle, limit: TimeoutKind::Idle });
                }
            }
        }
    }

    fn outcome(&self, reply: SdkReply) -> Result<ServerAnswer, McpError> {
        if let Some(answer) = self.pending.take() {
            return answer;
        }
        let gone = || self.session.connection_error(self.pending);
        Err(match reply {
            Ok(Err(error)) => match failure::from_request_error(error, gone) {
                McpError::Broken(_) if !self.pending.was_sent() => gone(),
                error => error,
            },
            Ok(Ok(_)) => McpError::Malformed("the response does not match the request".to_owned()),
            Err(_) => gone(),
        })
    }

    fn cancel(&self) {
        let reason = Some("the caller stopped waiting".to_owned());
        let cancelled = CancelledNotificationParam::new(Some(self.id.clone()), reason);
        let notice = ClientNotification::CancelledNotification(CancelledNotification::new(cancelled));
        // Polled once, which queues the notification; sending it is not awaited.
        let _queued = tokio::task::unconstrained(self.session.peer.send_notification(notice)).now_or_never();
    }
}

impl Drop for InFlightRequest<'_> {
    fn drop(&mut self) {
        if let NumberOrString::Number(id) = self.id {
            self.session.router.pending.abandon(id, self.token, self.pending);
        }
        if !self.finished {
            self.cancel();
        }
    }
}

/// The answers with which a call is repeated; none if it had only to wait for the user. An error if the user did not agree.
fn replies(input: &GivenInput) -> Result<Option<Replies>, McpError> {
    let Some(refusal) = &input.refusal else {
        return Ok(Some((elicitation::replies(&input.answers), input.state.clone())));
    };
    let is_accepted = |answer: &ElicitationAnswer| answer.action == ElicitationAction::Accept;
    match input.answers.values().all(is_accepted) {
        true => Ok(None),
        false => Err(elicitation::refused(refusal)),
    }
}

pub(super) fn parameters(call: &RemoteCall<'_>, replies: Option<Replies>) -> CallToolRequestParams {
    // The SDK's arguments are replaced on sending if it would round numbers, but it also derives headers from them.
    let exact = call.exact_arguments.and_then(|raw| Verbatim::parse(raw.get()));
    let arguments = match exact.map(|exact| exact.to_value_with_digits()) {
        Some(Value::Object(exact)) => exact,
        _ => call.arguments.clone(),
    };
    let parameters = CallToolRequestParams::new(call.name.to_owned()).with_arguments(arguments);
    let Some((replies, state)) = replies else { return parameters };
    let mut parameters = parameters.with_input_responses(replies);
    parameters.request_state = state;
    parameters
}

/// `_meta` of requests for tasks.
pub(super) fn context_meta(context: Option<&CallerContext>) -> JsonObject {
    meta(CallMeta { context, ..CallMeta::default() })
}

fn meta(call: CallMeta<'_>) -> JsonObject {
    let named = [("antwort/idempotency-key", call.idempotency_key), ("traceparent", call.traceparent)];
    let context = call.context.map(|caller| (context::META_KEY.to_owned(), caller.members().clone().into()));
    let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?))));
    let callback = call.callback.map(|address| (CALLBACK_KEY.to_owned(), callback_value(address)));
    named.chain(context).chain(callback).collect()
}
