//! A connection that the SDK keeps, and the calls over it.

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
use serde_json::{Value, json};
use tokio::sync::{Mutex, oneshot};

use super::failure;
use super::handler::{self, Handler};
use super::listing::{self, Pages};
use super::message_router::MessageRouter;
use super::pending::{PendingRequest, RequestKind, RequestTag, ServerAnswer, token_number};
use super::results::{CallAnswer, InputRequests, unsupported};
use crate::config::Elicitation;
use crate::tools::Progress;
use crate::tools::mcp::connection::{
    CallMeta, Connection, RemoteCall, RemoteResult, RemoteTools, ServerInfo,
};
use crate::tools::mcp::context::{self, CallerContext};
use crate::tools::mcp::error::{McpError, TimeoutKind};
use crate::tools::verbatim::Verbatim;

/// How often a server may ask for something before a call is done.
const MAX_INPUT_ROUNDS: usize = 4;
/// For the session to be deleted, and the program to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);
/// Where no sign of life is expected: whoever asks has a limit of its own.
const NO_IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// The SDK's end of a connection.
pub(super) type SdkService = RunningService<RoleClient, Handler>;

/// A connection.
pub(super) struct SdkConnection {
    peer: Peer<RoleClient>,
    /// Ends the connection when it is dropped.
    service: Mutex<Option<SdkService>>,
    router: Arc<MessageRouter>,
    info: ServerInfo,
    elicitation: Elicitation,
}

/// What is sent along with a second try of a call: the server's questions answered.
type Replies = (std::collections::BTreeMap<String, Value>, Option<String>);

impl SdkConnection {
    /// A connection on which hands were shaken.
    pub(super) fn new(service: SdkService, wire: Arc<MessageRouter>, transport: &'static str) -> Arc<Self> {
        let known = service.peer().peer_info();
        let program = known.as_ref().and_then(|info| info.server_info.clone());
        let (name, version) = program.map(|program| (program.name, program.version)).unwrap_or_default();
        let protocol = known.map(|info| info.protocol_version.to_string()).unwrap_or_default();
        Arc::new(Self {
            peer: service.peer().clone(),
            elicitation: service.service().elicitation,
            service: Mutex::new(Some(service)),
            router: wire,
            info: ServerInfo { name, version, protocol, transport },
        })
    }

    async fn ask(
        &self,
        mut request: ClientRequest,
        meta: JsonObject,
        slot: &Arc<PendingRequest>,
        idle: Duration,
    ) -> Result<ServerAnswer, McpError> {
        request.extensions_mut().insert(RequestTag(Arc::clone(slot)));
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject::from(meta));
        let sent = self.peer.send_cancellable_request(request, options).await;
        let Ok(handle) = sent else { return Err(self.connection_error(slot)) };
        let token = token_number(&handle.progress_token);
        let mut flight =
            InFlightRequest { session: self, id: handle.id, token, pending: slot, finished: false };
        flight.wait(handle.rx, idle).await
    }

    async fn page(
        &self,
        cursor: Option<String>,
        context: Option<&CallerContext>,
    ) -> Result<listing::Page, McpError> {
        let slot = PendingRequest::new(RequestKind::Page, Progress::none());
        let request = match cursor {
            Some(_) => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor)),
            None => ListToolsRequest::default(),
        };
        let meta = meta(CallMeta { context, ..CallMeta::default() });
        match self.ask(ClientRequest::ListToolsRequest(request), meta, &slot, NO_IDLE_TIMEOUT).await? {
            ServerAnswer::Page(page) => Ok(page),
            ServerAnswer::Call(_) => Err(McpError::Malformed("it is no list".to_owned())),
        }
    }

    /// Answers a server's questions for the user, as far as they are the user's.
    fn reply(&self, questions: InputRequests) -> Result<Replies, McpError> {
        let Some(action) = handler::elicitation_action(self.elicitation) else {
            return Err(unsupported("asks for something in the middle of the call, and nobody can be asked"));
        };
        let mut replies = std::collections::BTreeMap::new();
        for (name, method) in questions.methods {
            if method != "elicitation/create" {
                return Err(unsupported(&format!("asks for {method} in the middle of the call")));
            }
            replies.insert(name, json!({ "action": action }));
        }
        Ok((replies, questions.state))
    }

    /// There is no connection any more.
    fn connection_error(&self, slot: &PendingRequest) -> McpError {
        let why = self.router.why_closed();
        if slot.was_sent() { McpError::Broken(why) } else { McpError::Connect(why) }
    }
}

#[async_trait]
impl Connection for SdkConnection {
    fn server(&self) -> &ServerInfo {
        &self.info
    }

    async fn list_tools(
        &self,
        most: usize,
        context: Option<&CallerContext>,
    ) -> Result<RemoteTools, McpError> {
        let mut pages = Pages::new(most, self.router.limit);
        let mut next = pages.add(self.page(None, context).await?, &self.router.server);
        while let Some(cursor) = next {
            next = pages.add(self.page(Some(cursor), context).await?, &self.router.server);
        }
        Ok(pages.all)
    }

    async fn call_tool(&self, call: RemoteCall<'_>, progress: &Progress) -> Result<RemoteResult, McpError> {
        let mut replies = None;
        for _ in 0..MAX_INPUT_ROUNDS {
            let slot =
                PendingRequest::with_arguments(RequestKind::Call, progress.clone(), call.exact_arguments);
            let request = CallToolRequest::new(parameters(&call, replies));
            let request = ClientRequest::CallToolRequest(request);
            match self.ask(request, meta(call.meta), &slot, call.idle).await? {
                ServerAnswer::Call(CallAnswer::Done(result)) => return Ok(result),
                ServerAnswer::Call(CallAnswer::InputRequired(questions)) => {
                    replies = Some(self.reply(questions)?);
                }
                ServerAnswer::Page(_) => return Err(McpError::Malformed("it is no result".to_owned())),
            }
        }
        Err(unsupported("asks again and again for something in the middle of the call"))
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
        // Whoever waits for an answer need not wait for the end as well.
        self.router.close("it was closed");
        let _reason = service.close_with_timeout(CLOSE_TIMEOUT).await;
    }
}

impl Drop for SdkConnection {
    fn drop(&mut self) {
        self.router.close("it was closed");
    }
}

/// A request that was sent. Dropped before the answer is there, it tells the server so.
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
        mut told: oneshot::Receiver<Result<ServerResult, ServiceError>>,
        idle: Duration,
    ) -> Result<ServerAnswer, McpError> {
        let silence = tokio::time::sleep(idle);
        tokio::pin!(silence);
        loop {
            tokio::select! {
                biased;
                told = &mut told => {
                    self.finished = true;
                    return self.outcome(told);
                }
                () = self.session.router.closed.cancelled() => {
                    self.finished = true;
                    return self.pending.take().unwrap_or_else(|| Err(self.session.connection_error(self.pending)));
                }
                () = self.pending.activity.notified() => {
                    silence.as_mut().reset(tokio::time::Instant::now() + idle);
                }
                // The server is told that it is cancelled when the flight is dropped.
                () = &mut silence => return Err(McpError::Timeout { after: idle, limit: TimeoutKind::Idle }),
            }
        }
    }

    fn outcome(&self, told: SdkReply) -> Result<ServerAnswer, McpError> {
        if let Some(answer) = self.pending.take() {
            return answer;
        }
        let gone = || self.session.connection_error(self.pending);
        Err(match told {
            Ok(Err(error)) => match failure::from_request_error(error, gone) {
                McpError::Broken(_) if !self.pending.was_sent() => gone(),
                error => error,
            },
            Ok(Ok(_)) => McpError::Malformed("it answers something else".to_owned()),
            Err(_) => gone(),
        })
    }

    fn cancel(&self) {
        let reason = Some("nobody waits for it any more".to_owned());
        let cancelled = CancelledNotificationParam::new(Some(self.id.clone()), reason);
        let notice = ClientNotification::CancelledNotification(CancelledNotification::new(cancelled));
        // The first step is to queue the notice, which is all that is wanted: nobody waits until it is sent.
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

fn parameters(call: &RemoteCall<'_>, replies: Option<Replies>) -> CallToolRequestParams {
    // The SDK's arguments are not those that are sent where it would round them, but it makes headers of them.
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

fn meta(call: CallMeta<'_>) -> JsonObject {
    let named = [("antwort/idempotency-key", call.idempotency_key), ("traceparent", call.traceparent)];
    let context = call.context.map(|told| (context::META_KEY.to_owned(), told.members().clone().into()));
    let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?))));
    named.chain(context).collect()
}
