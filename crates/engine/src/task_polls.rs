//! Looks for the results of calls that go on as tasks of MCP servers. Any process looks, with what was sealed when the call
//! was made.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::completions::FAILED;
use super::context::{EngineParts, RunContext, unix_now};
use super::prompt::Prompt;
use super::run_spec::RunSpec;
use antwort_identity::Owner;
use antwort_mcp::task::RemoteTask;
use antwort_mcp::{McpCaller, OnBehalfOf, ServerHandle, TaskOutput, bearer};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_protocol::id::Id;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::response::ResponseStatus;
use antwort_protocol::tool::Tool;
use antwort_store::{AsyncCallKey, AsyncResult, DueTask, PolledTask, StoreError};
use antwort_telemetry::fields::RESPONSE_ID;
use antwort_tools::{StartedTask, ToolErrorCode};

/// For how long no other process looks for the result of a call: longer than a look takes.
const LEASE: Duration = Duration::from_mins(1);
/// How long a look takes at most.
const TIMEOUT: Duration = Duration::from_secs(20);
/// When a server is asked again that could not be asked.
const RETRY: Duration = Duration::from_secs(30);
/// The longest interval to which looks are slowed down as a task gets older, and the part of its age.
const MAX_SLOWED: Duration = Duration::from_mins(1);
const AGE_PER_POLL: u32 = 60;
/// What a call has whose result nobody can look for.
const UNREADABLE: &str = "the gateway cannot look for the result of this call any more";
/// What a call has whose task was cancelled with its response.
const CANCELLED: &str = "the response was cancelled, and the task of this call with it";
/// Executors of the tools of configured servers are named by the label of the server. Calls of others wait for their tasks.
const OF_SERVER: &str = "mcp:";

/// What it takes to look, sealed: it holds credentials.
#[derive(Serialize, Deserialize)]
struct TaskTicket {
    /// The label of the server.
    server: String,
    /// The name of the caller's API key.
    key: String,
    /// The caller's `Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization: Option<String>,
    /// Which session with the server it is.
    form: bool,
    url: bool,
    /// Of whom the server is told.
    user: Option<String>,
    channel: Option<String>,
    chat: Option<String>,
    /// In Unix seconds.
    started_at: i64,
    task: RemoteTask,
}

impl TaskTicket {
    /// A server that wants its task to be looked at often gets that for a short time.
    fn after(&self, asked: Duration) -> Duration {
        let age = u64::try_from(unix_now().saturating_sub(self.started_at)).unwrap_or_default();
        asked.max((Duration::from_secs(age) / AGE_PER_POLL).min(MAX_SLOWED))
    }
}

/// Where to look for the result of a call; `None` if that cannot be said.
pub(super) fn ticket(
    parts: &EngineParts,
    (spec, prompt, request): (&RunSpec, &Prompt, Option<&CreateResponse>),
    caller: &RunContext,
    started: &StartedTask,
) -> Option<PolledTask> {
    let server = started.executor.strip_prefix(OF_SERVER)?;
    let authorization = authorization(parts, request, caller, server);
    let echo = &spec.response.echo;
    let metadata = &prompt.request.hints.metadata;
    let note = |key: &str| metadata.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let ticket = TaskTicket {
        server: server.to_owned(),
        key: caller.key.to_string(),
        authorization: authorization.map(Cow::into_owned),
        form: spec.client.elicitation.form,
        url: spec.client.elicitation.url,
        user: echo.safety_identifier.clone().or_else(|| echo.user.clone()),
        channel: note("channel"),
        chat: note("chat_id"),
        started_at: unix_now(),
        task: serde_json::from_str(&started.state).ok()?,
    };
    let sealed = parts.seal.seal_run(&caller.owner.tenant, &serde_json::to_vec(&ticket).ok()?)?;
    let after = in_turn(parts, &caller.owner, server, started.poll);
    Some(PolledTask { sealed: sealed.into(), after })
}

/// After which time a task of this server is looked at.
fn in_turn(parts: &EngineParts, owner: &Owner, server: &str, asked: Duration) -> Duration {
    let per_second = parts.mcp.max_polls_per_second();
    parts.in_flight.poll_rates().turn(&owner.tenant, server, per_second, asked)
}

/// The `Authorization` for a server: that of the request, or else the caller's. Only for servers that are given it.
fn authorization<'a>(
    parts: &EngineParts,
    request: Option<&'a CreateResponse>,
    caller: &'a RunContext,
    label: &str,
) -> Option<Cow<'a, str>> {
    if !parts.mcp.uses_caller_credentials() {
        return None;
    }
    let tools = request.into_iter().flat_map(|request| &request.tools);
    let mut servers = tools.filter_map(|tool| match tool {
        Tool::Mcp(tool) if tool.server_label == label && tool.server_url.is_none() => Some(tool),
        _ => None,
    });
    let of_request = servers.next().and_then(|tool| tool.authorization.as_ref());
    let of_request = of_request.map(|token| bearer(token.expose()).into());
    of_request.or_else(|| caller.authorization.as_ref().map(|secret| secret.expose_secret().into()))
}

/// The text and the code of a result.
type TaskResult = (String, Option<&'static str>);

/// The result of a task whose response was cancelled.
pub(super) fn cancelled() -> TaskResult {
    (CANCELLED.to_owned(), Some(ToolErrorCode::Cancelled.as_str()))
}

/// [`Engine::due_tasks`](crate::Engine::due_tasks).
pub(crate) async fn due_tasks(parts: &EngineParts, limit: usize) -> Result<Vec<DueTask>, StoreError> {
    parts.store.due_tasks(limit, LEASE).await
}

/// [`Engine::poll_task`](crate::Engine::poll_task).
pub(crate) async fn poll_task(parts: &EngineParts, due: DueTask) {
    let id = due.key.response.clone();
    if let Err(error) = look_at(parts, due).await {
        tracing::warn!({ RESPONSE_ID } = id.as_str(), %error, "store: writing what has become of a task failed; retrying");
    }
}

async fn look_at(parts: &EngineParts, due: DueTask) -> Result<(), StoreError> {
    let DueTask { key, sealed, is_wanted } = due;
    let ticket = parts.seal.open_run(&key.owner.tenant, &sealed);
    let ticket = ticket.and_then(|plain| serde_json::from_slice::<TaskTicket>(&plain).ok());
    let found = match &ticket {
        None => {
            tracing::warn!(
                { RESPONSE_ID } = key.response.as_str(),
                "a task was sealed with a key that is gone"
            );
            Ok((UNREADABLE.to_owned(), Some(FAILED)))
        }
        Some(ticket) if !is_wanted => {
            cancel_task(parts, ticket, &key.owner).await;
            if !is_cancelled(parts, &key).await? {
                return parts.store.poll_task(key, None).await;
            }
            Ok(cancelled())
        }
        Some(ticket) => {
            let output = tokio::time::timeout(TIMEOUT, output_of(parts, ticket, &key.owner)).await;
            let next = |after| in_turn(parts, &key.owner, &ticket.server, ticket.after(after));
            output.unwrap_or(Err(RETRY)).map_err(next)
        }
    };
    match found {
        Ok((output, error)) => {
            let timeout = parts.options.tools.callback_timeout;
            let result = AsyncResult { key: key.clone(), output, error, timeout };
            parts.store.complete_async(result).await?;
            parts.in_flight.result_reported();
            parts.store.poll_task(key, None).await
        }
        Err(after) => {
            parts.store.poll_task(key, Some(after)).await?;
            parts.in_flight.task_deadlines().add(after);
            Ok(())
        }
    }
}

/// Whether the response of a call was cancelled.
async fn is_cancelled(parts: &EngineParts, key: &AsyncCallKey) -> Result<bool, StoreError> {
    #[derive(Deserialize)]
    struct Stored {
        status: ResponseStatus,
    }
    let body = parts.store.response(&key.owner, key.response.as_str(), u64::MAX).await?;
    let stored = body.and_then(|body| serde_json::from_str::<Stored>(&body).ok());
    Ok(stored.is_some_and(|stored| stored.status == ResponseStatus::Cancelled))
}

/// [`Engine::delete_response`](crate::Engine::delete_response).
pub(crate) async fn delete_response(
    parts: &Arc<EngineParts>,
    owner: &Owner,
    id: &Id,
) -> Result<bool, StoreError> {
    let store = &parts.store;
    let tasks = store.open_tasks(owner, id).await?;
    let is_deleted = store.delete(owner, id.as_str()).await?;
    if is_deleted && !tasks.is_empty() {
        let (parts, owner) = (Arc::clone(parts), owner.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "a server that is not told ends its task with its time"
        )]
        tokio::spawn(async move {
            for sealed in tasks {
                cancel_sealed(&parts, &sealed, &owner).await;
            }
        });
    }
    Ok(is_deleted)
}

async fn cancel_sealed(parts: &EngineParts, sealed: &[u8], owner: &Owner) {
    let plain = parts.seal.open_run(&owner.tenant, sealed);
    if let Some(ticket) = plain.and_then(|plain| serde_json::from_slice::<TaskTicket>(&plain).ok()) {
        cancel_task(parts, &ticket, owner).await;
    }
}

/// The result of a task; if there is none, after which time to look again.
async fn output_of(parts: &EngineParts, ticket: &TaskTicket, owner: &Owner) -> Result<TaskResult, Duration> {
    let server = server_of(parts, ticket, owner).await.ok_or(RETRY)?;
    let state = server.task_output(&ticket.task).await.map_err(|error| {
        tracing::debug!(%error, "looking at a task of an MCP server failed");
        RETRY
    })?;
    match state {
        TaskOutput::Working(next) => Err(next),
        TaskOutput::Done(output) => {
            let error = output.is_error.then_some(FAILED);
            Ok((output.into_text(), error))
        }
        TaskOutput::Failed { error, has_ended } => {
            if !has_ended {
                cancel_task(parts, ticket, owner).await;
            }
            Ok((error.message, Some(error.code.as_str())))
        }
    }
}

/// Tells the server that nobody waits for the result. If it cannot be reached, the task ends with its time.
async fn cancel_task(parts: &EngineParts, ticket: &TaskTicket, owner: &Owner) {
    let cancelled = async {
        let Some(server) = server_of(parts, ticket, owner).await else { return };
        if let Err(error) = server.cancel_task(&ticket.task).await {
            tracing::debug!(%error, "cancelling a task of an MCP server failed");
        }
    };
    _ = tokio::time::timeout(TIMEOUT, cancelled).await;
}

/// A session with the server of a task.
async fn server_of(parts: &EngineParts, ticket: &TaskTicket, owner: &Owner) -> Option<ServerHandle> {
    let (key, authorization) =
        (Arc::from(ticket.key.as_str()), ticket.authorization.clone().map(SecretString::from));
    let caller = McpCaller {
        tenant: &owner.tenant,
        key: &key,
        authorization: authorization.as_ref(),
        on_behalf_of: OnBehalfOf {
            user: ticket.user.as_deref(),
            principal: &owner.principal,
            channel: ticket.channel.as_deref(),
            chat: ticket.chat.as_deref(),
        },
        shows: ElicitationModes { form: ticket.form, url: ticket.url },
    };
    let found = parts.mcp.find_label(&ticket.server, None, caller).ok()?;
    parts.mcp.bind(vec![found], caller).await.ok()?.into_iter().next()
}
