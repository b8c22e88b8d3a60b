//! Makes a request ready to run: everything that can be refused is refused here, before the model is asked.

use std::sync::Arc;

use super::approvals::{self, Approved, Means};
use super::history::Past;
use super::limits::{self, Limits};
use super::mcp::{self, Listed};
use super::offer::{Offer, OnUnservedTool};
use super::offering::{self, Offering};
use super::profile::{self, Profile};
use super::redaction::Redaction;
use super::states::{self, Found};
use super::structured::Structured;
use super::truncate::{self, Budget};
use super::{Caller, Parts, compaction, echo, history, unix_now};
use crate::admission::Permit;
use crate::config::ResultFormat;
use crate::config::settings::{ReasoningDisplay as DisplaySetting, UnknownFields};
use crate::protocol::dialect::Dialect;
use crate::protocol::error::ApiError;
use crate::protocol::event::Encoding;
use crate::protocol::id::{Id, IdMint};
use crate::protocol::item::Item;
use crate::protocol::request::{
    ClientActionStatus, CreateResponse, OnMismatch, TextFormat, ToolCacheMode, Truncation, Visibility,
};
use crate::protocol::response::Response;
use crate::provider::Provider;
use crate::provider::routing::Route;
use crate::response::machine::{Ending, Options, ReasoningDisplay, Seal, ShowSealed};
use crate::response::seal::{BoundSeal, SummarySeal};
use crate::response::turn::{Context, Hints, ModelRequest, Sampling, Surface};
use crate::store::Owner;
use crate::tools::mcp::CallerCatalog;

/// A request that is ready to run.
pub(super) struct Prepared {
    /// The response as it is created.
    pub response: Response,
    /// Mints the ids of what it will hold.
    pub ids: IdMint,
    /// How its events are written.
    pub encoding: Encoding,
    /// How the machine shows things.
    pub options: Options,
    /// Whose it is.
    pub owner: Owner,
    /// What it continues.
    pub previous: Option<Id>,
    /// Its own input, to be kept.
    pub input: Vec<Item>,
    /// What is known of the input that clients do not see.
    pub found: Found,
    /// The tools on offer.
    pub offer: Offer,
    /// The gateway's own tools for this caller.
    pub own: CallerCatalog,
    /// What tells its conversation from others.
    pub conversation: Option<Arc<str>>,
    /// MCP servers with their tools.
    pub servers: Vec<Listed>,
    /// What was asked of tools, where servers may come to have others.
    pub tool_request: Option<Box<CreateResponse>>,
    /// Calls that the input allows.
    pub approved: Vec<Approved>,
    /// Whether tools are run here; if not, one inference is all there is.
    pub executes: bool,
    /// How the response ends if it waits for the client's functions.
    pub pause: Ending,
    /// What calls look like.
    pub surface: Surface,
    /// What happens to tools that are not served.
    pub unserved: OnUnservedTool,
    /// Whether clients are told how far running tools have come.
    pub reports_progress: bool,
    /// Whether clients are shown the tools of servers.
    pub shows_lists: bool,
    /// How far the run may go.
    pub limits: Limits,
    /// The agent profile.
    pub agent: Option<Arc<str>>,
    /// Whether cached results of tools are left alone.
    pub bypass_cache: bool,
    /// What the answer is held to.
    pub structured: Structured,
    /// Bytes of the request and the conversation with which the run begins.
    pub request_bytes: u64,
    /// The run's share of the memory for conversations.
    pub memory: Vec<Permit>,
    /// Who answers.
    pub provider: Arc<dyn Provider>,
    /// What the provider is asked; its conversation grows by what each turn brings.
    pub ask: ModelRequest,
    /// The context that the model has, where it is known.
    pub budget: Option<Budget>,
    /// Whether old items may be dropped.
    pub truncation: Truncation,
    /// Whether the response is kept.
    pub store: bool,
    /// What of a provider's words the client is not told.
    pub redaction: Option<Redaction>,
    /// Request fields that were ignored.
    pub ignored: Vec<String>,
    /// Whether the response is a compaction.
    pub compacts: bool,
    /// The messages that stay as they are beside its summary.
    pub retained: Vec<Item>,
}

pub(super) async fn prepare(
    parts: &Parts,
    request: CreateResponse,
    caller: &Caller,
) -> Result<Prepared, ApiError> {
    caller.dialect.check(&request)?;
    let mut request = request;
    let agent = profile::apply(&parts.agents, &mut request)?;
    let (agent, instructions) = agent.map_or((None, None), |(agent, text)| (Some(agent), text));
    let model = request.model()?.to_owned();
    let route = parts.router.resolve(&model)?;
    let ignored = check_extra(parts, &request, route.provider.as_ref())?;
    let on_mismatch = on_mismatch(parts, &request, agent.as_ref());
    let structured = structured(parts, &request, caller, on_mismatch).await?;
    let limits = limits(parts, &mut request, &route, agent.as_ref())?;
    request.extra.retain(|(name, _)| !ignored.contains(name));

    let (past, mut input, mut memory) = history::read(parts, caller, &mut request).await?;
    let Past { items: past, states: kept, root } = past;
    let summaries = parts.seal.summaries_of(&caller.owner.tenant);
    compaction::check(&past, &input, &summaries)?;
    let compacts = compaction::is_asked(&input);
    history::drop_repeated_calls(&past, &mut input);
    history::check_pairs(&past, &input)?;
    let found = states::find(parts, &caller.owner, &input, &mut memory).await?;
    // A compaction is made without tools, whatever the request has for the turns around it.
    let no_tools = compaction::without_tools();
    let (asking, more_tools, tool_agent) =
        if compacts { (&no_tools, &[][..], None) } else { (&request, &input[..], agent) };
    let (asked, own) = mcp::bind(parts, asking, more_tools, caller, tool_agent).await?;
    let servers = mcp::list(asked, &past, &input).await?;
    let own = own.catalog(parts, mcp::wanting(caller, asking), tool_agent).await;
    let visibility = visibility(parts, &request);
    let offering = Offering {
        tenant: &caller.owner.tenant,
        agent: tool_agent.as_ref().map(|agent| agent.name),
        executes: offering::executes(parts, &request, agent.as_ref()),
        surface: offering::surface(visibility, caller.dialect),
        own: &own,
        servers: &servers,
        unserved: caller.unserved_tools,
    };
    let offer = offering.offer(parts, asking, more_tools, false)?;
    note_omitted(&offer, caller);
    let Offering { executes, surface, .. } = offering;
    let means = Means { servers: &servers, executes, max_calls: limits.run.max_tool_calls };
    let approved = approvals::check(parts, &caller.owner, &past, &input, means).await?;

    let ids = IdMint::new();
    let seal = parts.seal.bound_to(&caller.owner.tenant, route.provider.name());
    let window = route.provider.profile().context_window.of(&route.model);
    let items = approvals::tell(states::remembered(past, &kept).chain(found.seen(&input)).collect());
    let items = compaction::fold(items, window);
    let retained = if compacts { compaction::retained(&items, window) } else { Vec::new() };
    let conversation = states::conversation(items, &seal, &summaries)?;
    let budget = window.map(|window| Budget {
        window,
        answer: request.max_output_tokens.unwrap_or(0),
        fixed: truncate::fixed_tokens(request.instructions.as_deref(), &offer.tools),
    });
    let mut prepared = Prepared {
        bypass_cache: bypasses_cache(&request),
        request_bytes: memory.used() + request.bytes.saturating_sub(request.input_bytes) as u64,
        agent: agent.map(|agent| agent.name.into()),
        executes,
        pause: pause(parts, &request, caller, executes, &offer),
        surface,
        unserved: caller.unserved_tools,
        reports_progress: request.stream
            && request.antwort.as_ref().and_then(|options| options.tool_progress) == Some(true),
        // Neither that dialect nor the plainest view knows such items.
        shows_lists: caller.dialect == Dialect::OpenAi && visibility != Visibility::Hidden,
        conversation: conversation_key(&request, root, &ids.response()),
        own,
        tool_request: (!servers.is_empty()).then(|| Box::new(offering::tool_request(&request))),
        servers,
        approved,
        limits,
        response: echo::created(&request, &model, &ids, caller.dialect, unix_now()),
        ids,
        encoding: Encoding { dialect: caller.dialect, obfuscate: request.stream_options.include_obfuscation },
        options: options(parts, &request, seal),
        owner: caller.owner.clone(),
        previous: request.previous_response_id.as_deref().map(Id::from),
        input,
        found,
        structured,
        redaction: instructions.as_deref().map(Redaction::of),
        ask: ModelRequest {
            result_format: parts.limits.tools.result_format,
            ..ask(request_fields(&mut request), route.model, conversation, &offer, instructions)
        },
        offer,
        memory: memory.into_permits(),
        provider: route.provider,
        budget,
        truncation: request.truncation,
        store: request.store,
        ignored,
        compacts,
        retained,
    };
    if compacts {
        prepared.compact(summaries)?;
    }
    prepared.fit()?;
    Ok(prepared)
}

/// What tells conversations apart: the first response of a chain, which is this one where it can become the first. Where
/// nothing is kept there is no chain, and the client's own word counts.
fn conversation_key(request: &CreateResponse, root: Option<Id>, response: &Id) -> Option<Arc<str>> {
    let noted = |key: &str| request.metadata.0.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    match root {
        Some(root) => Some(root.as_str().into()),
        None if request.store => Some(response.as_str().into()),
        None => request.prompt_cache_key.as_ref().or_else(|| noted("chat_id")).map(|key| key.as_str().into()),
    }
}

impl Prepared {
    /// Makes the response a compaction: the model is asked for a summary, in no form, which is sealed.
    fn compact(&mut self, summaries: Arc<SummarySeal>) -> Result<(), ApiError> {
        if self.ask.conversation.is_empty() {
            return Err(ApiError::invalid("invalid_value", "input", "There is no conversation to compact."));
        }
        self.ask.conversation.push(compaction::question());
        self.ask.format = TextFormat::Text;
        self.structured = Structured::free();
        self.options.summary = Some(summaries);
        Ok(())
    }

    /// Makes the conversation fit before the provider is asked, or refuses it.
    fn fit(&mut self) -> Result<(), ApiError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        if !truncate::exceeds(&self.ask.conversation, budget) {
            return Ok(());
        }
        if self.truncation == Truncation::Disabled {
            return Err(truncate::too_long(truncate::estimate(&self.ask.conversation), budget));
        }
        let dropped = truncate::drop_oldest(&mut self.ask.conversation, budget, (1, 1));
        tracing::debug!(dropped, "the oldest items were left out to fit the context window");
        Ok(())
    }

    /// Drops more after the provider said that it is too much all the same. False if nothing more can go.
    pub(super) fn shrink(&mut self) -> bool {
        if self.truncation == Truncation::Disabled {
            return false;
        }
        let window = truncate::estimate(&self.ask.conversation) as u64;
        let known = Budget { window, answer: 0, fixed: 0 };
        truncate::drop_oldest(&mut self.ask.conversation, &known, (1, 2)) > 0
    }
}

fn note_omitted(offer: &Offer, caller: &Caller) {
    if !offer.omitted.is_empty() {
        let tools = offer.omitted.join(", ");
        tracing::info!(request_id = %caller.request_id, %tools, "tools that are not served here were left out");
    }
}

/// Refuses or names what nobody knows.
fn check_extra(
    parts: &Parts,
    request: &CreateResponse,
    provider: &dyn Provider,
) -> Result<Vec<String>, ApiError> {
    let passes = |name: &str| provider.profile().passthrough.iter().any(|allowed| allowed == name);
    match parts.limits.unknown_fields {
        UnknownFields::Refuse => request.check_extra(passes).map(|()| Vec::new()),
        UnknownFields::Ignore => {
            let unknown = request.extra.iter().filter(|(name, _)| !passes(name));
            Ok(unknown.map(|(name, _)| name.clone()).collect())
        }
    }
}

fn options(parts: &Parts, request: &CreateResponse, seal: Arc<BoundSeal>) -> Options {
    let reasoning = match (parts.limits.engine.reasoning, request.reasoning.summary) {
        (DisplaySetting::Off, _) => ReasoningDisplay::Hidden,
        // A client that asks for a summary shows nothing else.
        (DisplaySetting::Summary, _) | (_, Some(_)) => ReasoningDisplay::Summary,
        (DisplaySetting::ReasoningText, None) => ReasoningDisplay::Text,
    };
    let show_sealed = match (request.include.reasoning_encrypted_content, request.store) {
        (true, _) => ShowSealed::Always,
        // Nobody else keeps it.
        (false, false) => ShowSealed::Needed,
        (false, true) => ShowSealed::Never,
    };
    Options {
        reasoning,
        logprobs: logprobs(request).is_some(),
        seal: Some(seal as Arc<dyn Seal>),
        show_sealed,
        server_steps: visibility(parts, request) == Visibility::Full,
        summary: None,
    }
}

/// How a response ends that waits for the client's functions: as the request, its key, its client or the
/// configuration says, in this order. Where no tool is run here nothing waits, unless the request says so.
fn pause(parts: &Parts, request: &CreateResponse, caller: &Caller, executes: bool, offer: &Offer) -> Ending {
    let asked = request.antwort.as_ref().and_then(|options| options.client_action_status);
    let status = match asked {
        Some(status) => status,
        None if executes => caller.client_action_status.unwrap_or(parts.limits.engine.client_action_status),
        None => ClientActionStatus::Completed,
    };
    match status {
        ClientActionStatus::RequiresAction => Ending::RequiresAction,
        ClientActionStatus::Auto if offer.has_runners() => Ending::RequiresAction,
        ClientActionStatus::Completed | ClientActionStatus::Auto => Ending::Completed,
    }
}

fn visibility(parts: &Parts, request: &CreateResponse) -> Visibility {
    let asked = request.antwort.as_ref().and_then(|options| options.stream_visibility);
    asked.unwrap_or(parts.limits.tools.stream_visibility)
}

/// What becomes of an answer that misses its form: the request's word, else the agent's, else the configuration's.
fn on_mismatch(parts: &Parts, request: &CreateResponse, agent: Option<&Profile<'_>>) -> OnMismatch {
    let asked = request.antwort.as_ref().and_then(|options| options.structured.as_ref()?.on_mismatch);
    let of_agent = || agent.and_then(|agent| agent.settings.structured.on_mismatch);
    asked.or_else(of_agent).unwrap_or(parts.limits.engine.structured.on_mismatch)
}

/// What the answer is held to.
async fn structured(
    parts: &Parts,
    request: &CreateResponse,
    caller: &Caller,
    on_mismatch: OnMismatch,
) -> Result<Structured, ApiError> {
    let format = request.text.format.as_ref().unwrap_or(&TextFormat::Text);
    Structured::new(format, on_mismatch, &parts.admission.blocking, &caller.requester()).await
}

/// The run's limits, shown in the echo of a request that has any.
fn limits(
    parts: &Parts,
    request: &mut CreateResponse,
    route: &Route,
    agent: Option<&Profile<'_>>,
) -> Result<Limits, ApiError> {
    let engine = &parts.limits.engine;
    let price = limits::price(&route.provider.profile().prices, &route.model);
    let agent = agent.map(|agent| &agent.settings.limits);
    let limits = Limits::of(request, &engine.limits, &engine.ceilings, agent, price)?;
    if let Some(options) = &mut request.antwort {
        options.limits = limits.shown();
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

/// The request's fields that the model request takes over.
fn request_fields(request: &mut CreateResponse) -> CreateResponse {
    let kept =
        CreateResponse { truncation: request.truncation, store: request.store, ..CreateResponse::default() };
    std::mem::replace(request, kept)
}

fn ask(
    request: CreateResponse,
    model: String,
    conversation: Vec<Context>,
    offer: &Offer,
    instructions: Option<String>,
) -> ModelRequest {
    let logprobs = logprobs(&request);
    ModelRequest {
        model,
        instructions: request.instructions.or(instructions),
        conversation,
        tools: Arc::clone(&offer.tools),
        tool_choice: offer.choice.first(offer.tools.len()),
        result_format: ResultFormat::Text,
        parallel_tool_calls: request.parallel_tool_calls,
        max_output_tokens: request.max_output_tokens,
        format: request.text.format.unwrap_or_default(),
        verbosity: request.text.verbosity,
        reasoning: request.reasoning,
        sampling: Sampling {
            temperature: request.temperature,
            top_p: request.top_p,
            presence_penalty: request.presence_penalty,
            frequency_penalty: request.frequency_penalty,
            logprobs,
        },
        hints: Hints {
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
