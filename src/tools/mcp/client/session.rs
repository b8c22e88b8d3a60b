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

use super::calls::{Answer, Asks, Carried, Slot, token_number};
use super::failure;
use super::handler::{self, Handler};
use super::listing::{self, Pages};
use super::results::{CallAnswer, Questions, unsupported};
use super::wire::Wire;
use crate::config::Elicitation;
use crate::tools::Progress;
use crate::tools::mcp::connection::{
    CallMeta, Connection, RemoteCall, RemoteResult, RemoteTools, ServerInfo,
};
use crate::tools::mcp::context::{self, CallerContext};
use crate::tools::mcp::error::{Deadline, McpError};
use crate::tools::verbatim::Verbatim;

/// How often a server may ask for something before a call is done.
const MOST_ROUNDS: usize = 4;
/// For the session to be deleted, and the program to end.
const CLOSING: Duration = Duration::from_secs(8);
/// Where no sign of life is expected: whoever asks has a limit of its own.
const EVER: Duration = Duration::from_hours(24);

/// The SDK's end of a connection.
pub(super) type Service = RunningService<RoleClient, Handler>;

/// A connection.
pub(super) struct Session {
    peer: Peer<RoleClient>,
    /// Ends the connection when it is dropped.
    service: Mutex<Option<Service>>,
    wire: Arc<Wire>,
    info: ServerInfo,
    elicitation: Elicitation,
}

/// What is sent along with a second try of a call: the server's questions answered.
type Replies = (std::collections::BTreeMap<String, Value>, Option<String>);

impl Session {
    /// A connection on which hands were shaken.
    pub fn new(service: Service, wire: Arc<Wire>, transport: &'static str) -> Arc<Self> {
        let known = service.peer().peer_info();
        let program = known.as_ref().and_then(|info| info.server_info.clone());
        let (name, version) = program.map(|program| (program.name, program.version)).unwrap_or_default();
        let protocol = known.map(|info| info.protocol_version.to_string()).unwrap_or_default();
        Arc::new(Self {
            peer: service.peer().clone(),
            elicitation: service.service().elicitation,
            service: Mutex::new(Some(service)),
            wire,
            info: ServerInfo { name, version, protocol, transport },
        })
    }

    async fn ask(
        &self,
        mut request: ClientRequest,
        meta: JsonObject,
        slot: &Arc<Slot>,
        idle: Duration,
    ) -> Result<Answer, McpError> {
        request.extensions_mut().insert(Carried(Arc::clone(slot)));
        let options = PeerRequestOptions::no_options().with_meta(RequestMetaObject::from(meta));
        let sent = self.peer.send_cancellable_request(request, options).await;
        let Ok(handle) = sent else { return Err(self.gone(slot)) };
        let token = token_number(&handle.progress_token);
        let mut flight = Flight { session: self, id: handle.id, token, slot, landed: false };
        flight.land(handle.rx, idle).await
    }

    async fn page(
        &self,
        cursor: Option<String>,
        context: Option<&CallerContext>,
    ) -> Result<listing::Page, McpError> {
        let slot = Slot::new(Asks::Page, Progress::none());
        let request = match cursor {
            Some(_) => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor)),
            None => ListToolsRequest::default(),
        };
        let meta = meta(CallMeta { context, ..CallMeta::default() });
        match self.ask(ClientRequest::ListToolsRequest(request), meta, &slot, EVER).await? {
            Answer::Page(page) => Ok(page),
            Answer::Call(_) => Err(McpError::Malformed("it is no list".to_owned())),
        }
    }

    /// Answers a server's questions for the user, as far as they are the user's.
    fn reply(&self, questions: Questions) -> Result<Replies, McpError> {
        let Some(action) = handler::reply(self.elicitation) else {
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
    fn gone(&self, slot: &Slot) -> McpError {
        let why = self.wire.why_closed();
        if slot.was_sent() { McpError::Broken(why) } else { McpError::Connect(why) }
    }
}

#[async_trait]
impl Connection for Session {
    fn server(&self) -> &ServerInfo {
        &self.info
    }

    async fn list_tools(
        &self,
        most: usize,
        context: Option<&CallerContext>,
    ) -> Result<RemoteTools, McpError> {
        let mut pages = Pages::new(most, self.wire.limit);
        let mut next = pages.add(self.page(None, context).await?, &self.wire.server);
        while let Some(cursor) = next {
            next = pages.add(self.page(Some(cursor), context).await?, &self.wire.server);
        }
        Ok(pages.all)
    }

    async fn call_tool(&self, call: RemoteCall<'_>, progress: &Progress) -> Result<RemoteResult, McpError> {
        let mut replies = None;
        for _ in 0..MOST_ROUNDS {
            let slot = Slot::with_arguments(Asks::Call, progress.clone(), call.exact_arguments);
            let request = CallToolRequest::new(parameters(&call, replies));
            let request = ClientRequest::CallToolRequest(request);
            match self.ask(request, meta(call.meta), &slot, call.idle).await? {
                Answer::Call(CallAnswer::Done(result)) => return Ok(result),
                Answer::Call(CallAnswer::Asks(questions)) => replies = Some(self.reply(questions)?),
                Answer::Page(_) => return Err(McpError::Malformed("it is no result".to_owned())),
            }
        }
        Err(unsupported("asks again and again for something in the middle of the call"))
    }

    fn tools_version(&self) -> u64 {
        self.wire.tools_version()
    }

    fn is_closed(&self) -> bool {
        self.wire.closed.is_cancelled() || self.peer.is_transport_closed()
    }

    fn is_lost(&self) -> bool {
        self.wire.is_lost()
    }

    fn why_given_up(&self) -> Option<String> {
        self.wire.why_given_up()
    }

    async fn close(&self) {
        let Some(mut service) = self.service.lock().await.take() else { return };
        // Whoever waits for an answer need not wait for the end as well.
        self.wire.close("it was closed");
        let _reason = service.close_with_timeout(CLOSING).await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.wire.close("it was closed");
    }
}

/// A request that was sent. Dropped before the answer is there, it tells the server so.
struct Flight<'a> {
    session: &'a Session,
    id: RequestId,
    token: Option<i64>,
    slot: &'a Arc<Slot>,
    landed: bool,
}

type Told = Result<Result<ServerResult, ServiceError>, oneshot::error::RecvError>;

impl Flight<'_> {
    async fn land(
        &mut self,
        mut told: oneshot::Receiver<Result<ServerResult, ServiceError>>,
        idle: Duration,
    ) -> Result<Answer, McpError> {
        let silence = tokio::time::sleep(idle);
        tokio::pin!(silence);
        loop {
            tokio::select! {
                biased;
                told = &mut told => {
                    self.landed = true;
                    return self.outcome(told);
                }
                () = self.session.wire.closed.cancelled() => {
                    self.landed = true;
                    return self.slot.take().unwrap_or_else(|| Err(self.session.gone(self.slot)));
                }
                () = self.slot.life.notified() => {
                    silence.as_mut().reset(tokio::time::Instant::now() + idle);
                }
                // The server is told that it is cancelled when the flight is dropped.
                () = &mut silence => return Err(McpError::Timeout { after: idle, limit: Deadline::Silence }),
            }
        }
    }

    fn outcome(&self, told: Told) -> Result<Answer, McpError> {
        if let Some(answer) = self.slot.take() {
            return answer;
        }
        let gone = || self.session.gone(self.slot);
        Err(match told {
            Ok(Err(error)) => match failure::of_request(error, gone) {
                McpError::Broken(_) if !self.slot.was_sent() => gone(),
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

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let NumberOrString::Number(id) = self.id {
            self.session.wire.calls.forget(id, self.token, self.slot);
        }
        if !self.landed {
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
    let context = call.context.map(|told| (context::NAME.to_owned(), told.members().clone().into()));
    let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?))));
    named.chain(context).collect()
}
