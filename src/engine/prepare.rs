//! Turns a request into a run that can start: everything that can be refused is refused here, before the model is
//! asked.

use std::sync::Arc;

use super::approvals::{self, ApprovalContext, ApprovalScope, ApprovedCall};
use super::context::{EngineParts, OnUnservedTool, RunContext, unix_now};
use super::history::PriorConversation;
use super::limits::{self, EffectiveLimits};
use super::mcp::{self, ListedServer};
use super::offered_tools::OfferedTools;
use super::profile::{self, AgentProfile};
use super::redaction::Redaction;
use super::states::{self, StoredInput};
use super::structured::OutputValidator;
use super::tool_scope::{self, ToolScope};
use super::truncate::{self, ContextBudget};
use super::{compaction, echo, history};
use crate::admission::Permit;
use crate::config::ResultFormat;
use crate::config::settings::{ReasoningDisplay as DisplaySetting, UnknownFields};
use crate::identity::Owner;
use crate::mcp::CallerCatalog;
use crate::protocol::dialect::Dialect;
use crate::protocol::error::ApiError;
use crate::protocol::event::EventEncoder;
use crate::protocol::id::{Id, IdGenerator};
use crate::protocol::item::Item;
use crate::protocol::request::{
    ClientActionStatus, CreateResponse, OnMismatch, TextFormat, ToolCacheMode, ToolVisibility, Truncation,
};
use crate::protocol::response::Response;
use crate::provider::Provider;
use crate::provider::routing::ModelRoute;
use crate::response::machine::{MachineOptions, ReasoningDisplay, Seal, ShowSealed, Termination};
use crate::response::presentation::Presentation;
use crate::response::seal::{BoundSeal, SummarySeal};
use crate::response::turn::{HistoryItem, ModelRequest, ProviderHints, SamplingParams};

/// A request that is validated and ready to run.
pub(super) struct PreparedRun {
    /// The response as it is created.
    pub response: Response,
    /// Generates the ids of its items.
    pub ids: IdGenerator,
    /// How its events are encoded.
    pub encoding: EventEncoder,
    pub options: MachineOptions,
    pub owner: Owner,
    /// The id of the response that this one continues.
    pub previous: Option<Id>,
    /// Its own input, which is stored with it.
    pub input: Vec<Item>,
    /// What the store knows of replayed input beyond what the client has.
    pub found: StoredInput,
    /// The tools that the model is offered.
    pub offer: OfferedTools,
    /// The gateway's own tools for this caller.
    pub catalog: CallerCatalog,
    /// Identifies the conversation over its responses.
    pub conversation: Option<Arc<str>>,
    /// MCP servers with their tools.
    pub servers: Vec<ListedServer>,
    /// The parts of the request that collect tools, for when servers change theirs.
    pub tool_request: Option<Box<CreateResponse>>,
    /// Approved calls of the input.
    pub approved: Vec<ApprovedCall>,
    /// Whether the gateway runs tools; if not, the run is a single inference.
    pub executes_tools: bool,
    /// How the response ends when it waits for the client's functions.
    pub awaiting_client_status: Termination,
    /// How calls are shown to clients.
    pub presentation: Presentation,
    pub unserved: OnUnservedTool,
    /// Whether the progress of running tools is streamed to the client.
    pub reports_progress: bool,
    /// Whether `mcp_list_tools` items are shown.
    pub emits_tool_lists: bool,
    pub limits: EffectiveLimits,
    /// The name of the agent profile.
    pub agent: Option<Arc<str>>,
    /// Whether cached tool results are not used.
    pub bypass_cache: bool,
    /// Validates the answer against `text.format`.
    pub structured: OutputValidator,
    /// Bytes of the request with its conversation, as the run begins.
    pub request_bytes: u64,
    /// The run's permits of memory for conversations.
    pub memory_permits: Vec<Permit>,
    pub provider: Arc<dyn Provider>,
    /// The request to the provider; its conversation grows with each turn.
    pub model_request: ModelRequest,
    /// The context window, if the model's is known.
    pub budget: Option<ContextBudget>,
    pub truncation: Truncation,
    /// Whether the response is stored.
    pub store: bool,
    /// Removes the agent's instructions from errors of the provider.
    pub redaction: Option<Redaction>,
    /// Request fields that were ignored.
    pub ignored: Vec<String>,
    /// Whether the response is a compaction.
    pub is_compaction: bool,
    /// The messages that are kept beside its summary.
    pub retained: Vec<Item>,
}

pub(super) async fn prepare(
    parts: &EngineParts,
    mut request: CreateResponse,
    caller: &RunContext,
) -> Result<PreparedRun, ApiError> {
    request.check_dialect(caller.dialect)?;
    let agent = profile::apply(&parts.agents, &mut request)?;
    let (agent, instructions) = agent.map_or((None, None), |(agent, text)| (Some(agent), text));
    let model = request.model()?.to_owned();
    let route = parts.router.resolve(&model)?;
    let ignored = check_extra(parts, &request, route.provider.as_ref())?;
    let structured = structured(parts, &request, caller, agent.as_ref()).await?;
    let limits = limits(parts, &mut request, &route, agent.as_ref())?;
    request.extra.retain(|(name, _)| !ignored.contains(name));

    let (past, mut input, mut memory) = history::load(parts, caller, &mut request).await?;
    let PriorConversation { items: past, states: stored_states, root } = past;
    let summaries = parts.seal.summaries_of(&caller.owner.tenant);
    compaction::check(&past, &input, &summaries)?;
    let compacts = compaction::is_requested(&input);
    history::drop_repeated_calls(&past, &mut input);
    history::check_pairs(&past, &input)?;
    let found = states::find(parts, &caller.owner, &input, &mut memory).await?;
    let ResolvedTools { servers, catalog, visibility, executes_tools, presentation, offer, approved } =
        resolve_tools(parts, &request, caller, agent, (&past, &input), compacts, &limits).await?;

    let ids = IdGenerator::new();
    let seal = parts.seal.bound_to(&caller.owner.tenant, route.provider.name());
    let window = route.provider.info().context_window.for_model(&route.model);
    let items = states::with_stored_state(past, &stored_states).chain(found.model_input(&input)).collect();
    let items = compaction::apply(approvals::project_for_model(items), window);
    let retained = if compacts { compaction::retained(&items, window) } else { Vec::new() };
    let conversation = states::conversation(items, &seal, &summaries)?;
    let budget = window.map(|window| context_budget(window, &request, &offer));
    let mut prepared = PreparedRun {
        bypass_cache: bypasses_cache(&request),
        request_bytes: memory.used() + request.bytes.saturating_sub(request.input_bytes) as u64,
        agent: agent.map(|agent| agent.name.into()),
        executes_tools,
        awaiting_client_status: awaiting_client_status(parts, &request, caller, executes_tools, &offer),
        presentation,
        unserved: caller.unserved_tools,
        reports_progress: reports_progress(&request),
        emits_tool_lists: emits_tool_lists(caller.dialect, visibility),
        conversation: conversation_key(&request, root, &ids.response()),
        catalog,
        tool_request: (!servers.is_empty()).then(|| Box::new(tool_scope::tool_request(&request))),
        servers,
        approved,
        limits,
        response: echo::created(&request, &model, &ids, caller.dialect, unix_now()),
        ids,
        encoding: event_encoder(caller, &request),
        options: options(parts, &request, seal),
        owner: caller.owner.clone(),
        previous: request.previous_response_id.as_deref().map(Id::from),
        input,
        found,
        structured,
        redaction: instructions.as_deref().map(Redaction::new),
        model_request: ModelRequest {
            result_format: parts.options.tools.result_format,
            ..model_request(request_fields(&mut request), route.model, conversation, &offer, instructions)
        },
        offer,
        memory_permits: memory.into_permits(),
        provider: route.provider,
        budget,
        truncation: request.truncation,
        store: request.store,
        ignored,
        is_compaction: compacts,
        retained,
    };
    if compacts {
        prepared.compact(summaries)?;
    }
    prepared.truncate_to_window()?;
    Ok(prepared)
}

/// The tools of a run, and the calls of them that were approved.
struct ResolvedTools {
    servers: Vec<ListedServer>,
    catalog: CallerCatalog,
    visibility: ToolVisibility,
    executes_tools: bool,
    presentation: Presentation,
    offer: OfferedTools,
    approved: Vec<ApprovedCall>,
}

async fn resolve_tools(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
    agent: Option<AgentProfile<'_>>,
    (past, input): (&[Item], &[Item]),
    compacts: bool,
    limits: &EffectiveLimits,
) -> Result<ResolvedTools, ApiError> {
    // A compaction has no tools, even if the request names some for the turns around it.
    let no_tools = compaction::without_tools();
    let (tool_source, more_tools, tool_agent) =
        if compacts { (&no_tools, &[][..], None) } else { (request, input, agent) };
    let (requested_servers, own_tools) =
        mcp::bind(parts, tool_source, more_tools, caller, tool_agent).await?;
    let awaited = approvals::approved_servers(past, input);
    let servers = mcp::list(requested_servers, past, input, &awaited).await?;
    let catalog = own_tools.catalog(parts, mcp::mcp_caller(caller, tool_source), tool_agent).await;
    let visibility = visibility(parts, request);
    let scope = ToolScope {
        tenant: &caller.owner.tenant,
        agent: tool_agent.as_ref().map(|agent| agent.name),
        executes_tools: tool_scope::executes_tools(parts, request, agent.as_ref()),
        presentation: tool_scope::presentation(visibility, caller.dialect),
        catalog: &catalog,
        servers: &servers,
        unserved: caller.unserved_tools,
    };
    let offer = scope.collect_tools(parts, tool_source, more_tools, false)?;
    note_omitted(&offer, caller);
    let ToolScope { executes_tools, presentation, .. } = scope;
    let context = ApprovalContext { servers: &servers, executes_tools, max_calls: limits.run.max_tool_calls };
    let approved = approvals::check(parts, &caller.owner, past, input, context).await?;
    Ok(ResolvedTools { servers, catalog, visibility, executes_tools, presentation, offer, approved })
}

fn context_budget(window: u64, request: &CreateResponse, offer: &OfferedTools) -> ContextBudget {
    ContextBudget {
        window,
        answer: request.max_output_tokens.unwrap_or(0),
        fixed: truncate::fixed_tokens(request.instructions.as_deref(), &offer.tools),
    }
}

fn event_encoder(caller: &RunContext, request: &CreateResponse) -> EventEncoder {
    EventEncoder { dialect: caller.dialect, obfuscate: request.stream_options.include_obfuscation }
}

/// Identifies a conversation by the first response of its chain, or by this response if it may become the first. A
/// response that is not stored has no chain: the client's own key is used.
fn conversation_key(request: &CreateResponse, root: Option<Id>, response: &Id) -> Option<Arc<str>> {
    let noted = |key: &str| request.metadata.0.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    match root {
        Some(root) => Some(root.as_str().into()),
        None if request.store => Some(response.as_str().into()),
        None => request.prompt_cache_key.as_ref().or_else(|| noted("chat_id")).map(|key| key.as_str().into()),
    }
}

impl PreparedRun {
    /// Makes the run a compaction: the model is asked for a plain-text summary, which is sealed.
    fn compact(&mut self, summaries: Arc<SummarySeal>) -> Result<(), ApiError> {
        if self.model_request.conversation.is_empty() {
            return Err(ApiError::invalid("invalid_value", "input", "There is no conversation to compact."));
        }
        self.model_request.conversation.push(compaction::summary_prompt());
        self.model_request.format = TextFormat::Text;
        self.structured = OutputValidator::unconstrained();
        self.options.summary = Some(summaries);
        Ok(())
    }

    /// Drops the oldest items so that the conversation fits the context window, or refuses the request.
    fn truncate_to_window(&mut self) -> Result<(), ApiError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        if !truncate::exceeds(&self.model_request.conversation, budget) {
            return Ok(());
        }
        if self.truncation == Truncation::Disabled {
            return Err(truncate::too_long(truncate::estimate(&self.model_request.conversation), budget));
        }
        let dropped = truncate::drop_oldest(&mut self.model_request.conversation, budget, (1, 1));
        tracing::debug!(dropped, "dropped the oldest items to fit the context window");
        Ok(())
    }

    /// Collects the tools again after servers have changed theirs.
    pub(super) fn refresh_tools(&mut self, parts: &EngineParts) -> Result<(), ApiError> {
        let Some(request) = &self.tool_request else { return Ok(()) };
        let scope = ToolScope {
            tenant: &self.owner.tenant,
            agent: self.agent.as_deref(),
            executes_tools: self.executes_tools,
            presentation: self.presentation,
            catalog: &self.catalog,
            servers: &self.servers,
            unserved: self.unserved,
        };
        let offer = scope.collect_tools(parts, request, &self.input, true)?;
        self.model_request.tools = Arc::clone(&offer.tools);
        self.offer = offer;
        Ok(())
    }

    /// What the run's approval requests belong to.
    pub(super) fn approval_scope(&self) -> ApprovalScope<'_> {
        ApprovalScope { owner: &self.owner, response: &self.response.id, servers: &self.servers }
    }

    /// Drops more items after the provider has said that the conversation is too long. False if nothing more can go.
    pub(super) fn truncate_half(&mut self) -> bool {
        if self.truncation == Truncation::Disabled {
            return false;
        }
        let window = truncate::estimate(&self.model_request.conversation) as u64;
        let known = ContextBudget { window, answer: 0, fixed: 0 };
        truncate::drop_oldest(&mut self.model_request.conversation, &known, (1, 2)) > 0
    }
}

fn note_omitted(offer: &OfferedTools, caller: &RunContext) {
    if !offer.omitted.is_empty() {
        let tools = offer.omitted.join(", ");
        tracing::info!(request_id = %caller.request_id, %tools, "omitted tools that are not supported");
    }
}

/// Refuses unknown fields, or returns their names if they are to be ignored.
fn check_extra(
    parts: &EngineParts,
    request: &CreateResponse,
    provider: &dyn Provider,
) -> Result<Vec<String>, ApiError> {
    let passes = |name: &str| provider.info().passthrough.iter().any(|allowed| allowed == name);
    match parts.options.unknown_fields {
        UnknownFields::Refuse => request.check_unknown_fields(passes).map(|()| Vec::new()),
        UnknownFields::Ignore => {
            let unknown = request.extra.iter().filter(|(name, _)| !passes(name));
            Ok(unknown.map(|(name, _)| name.clone()).collect())
        }
    }
}

fn options(parts: &EngineParts, request: &CreateResponse, seal: Arc<BoundSeal>) -> MachineOptions {
    let reasoning = match (parts.options.engine.reasoning, request.reasoning.summary) {
        (DisplaySetting::Off, _) => ReasoningDisplay::Hidden,
        // A client that asks for a summary is shown nothing else.
        (DisplaySetting::Summary, _) | (_, Some(_)) => ReasoningDisplay::Summary,
        (DisplaySetting::ReasoningText, None) => ReasoningDisplay::Text,
    };
    let show_sealed = match (request.include.reasoning_encrypted_content, request.store) {
        (true, _) => ShowSealed::Always,
        // Without a store the state survives only at the client.
        (false, false) => ShowSealed::Needed,
        (false, true) => ShowSealed::Never,
    };
    MachineOptions {
        reasoning,
        logprobs: logprobs(request).is_some(),
        seal: Some(seal as Arc<dyn Seal>),
        show_sealed,
        server_steps: visibility(parts, request) == ToolVisibility::Full,
        summary: None,
    }
}

/// The status of a response that waits for the client's functions: as the request, its key, its client or the
/// configuration says, in this order. Where tools are not executed nothing waits, unless the request says so.
fn awaiting_client_status(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
    executes_tools: bool,
    offer: &OfferedTools,
) -> Termination {
    let asked = request.antwort.as_ref().and_then(|options| options.client_action_status);
    let status = match asked {
        Some(status) => status,
        None if executes_tools => {
            caller.client_action_status.unwrap_or(parts.options.engine.client_action_status)
        }
        None => ClientActionStatus::Completed,
    };
    match status {
        ClientActionStatus::RequiresAction => Termination::RequiresAction,
        ClientActionStatus::Auto if offer.has_server_tools() => Termination::RequiresAction,
        ClientActionStatus::Completed | ClientActionStatus::Auto => Termination::Completed,
    }
}

fn reports_progress(request: &CreateResponse) -> bool {
    request.stream && request.antwort.as_ref().and_then(|options| options.tool_progress) == Some(true)
}

/// The dialect of the specification and hidden tools have no `mcp_list_tools` items.
fn emits_tool_lists(dialect: Dialect, visibility: ToolVisibility) -> bool {
    dialect == Dialect::OpenAi && visibility != ToolVisibility::Hidden
}

fn visibility(parts: &EngineParts, request: &CreateResponse) -> ToolVisibility {
    let asked = request.antwort.as_ref().and_then(|options| options.stream_visibility);
    asked.unwrap_or(parts.options.tools.stream_visibility)
}

/// What happens to an answer that does not match its format: as the request, the agent profile or the configuration
/// says.
fn on_mismatch(
    parts: &EngineParts,
    request: &CreateResponse,
    agent: Option<&AgentProfile<'_>>,
) -> OnMismatch {
    let asked = request.antwort.as_ref().and_then(|options| options.structured.as_ref()?.on_mismatch);
    let of_agent = || agent.and_then(|agent| agent.settings.structured.on_mismatch);
    asked.or_else(of_agent).unwrap_or(parts.options.engine.structured.on_mismatch)
}

async fn structured(
    parts: &EngineParts,
    request: &CreateResponse,
    caller: &RunContext,
    agent: Option<&AgentProfile<'_>>,
) -> Result<OutputValidator, ApiError> {
    let on_mismatch = on_mismatch(parts, request, agent);
    let format = request.text.format.as_ref().unwrap_or(&TextFormat::Text);
    OutputValidator::new(format, on_mismatch, &parts.admission.blocking, &caller.requester()).await
}

/// The limits of the run, which are echoed if the request has any.
fn limits(
    parts: &EngineParts,
    request: &mut CreateResponse,
    route: &ModelRoute,
    agent: Option<&AgentProfile<'_>>,
) -> Result<EffectiveLimits, ApiError> {
    let engine = &parts.options.engine;
    let price = limits::price(&route.provider.info().prices, &route.model);
    let agent = agent.map(|agent| &agent.settings.limits);
    let limits = EffectiveLimits::from_request(request, &engine.limits, &engine.ceilings, agent, price)?;
    if let Some(options) = &mut request.antwort {
        options.limits = limits.to_request_limits();
    }
    Ok(limits)
}

fn bypasses_cache(request: &CreateResponse) -> bool {
    let asked = request.antwort.as_ref().and_then(|options| options.tool_cache);
    asked == Some(ToolCacheMode::Bypass)
}

fn logprobs(request: &CreateResponse) -> Option<u8> {
    let asked = request.include.output_text_logprobs || request.top_logprobs.is_some_and(|n| n > 0);
    asked.then(|| request.top_logprobs.unwrap_or(0))
}

/// Moves out of the request the fields that go into the model request.
fn request_fields(request: &mut CreateResponse) -> CreateResponse {
    let kept =
        CreateResponse { truncation: request.truncation, store: request.store, ..CreateResponse::default() };
    std::mem::replace(request, kept)
}

fn model_request(
    request: CreateResponse,
    model: String,
    conversation: Vec<HistoryItem>,
    offer: &OfferedTools,
    instructions: Option<String>,
) -> ModelRequest {
    let logprobs = logprobs(&request);
    ModelRequest {
        model,
        instructions: request.instructions.or(instructions),
        conversation,
        tools: Arc::clone(&offer.tools),
        tool_choice: offer.choice.first_turn_choice(offer.tools.len()),
        result_format: ResultFormat::Text,
        parallel_tool_calls: request.parallel_tool_calls,
        max_output_tokens: request.max_output_tokens,
        format: request.text.format.unwrap_or_default(),
        verbosity: request.text.verbosity,
        reasoning: request.reasoning,
        sampling: SamplingParams {
            temperature: request.temperature,
            top_p: request.top_p,
            presence_penalty: request.presence_penalty,
            frequency_penalty: request.frequency_penalty,
            logprobs,
        },
        hints: ProviderHints {
            user: request.user,
            safety_identifier: request.safety_identifier,
            prompt_cache_key: request.prompt_cache_key,
            prompt_cache_retention: request.prompt_cache_retention.map(|kept| kept.as_str().to_owned()),
            service_tier: request.service_tier,
            metadata: request.metadata,
        },
        extra: request.extra,
        stream: request.stream,
    }
}
