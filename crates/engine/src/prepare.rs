//! Turns a request into a run that can start: everything that can be refused is refused here, before the model is
//! asked.

mod conversation;
mod model_request;
mod settings;

use std::collections::HashSet;
use std::sync::Arc;

use self::conversation::ReadConversation;
use self::settings::Settled;
use super::compaction::AutoCompaction;
use super::context::{EngineParts, RunContext, unix_now};
use super::history::HistoryEntry;
use super::prompt::Prompt;
use super::run_conversation::RunConversation;
use super::run_spec::{RunInput, RunSpec};
use super::structured::OutputValidator;
use super::tools::approvals::{self, ApprovalAnswers};
use super::tools::{self, ResolvedTools, RunTools, ToolRequest};
use super::{compaction, echo, run_conversation, states};
use antwort_limits::Permit;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::{Id, IdGenerator};
use antwort_protocol::item::Item;
use antwort_protocol::request::CreateResponse;
use antwort_response::machine::MachineOptions;
use antwort_response::seal::{BoundSeal, SummarySeal};
use antwort_response::turn::HistoryItem;
use antwort_store::{ConversationLock, Lease, StoredItem};

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
    /// Whether a turn of it was committed; that of approved calls is the first.
    pub(crate) has_turns: bool,
}

impl<'a> Purpose<'a> {
    /// Whether a run follows.
    fn runs(self) -> bool {
        matches!(self, Self::Run | Self::Resume(_))
    }

    /// What becomes of answers to approval requests, in this response.
    fn answers(self, response: &Id) -> ApprovalAnswers<'_> {
        match self {
            Self::Check => ApprovalAnswers::Check,
            Self::Resume(run) if run.has_turns => ApprovalAnswers::Made(response),
            Self::Run | Self::Resume(_) => ApprovalAnswers::Claim(response),
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
pub(super) struct Prepared {
    pub spec: RunSpec,
    /// How its machine shows and seals its output.
    pub options: MachineOptions,
    pub prompt: Prompt,
    pub tools: RunTools,
    /// Validates the answer against `text.format`.
    pub structured: OutputValidator,
    /// No other run begins in its conversation meanwhile.
    pub(crate) conversation_lock: Option<ConversationLock>,
    /// The run's permits of memory for conversations.
    pub(crate) memory_permits: Vec<Permit>,
    /// Request fields that were ignored.
    pub ignored: Vec<String>,
    /// The messages that are kept beside the summary of a compaction.
    pub retained: Vec<Item>,
}

/// Prepares a run in one pass: each step takes what those before it have made.
pub(super) async fn prepare(
    parts: &EngineParts,
    request: Box<CreateResponse>,
    caller: &RunContext,
    purpose: Purpose<'_>,
) -> Result<Prepared, ApiError> {
    let settled = settings::settle(parts, request, caller).await?;
    let Settled { request, input, sent, agent, instructions, route, ignored, structured, limits } = settled;
    // Before anything is read: an erasure of what the run reads is known to be newer than the run by its id.
    let (ids, created_at, resumed) = purpose.identity();
    let conversation_lock = run_conversation::lock(parts, caller, &request, purpose.runs()).await?;
    let read = conversation::read(parts, caller, &request, input).await?;
    let with_carried = tools::with_carried(&request, &read.past, &read.input);
    let items = (&*read.past, &*read.input);
    let response = ids.response();
    let answers = purpose.answers(&response);
    let asked = ToolRequest::new(&with_carried, agent, items, read.compacts, &limits, answers);
    let resolved = tools::resolve(parts, caller, asked).await.map_err(|error| read.places.restore(error))?;
    let ResolvedTools { visibility, executes_tools, presentation, tools } = resolved;
    let ReadConversation { past, states, input, found, root, range, compacts, summaries, memory, .. } = read;
    let input = name_input(&ids, with_own_ids(&ids, input));
    let past = states::with_stored_state(past, &states);
    let resumed_turns = resumed.iter().flat_map(|resumed| resumed.history.iter().cloned());
    let items = past.chain(found.model_input(&input)).chain(resumed_turns).collect();
    let window = route.provider.info().context_window.for_model(&route.model);
    let seal = parts.seal.bound_to(&caller.owner.tenant, route.provider.name());
    let (conversation, retained) = model_view(items, window, compacts, &seal, &summaries)?;
    let auto_compaction = AutoCompaction::requested(parts, &request, compacts, &route, &summaries)?;
    let was_queued = resumed.is_some();
    let store = request.store || request.background;
    // A server may offer others while the run goes on.
    let may_go_on = store && (tools.offer.may_go_on() || !tools.servers.is_empty());
    let spec = RunSpec {
        response: echo::created(&request, &ids, caller.dialect, created_at, &tools.offer.omitted)?,
        owner: caller.owner.clone(),
        lease: resumed.map_or_else(|| Lease::first(response.clone()), |resumed| resumed.lease.clone()),
        previous: request.previous_response_id.as_deref().map(Id::from),
        appends_to: RunConversation::of(root.as_ref(), range, &summaries),
        conversation: settings::conversation_key(&request, root, &response),
        input: RunInput {
            items: input,
            found,
            committed: resumed.map(|resumed| resumed.committed.clone()).unwrap_or_default(),
        },
        agent: agent.map(|agent| agent.name.into()),
        limits,
        store,
        is_unlisted: request.background && !request.store,
        // The client of a run that was queued reads its log.
        stream: request.stream && !was_queued,
        output: settings::output(parts, &request, caller, route.provider.name()),
        display: settings::display(&request, caller, presentation, visibility),
        client: settings::client_turns(parts, &request, caller, (executes_tools, was_queued), &tools.offer)?,
        executes_tools,
        bypass_cache: settings::bypasses_cache(&request),
        is_compaction: compacts,
        request_bytes: memory.used() + request.bytes.saturating_sub(request.input_bytes) as u64,
        sent: sent.filter(|_| may_go_on),
    };
    let mut prompt = model_request::prompt(parts, request, route, (conversation, instructions), &tools.offer);
    prompt.auto_compaction = auto_compaction;
    // What the model has written of a run that was queued is there at once, whether anybody reads it.
    prompt.request_mut().stream |= was_queued;
    fit_conversation(parts, &mut prompt, compacts)?;
    let summary = compacts.then_some(summaries as _);
    Ok(Prepared {
        options: MachineOptions { summary, ..spec.output.machine_options(seal) },
        spec,
        prompt,
        tools,
        structured: if compacts { OutputValidator::unconstrained() } else { structured },
        conversation_lock,
        memory_permits: memory.into_permits(),
        ignored,
        retained,
    })
}

/// Makes the conversation fit what the model takes. One that is compacted automatically is dealt with by the run.
fn fit_conversation(parts: &EngineParts, prompt: &mut Prompt, compacts: bool) -> Result<(), ApiError> {
    if compacts {
        prompt.ask_for_summary(&parts.options.engine.compaction)?;
    }
    match prompt.auto_compaction {
        Some(_) => Ok(()),
        None => prompt.truncate_to_window(),
    }
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
