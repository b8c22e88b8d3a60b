//! The agentic loop: one way in for every transport, one stream of events out.
//!
//! `prepare` makes a request ready (history, tools, echo), `run` drives the model and ends the response,
//! `gate` enforces what the client allowed, `outlet` is where events leave, `record` is what is kept, `states` gives
//! providers back what is theirs.

mod approvals;
mod call_filter;
mod choice;
mod compaction;
#[cfg(test)]
mod complexity_tests;
mod conversation;
mod echo;
mod event_sink;
mod history;
mod in_flight;
mod journal;
mod limits;
mod mcp;
mod mcp_phase;
mod offered_tools;
mod own_tools;
mod prepare;
mod profile;
mod record;
mod redaction;
mod retry;
mod run;
mod run_summary;
mod sampling;
mod search;
mod states;
mod structured;
mod tool_executor;
mod tool_phase;
mod tool_scope;
mod truncate;
mod wire_names;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use secrecy::SecretString;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;
use tracing::Instrument;

use crate::admission::{Admission, Requester};
use crate::config::settings::{AgentSettings, EngineSettings, ToolsSettings, UnknownFields};
use crate::protocol::dialect::Dialect;
use crate::protocol::error::ApiError;
use crate::protocol::event::EventEncoder;
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::protocol::request::{ClientActionStatus, CreateResponse};
use crate::provider::routing::ProviderRouter;
use crate::response::machine::Events;
use crate::response::seal::SealKeys;
use crate::store::{Owner, Store};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::request_log::RequestLog;
use crate::tools::ToolRegistry;
use crate::tools::mcp::McpServers;

pub(crate) use event_sink::RunOutput;
pub(crate) use in_flight::{AdmittedRequest, InFlight};
pub(crate) use offered_tools::OnUnservedTool;
pub(crate) use sampling::EngineSampler;

/// What the engine works with.
pub struct EngineParts {
    /// The model servers.
    pub router: Arc<ProviderRouter>,
    /// Where responses are kept.
    pub store: Arc<dyn Store>,
    /// Seals provider state.
    pub seal: Arc<SealKeys>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The tools that the gateway runs.
    pub toolbox: Arc<ToolRegistry>,
    /// Servers of more tools.
    pub mcp: Arc<McpServers>,
    /// Says, once the last engine that has these tools is gone, that they may be let go.
    pub tools_in_use: Arc<DropGuard>,
    /// Agent profiles by name.
    pub agents: Arc<BTreeMap<String, AgentSettings>>,
    /// Who may do how much at a time.
    pub admission: Arc<Admission>,
    /// What a shutdown has to wait for; of all engines of the process.
    pub in_flight: Arc<InFlight>,
    /// How responses are made.
    pub options: EngineOptions,
}

/// The settings that the engine heeds.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// How responses are made.
    pub engine: EngineSettings,
    /// Whether and how tools are run.
    pub tools: Arc<ToolsSettings>,
    /// Fields that nobody knows.
    pub unknown_fields: UnknownFields,
    /// When status 200 is sent though the provider has said nothing.
    pub commit_after: Duration,
    /// How long a reader may take nothing.
    pub write_timeout: Duration,
}

/// Makes responses.
pub struct Engine {
    parts: EngineParts,
}

/// Who asks, and how they want to be answered.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Whose response it will be.
    pub owner: Owner,
    /// The name of the key that it is asked for with, whose share of all runs it takes.
    pub key: Arc<str>,
    /// Names on the wire.
    pub dialect: Dialect,
    /// Status of a response that waits for the client's functions, if key or client decide it.
    pub client_action_status: Option<ClientActionStatus>,
    /// Names the request in logs, ours and the provider's.
    pub request_id: String,
    /// Where what the run comes to is told, if it is of a request over HTTP.
    pub log: Option<Arc<RequestLog>>,
    /// The caller's trace, to be continued upstream.
    pub traceparent: Option<String>,
    /// What happens to tools that are not served here.
    pub unserved_tools: OnUnservedTool,
    /// The caller's own credentials, where an MCP server is configured to get them.
    pub authorization: Option<SecretString>,
}

impl RunContext {
    /// Whose share of what is shared it takes.
    fn requester(&self) -> Requester {
        Requester::new(&self.owner.tenant, &self.key)
    }
}

/// A run that has been started. Dropping it cancels the run.
pub struct RunHandle {
    /// The response's id.
    pub id: Id,
    /// How its events are written.
    pub encoding: EventEncoder,
    /// Request fields that were ignored, where the configuration says so.
    pub ignored: Vec<String>,
    /// Types of tools that are not served here and were left out.
    pub omitted_tools: Vec<&'static str>,
    /// Of a compaction: the messages that stay as they are beside its summary.
    pub retained: Vec<Item>,
    events: mpsc::Receiver<RunOutput>,
}

impl RunHandle {
    /// The first events, or the error that is the whole answer.
    pub async fn first(&mut self) -> Result<Events, ApiError> {
        match self.events.recv().await {
            Some(RunOutput::Events(events)) => Ok(events),
            Some(RunOutput::Rejected(error)) => Err(*error),
            None => Err(ApiError::internal()),
        }
    }

    /// More events; `None` after the terminal one.
    pub async fn next(&mut self) -> Option<Events> {
        match self.events.recv().await {
            Some(RunOutput::Events(events)) => Some(events),
            Some(RunOutput::Rejected(_)) | None => None,
        }
    }
}

impl Engine {
    /// An engine that has nothing to do yet.
    pub fn new(parts: EngineParts) -> Arc<Self> {
        Arc::new(Self { parts })
    }

    /// Starts a response, once there is room for it. The only way to one, whatever the transport.
    pub async fn start(
        self: &Arc<Self>,
        request: CreateResponse,
        caller: RunContext,
    ) -> Result<RunHandle, ApiError> {
        let started = Instant::now();
        self.check_storage(&request).await?;
        let admitted = self.admit(&caller.requester()).await?;
        let mut prepared =
            admitted.run_until_aborted(pin!(prepare::prepare(&self.parts, request, &caller))).await??;
        let (outlet, events) = event_sink::EventSink::new(self.parts.options.write_timeout);
        let handle = RunHandle {
            id: prepared.response.id.clone(),
            encoding: prepared.encoding,
            ignored: prepared.ignored.clone(),
            omitted_tools: prepared.offer.omitted.clone(),
            retained: std::mem::take(&mut prepared.retained),
            events,
        };
        let memory = std::mem::take(&mut prepared.memory_permits);
        // On the heap before it is spawned: a run is large, and would be copied on its way there.
        let run = Box::new(run::Run::new(Arc::clone(self), prepared, caller, outlet, started));
        // The run outlives the request's handler and still belongs to its trace.
        let span = tracing::Span::current();
        let task = async move {
            run.drive().await;
            drop((memory, admitted));
        };
        #[expect(clippy::disallowed_methods, reason = "a shutdown waits for what was admitted")]
        tokio::spawn(task.instrument(span));
        Ok(handle)
    }

    /// Nobody is asked for what could not be kept.
    async fn check_storage(&self, request: &CreateResponse) -> Result<(), ApiError> {
        if request.store && self.parts.store.is_impaired() {
            self.parts.store.check_writable().await?;
        }
        Ok(())
    }

    /// A place among those who run something, until it is dropped; also for what is no response. Waits for it within
    /// `server.queue_timeout`.
    pub async fn admit(&self, requester: &Requester) -> Result<AdmittedRequest, ApiError> {
        self.parts.in_flight.admit(&self.parts.admission.runs, requester).await
    }

    /// Who may do how much at a time.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.parts.admission
    }

    /// The model servers.
    pub fn router(&self) -> &Arc<ProviderRouter> {
        &self.parts.router
    }

    /// The tools that the gateway runs.
    pub fn toolbox(&self) -> &Arc<ToolRegistry> {
        &self.parts.toolbox
    }

    /// Servers of more tools.
    pub fn mcp(&self) -> &Arc<McpServers> {
        &self.parts.mcp
    }

    /// Agent profiles by name.
    pub fn agents(&self) -> &BTreeMap<String, AgentSettings> {
        &self.parts.agents
    }

    /// Where responses are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.parts.store
    }
}

/// Unix seconds now.
fn unix_now() -> i64 {
    jiff::Timestamp::now().as_second()
}
