//! The conversation of a request: what is stored of it and what the request adds, checked to fit together.

use std::collections::HashMap;
use std::sync::Arc;

use crate::context::{EngineParts, RunContext};
use crate::conversation::ConversationBudget;
use crate::history::{self, PriorConversation};
use crate::replayed::{PlacedInput, Places};
use crate::states::{self, StoredInput};
use crate::{compaction, named_outputs};
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::item::{InputItem, Item};
use antwort_protocol::request::CreateResponse;
use antwort_response::seal::SummarySeal;

/// A conversation that was read.
pub(super) struct ReadConversation<'a> {
    /// The items before the request.
    pub(crate) past: Vec<Item>,
    /// Sealed provider state that is stored beside them, by place.
    pub states: HashMap<usize, Arc<str>>,
    /// Those of the request, without those that it replays.
    pub input: Vec<Item>,
    /// Their places in the request.
    pub places: Places,
    /// What is stored of them.
    pub found: StoredInput,
    /// The first response of the chain, or the conversation.
    pub root: Option<Id>,
    /// The positions of a stored conversation that were read.
    pub range: Option<(u64, u64)>,
    /// Whether the request asks for a compaction.
    pub compacts: bool,
    /// What seals and opens the summaries of compactions.
    pub summaries: Arc<SummarySeal>,
    /// The memory that it takes.
    pub memory: ConversationBudget<'a>,
}

/// Reads the conversation that a request with this input continues.
pub(super) async fn read<'a>(
    parts: &'a EngineParts,
    caller: &RunContext,
    request: &CreateResponse,
    input: Vec<InputItem>,
) -> Result<ReadConversation<'a>, ApiError> {
    let (past, input, mut memory) = history::load(parts, caller, request, input).await?;
    let PriorConversation { items: past, states, root, range, param, .. } = past;
    let summaries = parts.seal.summaries_of(&caller.owner.tenant);
    let (PlacedInput { items: mut input, places }, compacts) = check((&past, param), input, &summaries)?;
    let found = states::find(parts, &caller.owner, &mut input, &mut memory).await?;
    Ok(ReadConversation { past, states, input, places, found, root, range, compacts, summaries, memory })
}

/// Checks that the items fit together, without those that are replayed beside the history. Also returns whether they ask
/// for a compaction.
fn check(
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
