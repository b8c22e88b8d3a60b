//! Does what the results of tools lead to whose work has gone on: changes the item of the call, queues the response that
//! follows, and tells webhooks.
//!
//! All of it can be repeated: the response that follows has an idempotency key, and the rest is one commit that is made once. So
//! each process looks, and none has to be the one.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Engine;
use super::completion_text::{TIMED_OUT, announcement};
use super::context::unix_now;
use crate::config::OnComplete;
use crate::identity::Owner;
use crate::protocol::dialect::Dialect;
use crate::protocol::error::{ApiError, ErrorKind};
use crate::protocol::id::Id;
use crate::protocol::item::hosted::{McpCall, McpCallError};
use crate::protocol::item::{Item, ItemStatus, ServerToolError};
use crate::protocol::json;
use crate::protocol::response::ResponseStatus;
use crate::store::{AsyncSettlement, CompletedCall, ItemChange, ModelView, ReadLimit, StoreError};
use crate::telemetry::fields::RESPONSE_ID;
use crate::tools::shorten;

/// Calls that are settled at a time.
const BATCH: usize = 32;
/// What is read of a stored response.
#[derive(Deserialize)]
struct StoredFacts<'a> {
    status: ResponseStatus,
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

impl Engine {
    /// Settles the calls that have a result, or will get none, of responses that have ended. Returns whether there may be
    /// more.
    pub(crate) async fn settle_completed_calls(self: &Arc<Self>) -> Result<bool, StoreError> {
        let calls = self.parts.store.completed_calls(BATCH).await?;
        let may_be_more = calls.len() == BATCH;
        let mut is_stuck = false;
        for call in calls {
            let id = call.key.response.clone();
            match self.settle(call).await {
                Ok(()) => {}
                Err(error) => {
                    is_stuck = true;
                    tracing::warn!({ RESPONSE_ID } = id.as_str(), %error, "acting on the result of a tool call failed; retrying");
                }
            }
        }
        Ok(may_be_more && !is_stuck)
    }

    async fn settle(self: &Arc<Self>, call: CompletedCall) -> Result<(), ApiError> {
        let CompletedCall { key, item, tool, on_complete, spec, result } = call;
        let is_late = result.is_none();
        let (mut text, error) =
            result.unwrap_or_else(|| (TIMED_OUT.0.to_owned(), Some(TIMED_OUT.1.to_owned())));
        // As of any other tool, the model reads no more of it.
        let max_bytes = self.parts.options.tools.results.max_bytes;
        shorten(&mut text, max_bytes);
        let body = self.parts.store.response(&key.owner, key.response.as_str(), u64::MAX).await?;
        let Some(body) = body else {
            // It was deleted meanwhile, and the call with it.
            return Ok(());
        };
        let facts: StoredFacts<'_> = serde_json::from_str(&body).map_err(|_| ApiError::internal())?;
        let goes_on =
            matches!(facts.status, ResponseStatus::Completed | ResponseStatus::RequiresAction) && !is_late;
        let follows = on_complete == OnComplete::FollowUp.as_str() && goes_on;
        if let Some(spec) = spec.filter(|_| follows) {
            let name = format!("antwort:async:{}/{}/{}", key.response, key.turn, key.index);
            let input = announcement(&tool, item.as_str(), &text, error.as_deref(), max_bytes);
            match self.submit_follow_up(&spec, &key.owner, name, &input).await {
                Ok(()) => {}
                // Another time it may be possible.
                Err(error) if is_temporary(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!({ RESPONSE_ID } = key.response.as_str(), %error, "the response that follows a tool call was refused");
                }
            }
        }
        let change = facts.output.iter().find_map(|raw| changed(raw, item.as_str(), &text, error.as_deref()));
        let item_change = match change {
            Some((wire, model_view)) => Some(ItemChange {
                id: item.clone(),
                wire,
                // The input of a response that follows has the result.
                model_view: if follows { model_view } else { ModelView::Same },
            }),
            None if follows => None,
            None => self.changed_view(&key.owner, &facts, &item, &text, error.as_deref()).await?,
        };
        let outbox = self.parts.options.webhooks.tool_call_notices(&key, &item, &tool, unix_now());
        self.parts.store.settle_async(AsyncSettlement { key, item: item_change, outbox }).await?;
        Ok(())
    }

    /// An item that shows no results to clients: only what the model sees of it is changed.
    async fn changed_view(
        &self,
        owner: &Owner,
        facts: &StoredFacts<'_>,
        id: &Id,
        text: &str,
        error: Option<&str>,
    ) -> Result<Option<ItemChange>, ApiError> {
        let is_it = |raw: &&&RawValue| {
            serde_json::from_str::<Identified<'_>>(raw.get()).is_ok_and(|item| item.id == id.as_str())
        };
        let Some(wire) = facts.output.iter().find(is_it) else { return Ok(None) };
        let seen = self.parts.store.items(owner, std::slice::from_ref(id), ReadLimit::UNLIMITED).await?;
        let Some(Some(Item::McpCall(call))) = seen.into_iter().next() else { return Ok(None) };
        let view = Item::McpCall(with_result(call, text, error));
        Ok(Some(ItemChange {
            id: id.clone(),
            wire: wire.get().into(),
            model_view: ModelView::Override(json::to_text(&view)),
        }))
    }
}

#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

fn with_result(mut call: McpCall, text: &str, error: Option<&str>) -> McpCall {
    call.status = if error.is_some() { ItemStatus::Failed } else { ItemStatus::Completed };
    call.output = error.is_none().then(|| text.to_owned());
    call.error = error.map(|code| McpCallError::from_tool_error(code, text));
    call
}

/// Whether a refusal is one of the moment.
fn is_temporary(error: &ApiError) -> bool {
    error.code() == "storage_error"
        || matches!(
            error.kind,
            ErrorKind::Aborted | ErrorKind::Unavailable | ErrorKind::RateLimited | ErrorKind::Internal
        )
}

/// The item with its result, and what the model goes on to see of it: what it has seen. `None` if it is not this one, or
/// shows no results.
fn changed(raw: &RawValue, id: &str, text: &str, error: Option<&str>) -> Option<(Arc<str>, ModelView)> {
    let item: Item = serde_json::from_str(raw.get()).ok().filter(|item: &Item| item.id().as_str() == id)?;
    let (item, dialect) = match item {
        Item::McpCall(call) => (Item::McpCall(with_result(call, text, error)), Dialect::OpenAi),
        Item::ServerToolCall(mut call) => {
            call.status = if error.is_some() { ItemStatus::Failed } else { ItemStatus::Completed };
            call.output = error.is_none().then(|| text.to_owned());
            call.error =
                error.map(|code| ServerToolError { code: code.to_owned(), message: text.to_owned() });
            (Item::ServerToolCall(call), Dialect::OpenResponses)
        }
        _ => return None,
    };
    Some((json::to_text(&item.in_dialect(dialect, false)), ModelView::Override(raw.get().into())))
}
