//! Does what the results of tools lead to whose work has gone on: changes the item of the call, queues the response that
//! follows, and tells webhooks.
//!
//! All of it can be repeated: the response that follows has an idempotency key, and the rest is one commit that is made once. So
//! each process looks, and none has to be the one.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::async_results::{self, outcome, with_result};
use super::background::follow_up::{self, Announced};
use super::chain::Step;
use super::completion_text::announcement;
use super::context::unix_now;
use super::run::trace::{self, RunTrace};
use crate::context::EngineParts;
use antwort_config::OnComplete;
use antwort_identity::Owner;
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::id::Id;
use antwort_protocol::item::Item;
use antwort_protocol::json;
use antwort_protocol::response::ResponseStatus;
use antwort_store::{
    AsyncCallKey, AsyncSettlement, CompletedCall, ItemChange, ModelView, ReadLimit, StoreError, TraceChange,
};
use antwort_telemetry::fields::RESPONSE_ID;
use antwort_tools::{CallKey, RefusedFollowUp, audit_refused_follow_up};

/// Calls that are settled at a time.
const BATCH: usize = 32;

/// The code of a response that none follows, as its account cannot be read.
const NO_ACCOUNT: &str = "trace_unreadable";

/// The code of a response that none follows, as it failed, was cancelled or is incomplete.
const NOT_COMPLETED: &str = "response_not_completed";

/// What is read of a stored response.
#[derive(Deserialize)]
struct StoredFacts<'a> {
    status: ResponseStatus,
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

/// [`Engine::settle_completed_calls`](crate::Engine::settle_completed_calls).
pub(crate) async fn settle_completed_calls(parts: &Arc<EngineParts>) -> Result<bool, StoreError> {
    let calls = parts.store.completed_calls(BATCH).await?;
    let may_be_more = calls.len() == BATCH;
    let mut is_stuck = false;
    for call in calls {
        let id = call.key.response.clone();
        match settle(parts, call).await {
            Ok(()) => {}
            Err(error) => {
                is_stuck = true;
                tracing::warn!({ RESPONSE_ID } = id.as_str(), %error, "acting on the result of a tool call failed; retrying");
            }
        }
    }
    Ok(may_be_more && !is_stuck)
}

async fn settle(parts: &Arc<EngineParts>, call: CompletedCall) -> Result<(), ApiError> {
    let body = parts.store.response(&call.key.owner, call.key.response.as_str(), u64::MAX).await?;
    let Some(body) = body else {
        // It was deleted meanwhile, and the call with it.
        return Ok(());
    };
    let facts: StoredFacts<'_> = serde_json::from_str(&body).map_err(|_| ApiError::internal())?;
    // As of any other tool, the model reads no more of it.
    let (text, error) = outcome(&call, parts.options.tools.results.max_bytes);
    let followed = follow_result(parts, &call, &facts, (&text, error.as_deref())).await?;
    let is_told = followed == Followed::Queued;
    let CompletedCall { key, item, tool, .. } = call;
    let change = facts.output.iter().find_map(|raw| changed(raw, item.as_str(), &text, error.as_deref()));
    let item_change = match change {
        Some((wire, model_view)) => Some(ItemChange {
            id: item.clone(),
            wire,
            // The input of a response that follows has the result.
            model_view: if is_told { model_view } else { ModelView::Same },
        }),
        None if is_told => None,
        None => changed_view(parts, &key.owner, &facts, &item, &text, error.as_deref()).await?,
    };
    let trace = match followed {
        Followed::Not(Some(code)) => changed_trace(parts, &key, &item, &code).await?,
        _ => None,
    };
    let outbox = parts.options.webhooks.tool_call_notices(&key, &item, &tool, unix_now());
    parts.store.settle_async(AsyncSettlement { key, item: item_change, trace, outbox }).await?;
    Ok(())
}

/// Queues the response that follows a result, if one is wanted and can be made.
async fn follow_result(
    parts: &Arc<EngineParts>,
    call: &CompletedCall,
    facts: &StoredFacts<'_>,
    (text, error): (&str, Option<&str>),
) -> Result<Followed, ApiError> {
    if !(call.has_spec && call.result.is_some() && is_followed(call)) {
        return Ok(Followed::Not(None));
    }
    if !matches!(facts.status, ResponseStatus::Completed | ResponseStatus::RequiresAction) {
        parts.metrics.follow_up("stored");
        return Ok(Followed::Not(Some(NOT_COMPLETED.to_owned())));
    }
    let AsyncCallKey { owner, response, turn, index } = &call.key;
    let max_bytes = parts.options.tools.results.max_bytes;
    let known = parts.store.async_results(owner, std::slice::from_ref(response)).await?;
    let others: Vec<_> = known.iter().filter(|other| other.item != call.item && is_followed(other)).collect();
    // Together they take the room of one.
    let room = max_bytes / others.len().max(1);
    let tell = |other: &&CompletedCall| {
        let (text, error) = outcome(other, room);
        announcement(&other.tool, other.item.as_str(), &text, error.as_deref(), room)
    };
    let result = Announced {
        text: announcement(&call.tool, call.item.as_str(), text, error, max_bytes),
        others: others.iter().map(tell).collect(),
    };
    let name = format!("antwort:async:{response}/{turn}/{index}");
    let is_paused = awaits_client(parts, owner, facts).await?;
    let metrics = &parts.metrics;
    let key = CallKey { response: response.clone(), turn: *turn, index: *index };
    let Some(step) = step_after(parts, call, &key).await? else {
        metrics.follow_up("refused");
        audit_refused_follow_up(&RefusedFollowUp {
            owner,
            call: &key.to_string(),
            tool: &call.tool,
            code: NO_ACCOUNT,
        });
        return Ok(Followed::Not(Some(NO_ACCOUNT.to_owned())));
    };
    // Settled meanwhile, or deleted.
    let Some(spec) = parts.store.async_spec(&call.key).await? else {
        return Ok(Followed::Not(None));
    };
    match follow_up::submit_follow_up(parts, (&spec, step), owner, name, (result, is_paused)).await {
        Ok(()) => {
            metrics.follow_up("queued");
            Ok(Followed::Queued)
        }
        // Another time it may be possible.
        Err(error) if is_temporary(&error) => Err(error),
        Err(error) if error.code() == follow_up::AWAITS_CLIENT => {
            metrics.follow_up("stored");
            Ok(Followed::Not(Some(error.code().to_owned())))
        }
        Err(error) => {
            metrics.follow_up("refused");
            let code = error.code();
            audit_refused_follow_up(&RefusedFollowUp {
                owner,
                call: &key.to_string(),
                tool: &call.tool,
                code,
            });
            tracing::warn!({ RESPONSE_ID } = response.as_str(), %error, "the response that follows a tool call was refused");
            Ok(Followed::Not(Some(error.code().to_owned())))
        }
    }
}

/// The response of a call as a step of its chain; `None` if its account cannot be read: what it has used is not known. One
/// without an account has used nothing.
async fn step_after(
    parts: &EngineParts,
    call: &CompletedCall,
    key: &CallKey,
) -> Result<Option<Step>, ApiError> {
    let AsyncCallKey { owner, response, .. } = &call.key;
    let found = parts.store.traces(owner, std::slice::from_ref(response)).await?;
    let trace = match found.into_iter().next().flatten() {
        None => RunTrace::default(),
        Some(stored) => match serde_json::from_str(&stored) {
            Ok(trace) => trace,
            Err(_) => return Ok(None),
        },
    };
    Ok(Some(Step::after(&trace, call.item.as_str(), (key, &call.tool))))
}

/// Whether the response has ended with calls that wait for its client. A call of the gateway that clients are not shown as
/// such looks like one of theirs.
async fn awaits_client(
    parts: &EngineParts,
    owner: &Owner,
    facts: &StoredFacts<'_>,
) -> Result<bool, ApiError> {
    let items: Vec<Item> =
        facts.output.iter().filter_map(|raw| serde_json::from_str(raw.get()).ok()).collect();
    if !async_results::awaits_client(items.iter()) {
        return Ok(false);
    }
    let ids: Vec<Id> = items.iter().map(|item| item.id().clone()).collect();
    let seen = parts.store.items(owner, &ids, ReadLimit::UNLIMITED).await?;
    Ok(async_results::awaits_client(seen.iter().flatten()))
}

/// The account of the run, with why no response follows the result.
async fn changed_trace(
    parts: &EngineParts,
    key: &AsyncCallKey,
    item: &Id,
    code: &str,
) -> Result<Option<TraceChange>, ApiError> {
    let found = parts.store.traces(&key.owner, std::slice::from_ref(&key.response)).await?;
    let Some(before) = found.into_iter().next().flatten() else { return Ok(None) };
    let after = trace::with_follow_up_error(&before, item, code);
    Ok(after.map(|after| TraceChange { before, after: after.into() }))
}

/// An item that shows no results to clients: only what the model sees of it is changed.
async fn changed_view(
    parts: &EngineParts,
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
    let seen = parts.store.items(owner, std::slice::from_ref(id), ReadLimit::UNLIMITED).await?;
    let Some(Some(Item::McpCall(call))) = seen.into_iter().next() else { return Ok(None) };
    let view = Item::McpCall(with_result(call, text, error));
    Ok(Some(ItemChange {
        id: id.clone(),
        wire: wire.get().into(),
        model_view: ModelView::Override(json::to_text(&view)),
    }))
}

#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// What became of the response that was to follow.
#[derive(Debug, PartialEq, Eq)]
enum Followed {
    Queued,
    /// None follows: nobody wants one, or it cannot be made, and this code says why.
    Not(Option<String>),
}

fn is_followed(call: &CompletedCall) -> bool {
    call.on_complete == OnComplete::FollowUp.as_str()
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
            async_results::finish(&mut call, text, error);
            (Item::ServerToolCall(call), Dialect::OpenResponses)
        }
        _ => return None,
    };
    Some((json::to_text(&item.in_dialect(dialect, false)), ModelView::Override(raw.get().into())))
}
