//! Conversations as their routes change them, without a run.

use std::sync::Arc;

use super::context::{EngineParts, RunContext, unix_now};
use super::conversation::ConversationBudget;
use super::run_conversation::{check_policy, not_found, roles};
use super::{prepare, record, states};
use antwort_config::settings::UnknownFields;
use antwort_protocol::error::ApiError;
use antwort_protocol::id::{Id, IdGenerator};
use antwort_protocol::item::Item;
use antwort_protocol::json;
use antwort_protocol::request::{
    AddItems, CreateConversation, CreateResponse, UnservedField, UpdateConversation, judge_unserved as judge,
};
use antwort_store::{AddedItems, ConversationItem, ConversationRecord, StoredConversation};

/// Items that were added, with their ids.
pub(crate) type AddedTexts = Vec<(Id, Arc<str>)>;

/// [`Engine::judge_unserved`](crate::Engine::judge_unserved).
pub(crate) fn judge_unserved(
    parts: &EngineParts,
    found: Vec<UnservedField>,
    caller: &RunContext,
) -> Result<Vec<String>, ApiError> {
    let ignores = parts.options.unknown_fields == UnknownFields::Ignore;
    judge(found, ignores || caller.lists_unserved_fields)
}

/// [`Engine::create_conversation`](crate::Engine::create_conversation).
pub(crate) async fn create_conversation(
    parts: &EngineParts,
    request: CreateConversation,
    caller: &RunContext,
) -> Result<StoredConversation, ApiError> {
    check_conversations(parts, caller).await?;
    let (metadata, created_at) = (json::to_text(&request.metadata), unix_now());
    let id = Id::generate("conv");
    let record = ConversationRecord {
        id: id.clone(),
        owner: caller.owner.clone(),
        created_at,
        metadata: Arc::clone(&metadata),
        items: prepare_items(parts, caller, request.items, request.item_bytes).await?,
    };
    match parts.store.create_conversation(record).await? {
        AddedItems::Added => Ok(StoredConversation { id, created_at, metadata }),
        AddedItems::Duplicate(place) => Err(duplicate(place)),
        AddedItems::Unknown => Err(ApiError::internal()),
    }
}

/// [`Engine::update_conversation`](crate::Engine::update_conversation).
pub(crate) async fn update_conversation(
    parts: &EngineParts,
    id: &str,
    request: &UpdateConversation,
    caller: &RunContext,
) -> Result<StoredConversation, ApiError> {
    check_conversations(parts, caller).await?;
    let (store, owner) = (&parts.store, &caller.owner);
    if !store.update_conversation(owner, id, json::to_text(&request.metadata)).await? {
        return Err(not_found(id));
    }
    store.conversation(owner, id).await?.ok_or_else(|| not_found(id))
}

/// [`Engine::add_conversation_items`](crate::Engine::add_conversation_items).
pub(crate) async fn add_conversation_items(
    parts: &EngineParts,
    id: &str,
    request: AddItems,
    caller: &RunContext,
) -> Result<AddedTexts, ApiError> {
    check_conversations(parts, caller).await?;
    let items = prepare_items(parts, caller, request.items, request.item_bytes).await?;
    let added = items.iter().map(|item| (item.item.id.clone(), Arc::clone(&item.item.wire))).collect();
    match parts.store.add_conversation_items(&caller.owner, id, items).await? {
        AddedItems::Added => Ok(added),
        AddedItems::Duplicate(place) => Err(duplicate(place)),
        AddedItems::Unknown => Err(not_found(id)),
    }
}

/// Whether the caller may write to a conversation, and the store be written to.
async fn check_conversations(parts: &EngineParts, caller: &RunContext) -> Result<(), ApiError> {
    check_policy(caller.store).map_err(|mut error| {
        // These requests have no such field.
        error.body.param = None;
        error
    })?;
    if parts.store.is_impaired() {
        parts.store.check_writable().await?;
    }
    Ok(())
}

/// The items as they are stored: with ids, and what the store knows of those that a client replays.
async fn prepare_items(
    parts: &EngineParts,
    caller: &RunContext,
    mut items: Vec<Item>,
    bytes: usize,
) -> Result<Vec<ConversationItem>, ApiError> {
    let measured = CreateResponse { input_bytes: bytes, ..CreateResponse::default() };
    let mut budget = ConversationBudget::new(parts, caller, &measured)?;
    let found = states::find(parts, &caller.owner, &mut items, &mut budget).await?;
    let items = prepare::name_input(&IdGenerator::new(), items);
    let seal = parts.seal.summaries_of(&caller.owner.tenant);
    let roles = roles(items.iter().map(|item| &**item), &seal);
    let stored = record::stored_input(&caller.owner, caller.dialect, &items, &found);
    Ok(stored.zip(roles).map(|(item, role)| ConversationItem { item, role }).collect())
}

fn duplicate(place: usize) -> ApiError {
    ApiError::invalid(
        "invalid_value",
        format!("items[{place}].id"),
        format!(
            "Invalid value for 'items[{place}].id': the conversation has an item with this id already. Leave the id out."
        ),
    )
}
