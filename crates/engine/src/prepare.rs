//! Turns a request into a run that can start: everything that can be refused is refused here, before the model is
//! asked.

mod model_request;
mod settings;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use self::model_request::model_request;
use self::settings::{
    Settled, awaiting_client_status, bypasses_cache, conversation_key, emits_tool_lists, event_encoder,
    options, reports_progress,
};
use super::compaction::AutoCompaction;
use super::context::{EngineParts, OnUnservedTool, RunContext, unix_now};
use super::history::{HistoryEntry, PriorConversation};
use super::limits::EffectiveLimits;
use super::redaction::Redaction;
use super::replayed::PlacedInput;
use super::run::trace::Interval;
use super::run_conversation::RunConversation;
use super::states::{self, StoredInput};
use super::structured::OutputValidator;
use super::tools::approvals::{self, ApprovalAnswers, ApprovalScope, ApprovedCall};
use super::tools::mcp_servers::ListedServer;
use super::tools::offered::OfferedTools;
use super::tools::scope::{self, ToolScope};
use super::tools::{self, ResolvedTools, ToolRequest};
use super::truncate::{self, ContextBudget};
use super::{client_tools, compaction, echo, history, named_outputs, run_conversation};
use antwort_identity::Owner;
use antwort_limits::Permit;
use antwort_mcp::CallerCatalog;
use antwort_protocol::elicitation::ElicitationModes;
use antwort_protocol::error::ApiError;
use antwort_protocol::event::EventEncoder;
use antwort_protocol::id::{Id, IdGenerator};
use antwort_protocol::item::Item;
use antwort_protocol::request::{CreateResponse, SentFields, TextFormat, Truncation};
use antwort_protocol::response::Response;
use antwort_provider::Provider;
use antwort_response::machine::{InputEvent, MachineOptions, Termination};
use antwort_response::presentation::Presentation;
use antwort_response::seal::{BoundSeal, SummarySeal};
use antwort_response::turn::{HistoryItem, ModelRequest};
use antwort_store::{Lease, StoredItem};

/// What a request is prepared for.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// A run.
    Run,
    /// Counting the tokens of its prompt, or a run that another process may make: the request is refused as a run would
    /// be, and changes nothing.
    Check,
    /// A run that was begun before.
    Resume(&'a Resumed),
}

/// A run that goes on where it was.
pub(super) struct Resumed {
    /// The right to write it.
    pub lease: Lease,
    /// Unix seconds.
    pub created_at: i64,
    /// What its earlier turns add to the conversation.
    pub history: Vec<HistoryEntry>,
    /// Its output as it was committed.
    pub committed: Vec<StoredItem>,
}

impl<'a> Purpose<'a> {
    /// Whether a run follows.
    fn runs(self) -> bool {
        matches!(self, Self::Run | Self::Resume(_))
    }

    /// What becomes of answers to approval requests.
    fn answers(self) -> ApprovalAnswers {
        match self {
            Self::Run => ApprovalAnswers::Claim,
            Self::Check => ApprovalAnswers::Check,
            Self::Resume(_) => ApprovalAnswers::ClaimOpen,
        }
    }

    /// The ids of the response, when it was created, and what was made of it before.
    fn identity(self) -> (IdGenerator, i64, Option<&'a Resumed>) {
        match self {
            Self::Run | Self::Check => (IdGenerator::new(), unix_now(), None),
            Self::Resume(run) => (IdGenerator::resume(&run.lease.id, 0), run.created_at, Some(run)),
        }
    }
}

/// A request that is validated and ready to run.
pub(super) struct PreparedRun {
    /// The response as it is created.
    pub response: Response,
    /// Whether the client wants a stream. How the provider is asked is apart from it.
    pub stream: bool,
    /// How its events are encoded.
    pub encoding: EventEncoder,
    pub options: MachineOptions,
    pub owner: Owner,
    /// The id of the response that this one continues.
    pub previous: Option<Id>,
    /// Its own input, which is stored with it.
    pub input: Vec<Arc<Item>>,
    /// What the store knows of replayed input beyond what the client has.
    pub found: StoredInput,
    /// The tools that the model is offered.
    pub offer: OfferedTools,
    /// The gateway's own tools for this caller.
    pub catalog: CallerCatalog,
    /// The conversation that it appends to.
    pub(crate) run_conversation: Option<RunConversation>,
    /// Identifies the conversation over its responses.
    pub conversation: Option<Arc<str>>,
    /// MCP servers with their tools.
    pub servers: Vec<ListedServer>,
    /// The parts of the request that collect tools, for when servers change theirs.
    pub(crate) tool_request: Option<Box<CreateResponse>>,
    /// How long its MCP servers took to list them.
    pub listing: Option<Interval>,
    /// Approved calls of the input.
    pub approved: Vec<ApprovedCall>,
    /// Whether the gateway runs tools; if not, the run is a single inference.
    pub(crate) executes_tools: bool,
    /// How long the client is asked for the outputs of its functions; `None`: the response ends at their calls.
    pub(crate) input_timeout: Option<Duration>,
    /// The event by which it is asked.
    pub(crate) input_event: InputEvent,
    /// The questions of tools that the client is asked.
    pub elicitation: ElicitationModes,
    /// How the response ends when it waits for the client's functions.
    pub(crate) awaiting_client_status: Termination,
    /// How calls are shown to clients.
    pub presentation: Presentation,
    pub unserved: OnUnservedTool,
    /// Whether the progress of running tools is streamed to the client.
    pub(crate) reports_progress: bool,
    /// Whether `mcp_list_tools` items are shown.
    pub(crate) emits_tool_lists: bool,
    pub limits: EffectiveLimits,
    /// The name of the agent profile.
    pub agent: Option<Arc<str>>,
    /// Whether cached tool results are not used.
    pub(crate) bypass_cache: bool,
    /// Validates the answer against `text.format`.
    pub structured: OutputValidator,
    /// Bytes of the request with its conversation, as the run begins.
    pub(crate) request_bytes: u64,
    /// The run's permits of memory for conversations.
    pub(crate) memory_permits: Vec<Permit>,
    pub provider: Arc<dyn Provider>,
    /// The request to the provider; its conversation grows with each turn. Shared with the provider during an
    /// inference, and not copied: by the next turn the provider has dropped it.
    pub(crate) model_request: Arc<ModelRequest>,
    /// The context window, if the model's is known.
    pub budget: Option<ContextBudget>,
    pub truncation: Truncation,
    /// The right to write the response.
    pub lease: Lease,
    /// Output items that were committed before this process took the run over.
    pub committed: Vec<StoredItem>,
    /// Whether the response is stored.
    pub store: bool,
    /// The request as it was sent, if tools may be called whose work goes on.
    pub sent: Option<SentFields>,
    /// Whether it is polled, but not stored: made in the background with `store: false`.
    pub is_unlisted: bool,
    /// Removes the agent's instructions from errors of the provider.
    pub(crate) redaction: Option<Redaction>,
    /// Request fields that were ignored.
    pub ignored: Vec<String>,
    /// When the conversation is compacted while the run goes on.
    pub(crate) auto_compaction: Option<AutoCompaction>,
    /// Whether the response is a compaction.
    pub is_compaction: bool,
    /// The messages that are kept beside its summary.
    pub retained: Vec<Item>,
}

pub(super) async fn prepare(
    parts: &EngineParts,
    mut request: Box<CreateResponse>,
    caller: &RunContext,
    purpose: Purpose<'_>,
) -> Result<PreparedRun, ApiError> {
    let settled = settings::settle(parts, &mut request, caller).await?;
    let Settled { sent, agent, instructions, model, route, ignored, structured, limits } = settled;
    // Before anything is read: an erasure of what the run reads is known to be newer than the run by its id.
    let (ids, created_at, resumed) = purpose.identity();
    let lock = run_conversation::lock(parts, caller, &request, purpose.runs()).await?;
    let (past, input, mut memory) = history::load(parts, caller, &mut request).await?;
    let PriorConversation { items: past, states: stored_states, root, range, param, .. } = past;
    let summaries = parts.seal.summaries_of(&caller.owner.tenant);
    let (PlacedInput { items: mut input, places }, compacts) =
        check_conversation((&past, param), input, &summaries)?;
    let found = states::find(parts, &caller.owner, &mut input, &mut memory).await?;
    let with_carried = tools::with_carried(&request, &past, &input);
    let asked = ToolRequest::new(&with_carried, agent, (&past, &input), compacts, &limits, purpose.answers());
    let resolved = tools::resolve(parts, caller, asked).await.map_err(|error| places.restore(error))?;
    let ResolvedTools { servers, catalog, executes_tools, offer, approved, .. } = resolved;
    let seal = parts.seal.bound_to(&caller.owner.tenant, route.provider.name());
    let window = route.provider.info().context_window.for_model(&route.model);
    let input = name_input(&ids, with_own_ids(&ids, input));
    let past = states::with_stored_state(past, &stored_states);
    let resumed_turns = resumed.iter().flat_map(|resumed| resumed.history.iter().cloned());
    let items = past.chain(found.model_input(&input)).chain(resumed_turns).collect();
    let (conversation, retained) = model_view(items, window, compacts, &seal, &summaries)?;
    let store = request.store || request.background;
    // A server may offer others while the run goes on.
    let may_go_on = store && (offer.may_go_on() || !servers.is_empty());
    let prepared = PreparedRun {
        auto_compaction: AutoCompaction::requested(parts, &request, compacts, &route, &summaries)?,
        bypass_cache: bypasses_cache(&request),
        request_bytes: memory.used() + request.bytes.saturating_sub(request.input_bytes) as u64,
        agent: agent.map(|agent| agent.name.into()),
        executes_tools,
        input_timeout: client_tools::input_timeout(parts, &request, executes_tools, resumed.is_some())?,
        input_event: client_tools::input_event(parts, &request),
        elicitation: client_tools::asked_questions(&request, executes_tools, resumed.is_some())?,
        awaiting_client_status: awaiting_client_status(parts, &request, caller, executes_tools, &offer),
        presentation: resolved.presentation,
        unserved: caller.unserved_tools,
        reports_progress: reports_progress(&request),
        emits_tool_lists: emits_tool_lists(caller.dialect, resolved.visibility),
        run_conversation: RunConversation::of(root.as_ref(), range, &summaries, lock),
        conversation: conversation_key(&request, root, &ids.response()),
        catalog,
        tool_request: (!servers.is_empty()).then(|| Box::new(scope::tool_request(&with_carried))),
        servers,
        listing: resolved.listing,
        approved,
        limits,
        budget: window.map(|window| context_budget(window, &request, &offer)),
        response: echo::created(&request, &model, &ids, caller.dialect, created_at, &offer.omitted),
        stream: request.stream,
        encoding: event_encoder(caller, &request),
        options: options(parts, &request, seal),
        owner: caller.owner.clone(),
        previous: request.previous_response_id.as_deref().map(Id::from),
        input,
        found,
        structured,
        redaction: instructions.as_deref().map(Redaction::new),
        model_request: model_request(parts, &mut request, route.model, conversation, &offer, instructions),
        offer,
        memory_permits: memory.into_permits(),
        provider: route.provider,
        truncation: request.truncation,
        lease: resumed.map_or_else(|| Lease::first(ids.response()), |resumed| resumed.lease.clone()),
        committed: resumed.map(|resumed| resumed.committed.clone()).unwrap_or_default(),
        sent: sent.filter(|_| may_go_on),
        store,
        is_unlisted: request.background && !request.store,
        ignored,
        is_compaction: compacts,
        retained,
    };
    prepared.fit_conversation(parts, summaries)
}

/// The conversation as the model sees it; of a compaction, also the messages that are kept beside its summary.
fn model_view(
    items: Vec<HistoryEntry>,
    window: Option<u64>,
    compacts: bool,
    seal: &BoundSeal,
    summaries: &SummarySeal,
) -> Result<(Vec<HistoryItem>, Vec<Item>), ApiError> {
    let items = compaction::apply(approvals::project_for_model(items), window, summaries);
    let retained =
        if compacts { compaction::retained(items.iter().map(|(item, _)| item), window) } else { Vec::new() };
    Ok((states::conversation(items, seal, summaries)?, retained))
}

/// Renames items whose id an item before them has: pages of the input are read by their ids.
fn with_own_ids(ids: &IdGenerator, mut input: Vec<Item>) -> Vec<Item> {
    let mut known = HashSet::with_capacity(input.len());
    for (place, item) in input.iter_mut().enumerate() {
        if !item.id().is_unnamed() && !known.insert(item.id().clone()) {
            let id = ids.rename_input(place, item.id());
            item.set_id(id);
        }
    }
    input
}

/// Names items that came without an id by their response, so that the store finds them by it.
pub(super) fn name_input(ids: &IdGenerator, input: Vec<Item>) -> Vec<Arc<Item>> {
    let named = |(place, mut item): (usize, Item)| {
        if let Some(id) = ids.name_input(place, item.id()) {
            item.set_id(id);
        }
        Arc::new(item)
    };
    input.into_iter().enumerate().map(named).collect()
}

/// Checks that the items fit together, without those that are replayed beside the history. Also returns whether they ask
/// for a compaction.
fn check_conversation(
    (past, param): (&[Item], &'static str),
    mut input: PlacedInput,
    summaries: &SummarySeal,
) -> Result<(PlacedInput, bool), ApiError> {
    named_outputs::find_calls(past, &mut input.items).map_err(|error| input.places.restore(error))?;
    let input = input.without_replayed(past)?;
    let check = |input: &[Item]| {
        compaction::check((past, param), input, summaries)?;
        history::check_pairs((past, param), input)
    };
    check(&input.items).map_err(|error| input.places.restore(error))?;
    let compacts = compaction::is_requested(&input.items);
    Ok((input, compacts))
}

fn context_budget(window: u64, request: &CreateResponse, offer: &OfferedTools) -> ContextBudget {
    ContextBudget {
        window,
        answer: request.max_output_tokens.unwrap_or(0),
        fixed: truncate::fixed_tokens(request.instructions.as_deref(), &offer.tools),
    }
}

impl PreparedRun {
    /// Compacts or truncates the conversation. One that is compacted automatically is dealt with by the run.
    fn fit_conversation(
        mut self,
        parts: &EngineParts,
        summaries: Arc<SummarySeal>,
    ) -> Result<Self, ApiError> {
        self.compact_if_asked(parts, summaries)?;
        if self.auto_compaction.is_none() {
            self.truncate_to_window()?;
        }
        Ok(self)
    }

    /// Of a compaction the model is asked for a plain-text summary, which is sealed.
    fn compact_if_asked(&mut self, parts: &EngineParts, summaries: Arc<SummarySeal>) -> Result<(), ApiError> {
        if !self.is_compaction {
            return Ok(());
        }
        if self.model_request.conversation.is_empty() {
            return Err(ApiError::invalid("invalid_value", "input", "There is no conversation to compact."));
        }
        let settings = &parts.options.engine.compaction;
        let request = self.model_request_mut();
        request.tools = compaction::tools::for_summary(&request.tools, &request.conversation);
        request.conversation.push(compaction::summary_prompt(settings.instructions.as_deref()));
        request.max_output_tokens = request.max_output_tokens.or(settings.max_output_tokens);
        request.format = TextFormat::Text;
        self.structured = OutputValidator::unconstrained();
        self.options.summary = Some(summaries);
        Ok(())
    }

    /// Drops the oldest items so that the conversation fits the context window, or refuses the request.
    pub(super) fn truncate_to_window(&mut self) -> Result<(), ApiError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        if !truncate::exceeds(&self.model_request.conversation, budget) {
            return Ok(());
        }
        if self.truncation == Truncation::Disabled {
            return Err(truncate::too_long(truncate::estimate(&self.model_request.conversation), budget));
        }
        let request = Arc::make_mut(&mut self.model_request);
        let dropped = truncate::drop_oldest(&mut request.conversation, budget, (1, 1));
        tracing::debug!(dropped, "dropped the oldest items to fit the context window");
        Ok(())
    }

    /// The run has ended: another may begin in its conversation.
    pub(super) fn leave_conversation(&mut self) {
        if let Some(conversation) = &mut self.run_conversation {
            conversation.unlock();
        }
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
        self.model_request_mut().tools = Arc::clone(&offer.tools);
        self.offer = offer;
        Ok(())
    }

    /// The request to the provider, to be changed between inferences.
    pub(super) fn model_request_mut(&mut self) -> &mut ModelRequest {
        Arc::make_mut(&mut self.model_request)
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
        truncate::drop_oldest(&mut self.model_request_mut().conversation, &known, (1, 2)) > 0
    }
}
