//! Looks for the results of calls that go on as tasks of MCP servers. Any process looks, with what was sealed when the call
//! was made.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Engine;
use super::completions::FAILED;
use super::context::RunContext;
use crate::identity::Owner;
use crate::mcp::task::RemoteTask;
use crate::mcp::{McpCaller, McpError, OnBehalfOf, ServerHandle, TaskOutput};
use crate::protocol::elicitation::ElicitationModes;
use crate::protocol::parse::FromJson;
use crate::protocol::request::CreateResponse;
use crate::protocol::tool::{McpTool, Tool};
use crate::response::seal::SealKeys;
use crate::store::{AsyncResult, DueTask, PolledTask, StoreError};
use crate::telemetry::fields::RESPONSE_ID;
use crate::tools::{StartedTask, ToolError};

/// Calls that are looked at together, and at a time.
const BATCH: usize = 32;
const PARALLEL: usize = 8;
/// For how long no other process looks for the result of a call.
const LEASE: Duration = Duration::from_mins(2);
/// For how long a server is asked.
const TIMEOUT: Duration = Duration::from_secs(90);
/// When a server is asked again that could not be reached.
const RETRY: Duration = Duration::from_secs(30);
/// Executors of the tools of servers are named by the label of the server, or so, if a request has brought it.
const OF_SERVER: &str = "mcp:";
const OF_REQUEST: &str = "mcp:request";

/// What it takes to look, sealed: it holds credentials.
#[derive(Serialize, Deserialize)]
struct TaskTicket {
    /// The server as in `tools` of a request.
    server: Box<RawValue>,
    /// The name of the caller's API key.
    key: String,
    /// The caller's own credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization: Option<String>,
    /// Which session with the server it is.
    form: bool,
    url: bool,
    task: RemoteTask,
}

/// Where to look for the result of a call; `None` if that cannot be said.
pub(super) fn ticket(
    keys: &SealKeys,
    caller: &RunContext,
    (request, shows): (Option<&CreateResponse>, ElicitationModes),
    namespace: Option<&str>,
    started: &StartedTask,
) -> Option<PolledTask> {
    let ticket = TaskTicket {
        server: server(request, namespace, &started.executor)?,
        key: caller.key.to_string(),
        authorization: caller.authorization.as_ref().map(|secret| secret.expose_secret().to_owned()),
        form: shows.form,
        url: shows.url,
        task: serde_json::from_str(&started.state).ok()?,
    };
    let sealed = keys.seal_run(&caller.owner.tenant, &serde_json::to_vec(&ticket).ok()?)?;
    Some(PolledTask { sealed: sealed.into(), after: started.poll })
}

/// The server of an executor, with the credentials that the request has for it.
fn server(
    request: Option<&CreateResponse>,
    namespace: Option<&str>,
    executor: &str,
) -> Option<Box<RawValue>> {
    let label = match executor.strip_prefix(OF_SERVER)? {
        _ if executor == OF_REQUEST => namespace?,
        label => label,
    };
    let brought = request.into_iter().flat_map(|request| &request.tools).find_map(|tool| match tool {
        Tool::Mcp(tool) if tool.server_label == label => Some(tool),
        _ => None,
    });
    if executor == OF_REQUEST && brought.is_none() {
        return None;
    }
    let mut fields = Map::new();
    fields.insert("type".to_owned(), "mcp".into());
    fields.insert("server_label".to_owned(), label.into());
    if let Some(tool) = brought {
        let headers: Map<String, Value> =
            tool.headers.iter().map(|(name, value)| (name.clone(), value.expose().into())).collect();
        fields.extend(tool.server_url.as_ref().map(|url| ("server_url".to_owned(), json!(url))));
        let token = tool.authorization.as_ref().map(|token| json!(token.expose()));
        fields.extend(token.map(|token| ("authorization".to_owned(), token)));
        if !headers.is_empty() {
            fields.insert("headers".to_owned(), headers.into());
        }
    }
    serde_json::value::to_raw_value(&fields).ok()
}

/// Why the result of a call is not there.
enum NotDone {
    /// It is looked for again after this time.
    Later(Duration),
    /// There will be none.
    Failed(ToolError),
}

impl From<McpError> for NotDone {
    fn from(error: McpError) -> Self {
        match error {
            McpError::Protocol { .. } => Self::Failed(error.into()),
            // The server may come back.
            _ => Self::Later(RETRY),
        }
    }
}

impl Engine {
    /// Looks for the results of calls that are due. Returns whether there may be more.
    pub(crate) async fn poll_tasks(self: &Arc<Self>) -> Result<bool, StoreError> {
        let due = self.parts.store.due_tasks(BATCH, LEASE).await?;
        let may_be_more = due.len() == BATCH;
        stream::iter(due).for_each_concurrent(PARALLEL, |task| self.poll_task(task)).await;
        Ok(may_be_more)
    }

    async fn poll_task(&self, due: DueTask) {
        let id = due.key.response.clone();
        if let Err(error) = self.look_at(due).await {
            tracing::warn!({ RESPONSE_ID } = id.as_str(), %error, "store: writing what has become of a task failed; retrying");
        }
    }

    async fn look_at(&self, due: DueTask) -> Result<(), StoreError> {
        let DueTask { key, sealed, is_wanted } = due;
        let ticket = self.parts.seal.open_run(&key.owner.tenant, &sealed);
        let ticket = ticket.and_then(|plain| serde_json::from_slice::<TaskTicket>(&plain).ok());
        let Some(ticket) = ticket else {
            tracing::warn!(
                { RESPONSE_ID } = key.response.as_str(),
                "a task was sealed with a key that is gone; nobody looks for its result"
            );
            return self.parts.store.poll_task(key, None).await;
        };
        if !is_wanted {
            self.cancel_task(&ticket, &key.owner).await;
            return self.parts.store.poll_task(key, None).await;
        }
        let state = tokio::time::timeout(TIMEOUT, self.output_of(&ticket, &key.owner)).await;
        let (output, error) = match state.unwrap_or(Err(NotDone::Later(RETRY))) {
            Ok(output) => output,
            Err(NotDone::Failed(error)) => (error.message, Some(error.code.as_str())),
            Err(NotDone::Later(after)) => {
                self.parts.in_flight.task_deadlines().add(after);
                return self.parts.store.poll_task(key, Some(after)).await;
            }
        };
        let timeout = self.parts.options.tools.callback_timeout;
        self.parts.store.complete_async(AsyncResult { key: key.clone(), output, error, timeout }).await?;
        self.parts.in_flight.result_reported();
        self.parts.store.poll_task(key, None).await
    }

    async fn output_of(
        &self,
        ticket: &TaskTicket,
        owner: &Owner,
    ) -> Result<(String, Option<&'static str>), NotDone> {
        let server = self.server_of(ticket, owner).await.ok_or(NotDone::Later(RETRY))?;
        match server.task_output(&ticket.task).await? {
            TaskOutput::Working(next) => Err(NotDone::Later(next)),
            TaskOutput::Done(output) => Ok((output.for_model, output.is_error.then_some(FAILED))),
        }
    }

    /// Tells the server that nobody waits for the result. If it cannot be reached, the task ends with its time.
    async fn cancel_task(&self, ticket: &TaskTicket, owner: &Owner) {
        let cancelled = async {
            let Some(server) = self.server_of(ticket, owner).await else { return };
            if let Err(error) = server.cancel_task(&ticket.task).await {
                tracing::debug!(%error, "cancelling a task of an MCP server failed");
            }
        };
        _ = tokio::time::timeout(TIMEOUT, cancelled).await;
    }

    /// A session with the server of a task.
    async fn server_of(&self, ticket: &TaskTicket, owner: &Owner) -> Option<ServerHandle> {
        let tool = McpTool::from_json(&ticket.server).ok()?;
        let (key, authorization) =
            (Arc::from(ticket.key.as_str()), ticket.authorization.clone().map(SecretString::from));
        let caller = McpCaller {
            tenant: &owner.tenant,
            key: &key,
            authorization: authorization.as_ref(),
            on_behalf_of: OnBehalfOf { principal: &owner.principal, ..OnBehalfOf::default() },
            shows: ElicitationModes { form: ticket.form, url: ticket.url },
        };
        let found = self.parts.mcp.find(&tool, caller).ok()?;
        self.parts.mcp.bind(vec![found], caller).await.ok()?.into_iter().next()
    }
}
