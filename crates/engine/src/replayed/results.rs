//! Results of the gateway's calls that a client sends again. The model may have read more than clients were given, and the
//! result of work that goes on changes: only what neither is nor was given is refused.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{PlacedInput, differs};
use crate::context::EngineParts;
use crate::conversation::ConversationBudget;
use antwort_identity::Owner;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::item::hosted::McpCallError;
use antwort_store::ReadLimit;

/// The result of a call, as it is compared.
#[derive(PartialEq)]
struct CallResult<'a> {
    output: Option<&'a str>,
    error: Option<Cow<'a, str>>,
}

impl<'a> CallResult<'a> {
    /// That of a call that has one.
    fn of(item: &'a Item) -> Option<Self> {
        let (output, error) = match item {
            Item::McpCall(call) => (call.output.as_deref(), call.error.as_ref().map(McpCallError::message)),
            Item::ServerToolCall(call) => (
                call.output.as_deref(),
                call.error.as_ref().map(|error| Cow::Borrowed(error.message.as_str())),
            ),
            _ => return None,
        };
        (output.is_some() || error.is_some()).then_some(Self { output, error })
    }

    /// The first field in which the other differs.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        match self {
            _ if self.output != other.output => Some("output"),
            _ if self.error != other.error => Some("error"),
            _ => None,
        }
    }
}

impl PlacedInput {
    /// Refuses calls whose results differ from the history's. Those that clients were given are read only if a result is not
    /// what the model has read.
    pub(crate) async fn check_results(
        &self,
        parts: &EngineParts,
        owner: &Owner,
        past: &[Item],
        budget: &mut ConversationBudget<'_>,
    ) -> Result<(), ApiError> {
        let differing = self.differing_results(past);
        let responses: BTreeSet<Id> =
            differing.iter().filter_map(|(item, ..)| item.id().of_response()).collect();
        if responses.is_empty() {
            return Ok(());
        }
        let responses: Vec<Id> = responses.into_iter().collect();
        // What these have answered first is kept nowhere.
        let late = parts.store.async_results(owner, &responses).await?;
        let late: HashSet<Id> = late.into_iter().map(|call| call.item).collect();
        let mut given: HashMap<Id, Item> = HashMap::new();
        for response in &responses {
            let read =
                |limit: ReadLimit| parts.store.response(owner, response.as_str(), limit.max_read_bytes);
            let body = budget.read(read).await?;
            given.extend(body.iter().flat_map(|body| calls_of(body)).map(|call| (call.id().clone(), call)));
        }
        for (item, place, field) in differing {
            let given = given.get(item.id());
            let is_given = given.is_none_or(|given| CallResult::of(given) == CallResult::of(item));
            if !is_given && !late.contains(item.id()) {
                return Err(differs(item, place, field));
            }
        }
        Ok(())
    }

    /// Calls of which the history has another result, with their places in the request and the field that differs.
    fn differing_results(&self, past: &[Item]) -> Vec<(&Item, usize, &'static str)> {
        if !self.items.iter().any(|item| CallResult::of(item).is_some()) {
            return Vec::new();
        }
        let seen: HashMap<&Id, CallResult<'_>> =
            past.iter().filter_map(|item| Some((item.id(), CallResult::of(item)?))).collect();
        let placed = self.items.iter().zip(&self.places.0);
        let differing = placed.filter_map(|(item, place)| {
            let field = CallResult::of(item)?.difference(seen.get(item.id())?)?;
            Some((item, *place, field))
        });
        differing.collect()
    }
}

/// The calls of a stored response, as clients are given them.
fn calls_of(response: &str) -> Vec<Item> {
    #[derive(Deserialize)]
    struct Output<'a> {
        #[serde(borrow)]
        output: Vec<&'a RawValue>,
    }
    let output = serde_json::from_str::<Output<'_>>(response).map_or_else(|_| Vec::new(), |it| it.output);
    let items = output.into_iter().filter_map(|raw| serde_json::from_str::<Item>(raw.get()).ok());
    items.filter(|item| matches!(item, Item::McpCall(_) | Item::ServerToolCall(_))).collect()
}
