//! The state of a machine between the commit of a turn and the results of its calls, so that another process can end
//! the response as this one would have: with the next sequence number, the next id, and its open items.
//!
//! The items before the first unfinished one are stored as rows of their own, and not repeated here.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::server::OpenServerCall;
use super::{ApprovalRequest, MachineOptions, OpenItem, ResponseMachine, TurnState};
use crate::accumulator::ResponseAccumulator;
use crate::machine::{ServerCall, Summary};
use crate::turn::ProviderState;
use antwort_protocol::id::IdGenerator;
use antwort_protocol::item::Item;
use antwort_protocol::request::ServiceTier;
use antwort_protocol::response::{Response, Usage};

/// Above the numbers of ids that a run uses, of which it is not known how many it used.
const FIRST_FREE_ID: u32 = 1 << 24;

/// The state of a machine right before [`ResponseMachine::dispatch_calls`].
#[derive(Debug, Deserialize)]
pub struct MachineState {
    sequence: u64,
    next_id: u32,
    /// The place of the first item that is not finished.
    unfinished: usize,
    /// The items from there on.
    #[serde(default)]
    items: Vec<Item>,
    #[serde(default)]
    open: Option<OpenServerCall>,
    /// `None` if no turn was committed.
    #[serde(default)]
    turn: Option<TurnState>,
    /// The server-side calls of the turn, in order.
    #[serde(default)]
    calls: Vec<ServerCall>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    service_tier: Option<ServiceTier>,
    #[serde(default)]
    sealed: BTreeMap<u32, String>,
    #[serde(default)]
    history: BTreeMap<u32, Item>,
    #[serde(default)]
    approval_requests: Vec<ApprovalRequest>,
    #[serde(default)]
    itemless_turns: Vec<ProviderState>,
    bytes: usize,
    item_bytes: usize,
    largest_item: usize,
}

/// [`MachineState`], borrowed from a machine. What is empty is left out: it is written with each turn that makes calls.
#[derive(Serialize)]
struct SavedState<'a> {
    sequence: u64,
    next_id: u32,
    unfinished: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    items: &'a [Item],
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<&'a OpenServerCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<&'a TurnState>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    calls: &'a [ServerCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<ServiceTier>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sealed: BTreeMap<&'a u32, &'a String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    history: BTreeMap<&'a u32, &'a Item>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    approval_requests: &'a [ApprovalRequest],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    itemless_turns: &'a [ProviderState],
    bytes: usize,
    item_bytes: usize,
    largest_item: usize,
}

impl MachineState {
    /// The place of the first item that the state holds; the items before it have rows of their own.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// The usage of the inferences until then.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The state after a number of items of which nothing else is known, with the number of the next event.
    pub fn after_items(items: usize, sequence: u64) -> Self {
        Self {
            sequence,
            next_id: FIRST_FREE_ID,
            unfinished: items,
            items: Vec::new(),
            open: None,
            turn: None,
            calls: Vec::new(),
            usage: None,
            service_tier: None,
            sealed: BTreeMap::new(),
            history: BTreeMap::new(),
            approval_requests: Vec::new(),
            itemless_turns: Vec::new(),
            bytes: 0,
            item_bytes: 0,
            largest_item: 0,
        }
    }

    /// The number of the next event.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The place of the first item of the turn whose calls are missing; `None` if no turn was committed.
    pub fn turn_begins(&self) -> Option<usize> {
        self.turn.as_ref().map(|turn| turn.first)
    }

    /// Whether the turn has calls for the client to make, and calls that need approval.
    pub fn waits_for(&self) -> (bool, bool) {
        self.turn.as_ref().map_or((false, false), |turn| (turn.client_calls > 0, turn.approval_calls > 0))
    }

    /// Whether the client was asked for the outputs of its calls.
    pub fn asks_client(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.asks_client)
    }

    /// The turns right before the last one, as far as they have no items.
    pub fn itemless_turns(&self) -> &[ProviderState] {
        &self.itemless_turns
    }

    /// The calls whose results are missing, in order.
    pub fn calls(&self) -> &[ServerCall] {
        &self.calls
    }
}

impl ResponseMachine {
    /// The state to be committed with a turn whose calls, these, are about to be made.
    pub fn save<'a>(&'a self, calls: &'a [ServerCall]) -> impl Serialize + 'a {
        let unfinished = self.first_unfinished();
        // Where items of this turn are finished already, the model's view of them goes with the state, too.
        let place = u32::try_from(unfinished.min(self.turn.first)).unwrap_or(u32::MAX);
        SavedState {
            sequence: self.sequence,
            next_id: self.ids.position(),
            unfinished,
            items: self.response().output.get(unfinished..).unwrap_or_default(),
            open: match &self.open {
                OpenItem::Server(open) => Some(open),
                _ => None,
            },
            turn: Some(&self.turn),
            calls,
            usage: self.usage,
            service_tier: self.service_tier,
            sealed: self.sealed.range(place..).collect(),
            history: self.history.range(place..).collect(),
            approval_requests: &self.approval_requests,
            itemless_turns: &self.itemless_turns,
            bytes: self.bytes,
            item_bytes: self.item_bytes,
            largest_item: self.largest_item,
        }
    }

    /// The state to be stored with a response that has no items yet, whatever was sent of them: the numbers that were
    /// used.
    pub fn save_position(&self) -> impl Serialize + '_ {
        SavedState {
            sequence: self.sequence,
            next_id: self.ids.position(),
            unfinished: 0,
            items: &[],
            open: None,
            turn: None,
            calls: &[],
            usage: self.usage,
            service_tier: self.service_tier,
            sealed: BTreeMap::new(),
            history: BTreeMap::new(),
            approval_requests: &[],
            itemless_turns: &[],
            bytes: self.bytes,
            item_bytes: 0,
            largest_item: self.largest_item,
        }
    }

    /// A machine in a saved state. `response` has the items before [`MachineState::unfinished`].
    pub fn resume(mut response: Response, state: MachineState, options: MachineOptions) -> Self {
        response.output.truncate(state.unfinished);
        response.output.extend(state.items);
        Self {
            ids: IdGenerator::resume(&response.id, state.next_id),
            accumulator: ResponseAccumulator::new(response),
            options,
            sequence: state.sequence,
            open: state.open.map_or(OpenItem::Nothing, OpenItem::Server),
            // The turn was committed, so that its calls may have been made.
            turn: state.turn.map_or_else(TurnState::default, |turn| TurnState { dispatched: true, ..turn }),
            usage: state.usage,
            service_tier: state.service_tier,
            sealed: state.sealed,
            history: state.history,
            abandoned: BTreeSet::new(),
            approval_requests: state.approval_requests,
            itemless_turns: state.itemless_turns,
            aborted_calls: Vec::new(),
            summary: Summary::default(),
            bytes: state.bytes,
            item_bytes: state.item_bytes,
            largest_item: state.largest_item,
        }
    }
}
