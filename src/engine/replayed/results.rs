//! Results of the gateway's calls that a client sends again. The model may have read more than clients were given, and the
//! result of work that goes on changes: only what neither is nor was given is refused.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{PlacedInput, differs};
use crate::engine::context::EngineParts;
use crate::identity::Owner;
use crate::protocol::error::ApiError;
use crate::protocol::id::Id;
use crate::protocol::item::Item;
use crate::protocol::item::hosted::McpCallError;

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
    pub(in crate::engine) async fn check_results(
        &self,
        parts: &EngineParts,
        owner: &Owner,
        past: &[Item],
    ) -> Result<(), ApiError> {
        if !self.items.iter().any(|item| CallResult::of(item).is_some()) {
            return Ok(());
        }
        let seen: HashMap<&Id, &Item> = past.iter().map(|item| (item.id(), item)).collect();
        for (item, place) in self.items.iter().zip(&self.places.0) {
            let results = CallResult::of(item).zip(seen.get(item.id()).and_then(|seen| CallResult::of(seen)));
            let Some(field) = results.and_then(|(sent, seen)| sent.difference(&seen)) else { continue };
            if !was_given(parts, owner, item).await? {
                return Err(differs(item, *place, field));
            }
        }
        Ok(())
    }
}

/// Whether clients were given the call with this result, or may have been.
async fn was_given(parts: &EngineParts, owner: &Owner, item: &Item) -> Result<bool, ApiError> {
    #[derive(Deserialize)]
    struct Output<'a> {
        #[serde(borrow)]
        output: Vec<&'a RawValue>,
    }
    let Some(response) = item.id().of_response() else { return Ok(true) };
    let Some(body) = parts.store.response(owner, response.as_str(), u64::MAX).await? else { return Ok(true) };
    let Ok(Output { output }) = serde_json::from_str(&body) else { return Ok(true) };
    let given = output.into_iter().filter_map(|raw| serde_json::from_str::<Item>(raw.get()).ok());
    let Some(given) = given.into_iter().find(|given| given.id() == item.id()) else { return Ok(true) };
    if CallResult::of(&given) == CallResult::of(item) {
        return Ok(true);
    }
    // What it has answered first is kept nowhere.
    let late = parts.store.async_results(owner, &response).await?;
    Ok(late.iter().any(|call| call.item == *item.id()))
}
