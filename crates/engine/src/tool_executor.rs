//! Executes the server-side calls of a turn: journalled first, in parallel, with results in the order of the calls.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::mpsc;

use super::completions::RunCompletions;
use super::context::{EngineParts, RunContext};
use super::journal::{self, RunJournal};
use super::prompt::Prompt;
use super::record;
use super::run::{self, RunState, StartedWork};
use super::run_spec::RunSpec;
use super::tools::RunTools;
use super::tools::hosted;
use super::tools::offered::ToolBinding;
use antwort_config::UserMessages;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_protocol::item::hosted::McpAuthChallenge;
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;
use antwort_response::machine::{CallResult, ClientCall, RemoteError, ResponseMachine, ServerCall};
use antwort_response::seal::SealKeys;
use antwort_store::{JournaledCall, NewPendingCall, PendingSource, TurnRecord};
use antwort_tools::{
    Asker, AuthChallenge, CacheMode, CallBudget, CallKey, Citation, FailureStage, GivenInput, Pause,
    PauseClock, Progress, RemoteFailure, ToolCall, ToolContext, ToolError, ToolErrorCode, ToolOutput,
};

/// Executes the calls of a run.
pub(super) struct ToolCallExecutor {
    context: Arc<ToolContext>,
    journal: Option<Arc<RunJournal>>,
    user_messages: UserMessages,
    parallel: usize,
}

/// The calls with which a turn is committed.
#[derive(Clone, Copy)]
pub(super) enum TurnCalls<'a> {
    /// Those that the gateway is about to make.
    Server(&'a [ServerCall]),
    /// Those for whose outputs the client is asked, and how long these are waited for.
    Client(&'a [ClientCall], Duration),
    /// Those whose work goes on, whose results are waited for.
    Started(&'a [StartedWork]),
}

impl<'a> TurnCalls<'a> {
    fn of_server(self) -> &'a [ServerCall] {
        match self {
            Self::Server(calls) => calls,
            Self::Client(..) | Self::Started(_) => &[],
        }
    }

    fn pending(self) -> Vec<NewPendingCall> {
        let Self::Client(calls, timeout) = self else { return Vec::new() };
        let pending = |(index, call): (u32, &ClientCall)| NewPendingCall {
            index,
            source: PendingSource::Client,
            call_id: call.call_id.clone(),
            tool: call.name.clone(),
            request: call.arguments.clone(),
            timeout,
        };
        (0..).zip(calls).map(pending).collect()
    }

    fn awaited(self) -> Vec<(u32, u32)> {
        let Self::Started(calls) = self else { return Vec::new() };
        calls.iter().map(|call| (call.turn, call.index)).collect()
    }
}

/// The result of a call for its item, or the error that ends the run.
pub(super) type CallResultOrError = Result<CallResult, ApiError>;

impl ToolCallExecutor {
    pub(super) fn new(
        parts: &EngineParts,
        (spec, prompt, tools): (&RunSpec, &Prompt, &RunTools),
        caller: &RunContext,
        deadline: std::time::Instant,
    ) -> Self {
        let user_messages = parts.options.tools.user_messages;
        let journal = spec
            .store
            .then(|| Arc::new(RunJournal::new(Arc::clone(&parts.store), spec.lease.clone(), user_messages)));
        let metadata = prompt.request.hints.metadata.clone();
        let note =
            |key: &str| metadata.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
        let context = ToolContext {
            tenant: Arc::clone(&caller.owner.tenant),
            principal: Arc::clone(&caller.owner.principal),
            response_id: Some(spec.response.id.clone()),
            conversation: spec.conversation.clone(),
            agent: spec.agent.clone(),
            channel: note("channel"),
            chat_id: note("chat_id"),
            metadata,
            deadline: Some(deadline),
            pauses: (!spec.client.elicitation.is_empty()).then(PauseClock::default),
            traceparent: caller.traceparent.clone(),
            request_id: caller.request_id.clone(),
            cancel: parts.in_flight.abort_token().child_token(),
            budget: Arc::new(spec.limits.run.max_tool_calls.map(CallBudget::new).unwrap_or_default()),
            cache: if spec.bypass_cache { CacheMode::Bypass } else { CacheMode::Allowed },
            can_read_stored_results: tools
                .offer
                .binding(Some(BUILTIN_SERVER_LABEL), "read_tool_output")
                .is_some(),
            max_item_bytes: Some(parts.options.engine.max_item_bytes),
            journal: journal.clone().map(|journal| journal as _),
            completions: spec.store.then(|| RunCompletions::new(parts, &caller.owner) as _),
        };
        let settings = &parts.options.tools;
        Self {
            context: Arc::new(context),
            journal,
            user_messages,
            parallel: if prompt.request.parallel_tool_calls { settings.max_parallel.max(1) } else { 1 },
        }
    }

    /// Goes on after so many turns with so many calls.
    pub(super) fn resume(&self, turns: u32, calls: usize) {
        if let Some(journal) = &self.journal {
            journal.resume(turns);
        }
        for _ in 0..calls {
            self.context.budget.try_take();
        }
    }

    /// Makes a call again that was committed before, in this place; perhaps with answers of the user.
    pub(super) fn repeat(
        &self,
        response: &Id,
        (turn, index): (u32, u32),
        made: &ServerCall,
        (binding, asker, input): (Option<ToolBinding>, Option<Asker>, Option<GivenInput>),
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send + use<> {
        let key = Some(CallKey { response: response.clone(), turn, index });
        let call = ToolCall { key, asker, input, ..call(made) };
        make(call, binding, Arc::clone(&self.context), Progress::default())
    }

    /// The time of the run stands still until the pause is dropped: calls wait for the user.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.context.pauses.as_ref().map(PauseClock::pause)
    }

    /// How many calls the run may still make.
    pub(super) fn left(&self) -> u64 {
        self.context.budget.remaining()
    }

    /// Tells running tools that their results are no longer needed.
    pub(super) fn cancel(&self) {
        self.context.cancel.cancel();
    }

    /// Commits the turn with its calls before any of them is made. The response has a row after that.
    pub(super) async fn commit(
        &self,
        spec: &RunSpec,
        machine: &ResponseMachine,
        state: &mut RunState,
        calls: TurnCalls<'_>,
        keys: &SealKeys,
    ) -> Result<(), ApiError> {
        let turn = state.committed.turns;
        state.committed.turns += 1;
        let Some(journal) = &self.journal else { return Ok(()) };
        let response = machine.response();
        let whole = machine.first_unfinished();
        let before = std::mem::replace(&mut state.committed.items, whole);
        let was_recorded = std::mem::replace(&mut state.committed.is_recorded, true);
        let record = TurnRecord {
            lease: spec.lease.clone(),
            begin: (!was_recorded).then(|| record::running(spec, response)),
            first_position: spec.input.items.len() + before,
            items: record::output_items(spec, machine, before..whole),
            turn,
            calls: calls.of_server().iter().map(journalled).collect(),
            pending: calls.pending(),
            awaited: calls.awaited(),
            state: run::save(keys, spec, state, machine, Some(calls.of_server())),
        };
        if let Err(error) = journal.commit(record).await {
            state.committed.is_recorded = was_recorded;
            return Err(error.into());
        }
        Ok(())
    }

    /// Makes the calls concurrently; results come in the order of the calls. `listener` receives progress, by slot.
    pub(super) fn execute(
        &self,
        response: &Id,
        turn: u32,
        calls: &[ServerCall],
        listener: Option<&mpsc::Sender<(u32, String)>>,
        (runner, asker): (impl Fn(&ServerCall) -> Option<ToolBinding>, impl Fn((u32, u32)) -> Option<Asker>),
    ) -> BoxStream<'static, Result<ToolOutput, ToolError>> {
        let made: Vec<_> = (0_u32..)
            .zip(calls)
            .map(|(index, made)| {
                let key = Some(CallKey { response: response.clone(), turn, index });
                let progress = listener
                    .map(|listener| Progress::with_sender(made.slot, listener.clone()))
                    .unwrap_or_default();
                let call = ToolCall { key, asker: asker((index, made.slot)), ..call(made) };
                make(call, runner(made), Arc::clone(&self.context), progress)
            })
            .collect();
        stream::iter(made).buffered(self.parallel).boxed()
    }

    /// What a call's item shows of its result; an error if the run must end.
    pub(super) fn result(
        &self,
        call: &ServerCall,
        outcome: Result<ToolOutput, ToolError>,
        state: &mut RunState,
    ) -> CallResultOrError {
        let output = match outcome {
            Ok(output) => output,
            Err(error) if error.stage == FailureStage::Fatal => return Err(fatal(&error)),
            Err(error) => {
                return Ok(CallResult {
                    output: error.message,
                    error: Some(error.code.as_str().into()),
                    remote: error.remote.map(remote),
                    sources: sources(call, &[]),
                    ..CallResult::default()
                });
            }
        };
        let sources = sources(call, &output.citations);
        let user_message = journal::user_message(&output, self.user_messages).map(str::to_owned);
        state.add_sources(output.citations);
        let skipped = output.meta.skipped;
        let is_async = output.is_async;
        Ok(CallResult {
            is_async,
            output: output.for_model,
            files: output.files,
            shown: output.for_client,
            error: (output.is_error && !skipped)
                .then_some(ToolErrorCode::ToolExecutionFailed.as_str().into()),
            remote: None,
            skipped,
            sources,
            user_message,
        })
    }
}

fn call(made: &ServerCall) -> ToolCall {
    ToolCall::direct(&made.call.name, made.call.arguments.clone())
}

/// Makes a call through the layers of its tool.
async fn make(
    mut call: ToolCall,
    binding: Option<ToolBinding>,
    context: Arc<ToolContext>,
    progress: Progress,
) -> Result<ToolOutput, ToolError> {
    let Some(ToolBinding { tool, hosted }) = binding else {
        return Err(ToolError::unknown(&call.name));
    };
    if let Some(hosted) = hosted {
        call.raw = hosted.arguments(&call.raw);
    }
    tool.call(call, context, progress).await
}

fn remote(error: RemoteFailure) -> RemoteError {
    match error {
        RemoteFailure::JsonRpc(code) => RemoteError::Protocol(code),
        RemoteFailure::Http(status) => RemoteError::Http { status, login: None },
        RemoteFailure::Challenged(status, challenge) => {
            let AuthChallenge { resource_metadata, scope } = *challenge;
            RemoteError::Http { status, login: Some(Box::new(McpAuthChallenge { resource_metadata, scope })) }
        }
    }
}

fn journalled(made: &ServerCall) -> JournaledCall {
    JournaledCall {
        server_label: made.call.namespace.clone().unwrap_or_else(|| BUILTIN_SERVER_LABEL.to_owned()),
        tool: made.call.name.clone(),
        arguments: made.call.arguments.clone(),
    }
}

/// Addresses of what a hosted tool found.
fn sources(call: &ServerCall, found: &[Citation]) -> Option<Vec<String>> {
    hosted::is_executor(&call.call.name).then(|| found.iter().map(|citation| citation.url.clone()).collect())
}

fn fatal(error: &ToolError) -> ApiError {
    // The tool's message is for the model, and may quote what it said: it is not shown.
    tracing::warn!(code = error.code.as_str(), "a tool call failed fatally; failing the run");
    match error.code {
        ToolErrorCode::StorageError => {
            ApiError::new(ErrorKind::Internal, "The response store failed. Try again.")
                .with_code("storage_error")
        }
        code => ApiError::new(ErrorKind::Internal, error.message.clone()).with_code(code.as_str()),
    }
}
