//! What every store does with conversations: their items, the turns that responses append, what a turn reads.

use std::sync::Arc;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    AddedItems, ContextRole, ConversationContext, ConversationItem, ConversationRecord, ConversationTurn,
    Direction, ModelView, PageRequest, ReadLimit, ResponseRecord, StateKey, Store, StoreError, StoredItem,
    StoredState,
};

use super::lists::check_pages;
use super::{Open, SHORT, message, owned_by, owner, running, text, texts, turn};

fn conversation(items: Vec<ConversationItem>) -> ConversationRecord {
    ConversationRecord {
        id: Id::generate("conv"),
        owner: owner(),
        created_at: 1_700_000_000,
        metadata: r#"{"a":"b"}"#.into(),
        items,
    }
}

fn said(text: &str) -> ConversationItem {
    ConversationItem { item: message(Direction::Input, text), role: ContextRole::User { tokens: 10 } }
}

fn plain(text: &str) -> ConversationItem {
    ConversationItem { item: message(Direction::Output, text), role: ContextRole::Plain }
}

async fn created(store: &dyn Store, items: Vec<ConversationItem>) -> String {
    let record = conversation(items);
    assert_eq!(store.create_conversation(record.clone()).await.unwrap(), AddedItems::Added);
    record.id.to_string()
}

async fn context(store: &dyn Store, id: &str) -> Option<ConversationContext> {
    store.conversation_context(&owner(), id, ReadLimit::UNLIMITED).await.unwrap()
}

/// The texts that the model sees.
async fn seen(store: &dyn Store, id: &str) -> Vec<String> {
    context(store, id).await.unwrap().items.iter().map(text).collect()
}

fn all() -> PageRequest {
    PageRequest { limit: 100, ascending: true, after: None, before: None, max_bytes: u64::MAX }
}

async fn listed(store: &dyn Store, id: &str) -> Vec<String> {
    let page = store.conversation_items(&owner(), id, &all()).await.unwrap().unwrap();
    page.data.iter().map(|(id, _)| id.to_string()).collect()
}

/// A turn that is made in a conversation as it is now.
async fn turn_in(store: &dyn Store, id: &str, question: &str, answer: &str) -> ResponseRecord {
    let read = context(store, id).await.unwrap();
    let conversation = ConversationTurn {
        id: id.into(),
        first: read.first,
        until: read.until,
        roles: vec![ContextRole::User { tokens: 10 }, ContextRole::Plain],
    };
    ResponseRecord { conversation: Some(conversation), ..turn(None, question, answer) }
}

pub(super) async fn a_conversation_is_read_back_and_its_metadata_replaced(store: &dyn Store) {
    let record = conversation(vec![said("hello")]);
    let id = record.id.as_str();
    store.create_conversation(record.clone()).await.unwrap();
    let found = store.conversation(&owner(), id).await.unwrap().unwrap();
    assert_eq!((found.id.as_str(), found.created_at, &*found.metadata), (id, 1_700_000_000, r#"{"a":"b"}"#));
    assert!(store.update_conversation(&owner(), id, "{}".into()).await.unwrap());
    assert_eq!(&*store.conversation(&owner(), id).await.unwrap().unwrap().metadata, "{}");
    assert_eq!(listed(store, id).await, [record.items[0].item.id.to_string()]);
    assert!(!store.update_conversation(&owner(), "conv_other", "{}".into()).await.unwrap());
}

pub(super) async fn a_deleted_conversation_is_gone_with_its_items(store: &dyn Store) {
    let id = created(store, (0..450).map(|n| said(&n.to_string())).collect()).await;
    let kept = created(store, vec![said("kept")]).await;
    assert!(store.delete_conversation(&owner(), &id).await.unwrap());
    assert!(!store.delete_conversation(&owner(), &id).await.unwrap());
    assert!(store.conversation(&owner(), &id).await.unwrap().is_none());
    assert!(store.conversation_items(&owner(), &id, &all()).await.unwrap().is_none());
    assert!(context(store, &id).await.is_none());
    let added = store.add_conversation_items(&owner(), &id, vec![said("late")]).await.unwrap();
    assert_eq!(added, AddedItems::Unknown);
    assert_eq!(seen(store, &kept).await, ["kept"]);
}

pub(super) async fn what_belongs_to_others_does_not_exist(store: &dyn Store) {
    let item = said("secret");
    let item_id = item.item.id.to_string();
    let id = created(store, vec![item]).await;
    // They have stored something, so that they are known.
    let theirs = ConversationRecord { owner: owned_by("acme", "bob"), ..conversation(Vec::new()) };
    store.create_conversation(theirs).await.unwrap();
    for other in [owned_by("acme", "bob"), owned_by("other", "ann"), owned_by("nobody", "here")] {
        assert!(store.conversation(&other, &id).await.unwrap().is_none());
        assert!(store.conversation_items(&other, &id, &all()).await.unwrap().is_none());
        assert!(store.conversation_item(&other, &id, &item_id, u64::MAX).await.unwrap().is_none());
        assert!(store.conversation_context(&other, &id, ReadLimit::UNLIMITED).await.unwrap().is_none());
        assert!(!store.update_conversation(&other, &id, "{}".into()).await.unwrap());
        assert!(!store.delete_conversation_item(&other, &id, &item_id).await.unwrap());
        assert!(!store.delete_conversation(&other, &id).await.unwrap());
        let added = store.add_conversation_items(&other, &id, vec![said("x")]).await.unwrap();
        assert_eq!(added, AddedItems::Unknown);
        let intruder = turn_in(store, &id, "q", "a").await;
        store.finish(ResponseRecord { owner: other, ..intruder }).await.unwrap();
    }
    assert_eq!(seen(store, &id).await, ["secret"]);
}

pub(super) async fn items_are_paged_by_limit_order_and_cursor(store: &dyn Store) {
    created(store, vec![said("another")]).await;
    let id = created(store, (0..4).map(|n| said(&n.to_string())).collect()).await;
    store.add_conversation_items(&owner(), &id, vec![said("4"), said("5")]).await.unwrap();
    created(store, vec![said("another")]).await;
    let ids = listed(store, &id).await;
    check_pages(&ids, async |page| store.conversation_items(&owner(), &id, &page).await.unwrap().unwrap())
        .await;
    let page = PageRequest { after: Some("msg_other".into()), ..all() };
    let refused = store.conversation_items(&owner(), &id, &page).await;
    assert!(matches!(refused, Err(StoreError::UnknownCursor { param: "after", .. })), "{refused:?}");
    let page = PageRequest { max_bytes: 10, ..all() };
    let refused = store.conversation_items(&owner(), &id, &page).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
}

pub(super) async fn an_item_is_found_and_deleted_by_its_id(store: &dyn Store) {
    let items = vec![said("one"), said("two"), said("three")];
    let ids: Vec<String> = items.iter().map(|item| item.item.id.to_string()).collect();
    let wire = Arc::clone(&items[1].item.wire);
    let id = created(store, items).await;
    let read = async |item: &str, max| store.conversation_item(&owner(), &id, item, max).await;
    assert_eq!(read(&ids[1], u64::MAX).await.unwrap().unwrap(), wire);
    let refused = read(&ids[1], 5).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { bytes }) if bytes == wire.len() as u64));
    assert!(store.delete_conversation_item(&owner(), &id, &ids[1]).await.unwrap());
    assert!(!store.delete_conversation_item(&owner(), &id, &ids[1]).await.unwrap());
    assert!(read(&ids[1], u64::MAX).await.unwrap().is_none());
    assert_eq!(listed(store, &id).await, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(seen(store, &id).await, ["one", "three"]);
}

pub(super) async fn an_id_that_is_taken_adds_nothing(store: &dyn Store) {
    let first = said("first");
    let id = created(store, vec![first.clone()]).await;
    let added = store.add_conversation_items(&owner(), &id, vec![said("new"), first]).await.unwrap();
    assert_eq!(added, AddedItems::Duplicate(1));
    let twice = said("twice");
    let added =
        store.add_conversation_items(&owner(), &id, vec![twice.clone(), twice.clone()]).await.unwrap();
    assert_eq!(added, AddedItems::Duplicate(1));
    assert_eq!(seen(store, &id).await, ["first"]);
    let record = conversation(vec![twice.clone(), twice]);
    assert_eq!(store.create_conversation(record.clone()).await.unwrap(), AddedItems::Duplicate(1));
    assert!(store.conversation(&owner(), record.id.as_str()).await.unwrap().is_none());
}

pub(super) async fn a_turn_is_appended_by_the_write_that_ends_it(store: &dyn Store) {
    let id = created(store, vec![said("before")]).await;
    store.finish(turn_in(store, &id, "q1", "a1").await).await.unwrap();
    // Of a response that was begun, and of one that is incomplete or waits for its client.
    for (number, status) in [(2, ResponseStatus::Incomplete), (3, ResponseStatus::RequiresAction)] {
        let ended = turn_in(store, &id, &format!("q{number}"), &format!("a{number}")).await;
        let begun = ResponseRecord { conversation: ended.conversation.clone(), ..running() };
        let begun = ResponseRecord { lease: ended.lease.clone(), ..begun };
        store.begin(begun, None).await.unwrap();
        assert_eq!(seen(store, &id).await.len(), 2 * number - 1, "nothing is there before it has ended");
        store.finish(ResponseRecord { status, ..ended }).await.unwrap();
    }
    assert_eq!(seen(store, &id).await, ["before", "q1", "a1", "q2", "a2", "q3", "a3"]);
}

pub(super) async fn a_response_that_failed_appends_nothing(store: &dyn Store) {
    let id = created(store, vec![said("before")]).await;
    for status in [ResponseStatus::Failed, ResponseStatus::Cancelled] {
        let record = turn_in(store, &id, "q", "a").await;
        store.finish(ResponseRecord { status, ..record }).await.unwrap();
    }
    assert_eq!(seen(store, &id).await, ["before"]);
    // Nor does one that was deleted while it ran.
    let record = turn_in(store, &id, "q", "a").await;
    let registered = store.register_run(&record.lease.id, &owner());
    assert!(store.delete(&owner(), record.lease.id.as_str()).await.unwrap());
    store.finish(record).await.unwrap();
    drop(registered);
    assert_eq!(seen(store, &id).await, ["before"]);
}

pub(super) async fn a_turn_follows_what_was_added_and_deleted_while_it_was_made(store: &dyn Store) {
    let first = said("first");
    let first_id = first.item.id.to_string();
    let id = created(store, vec![first]).await;
    let record = turn_in(store, &id, "q", "a").await;
    store.add_conversation_items(&owner(), &id, vec![said("meanwhile")]).await.unwrap();
    store.delete_conversation_item(&owner(), &id, &first_id).await.unwrap();
    store.finish(record).await.unwrap();
    assert_eq!(seen(store, &id).await, ["meanwhile", "q", "a"]);
}

pub(super) async fn a_turn_in_a_conversation_that_was_deleted_is_stored_alone(store: &dyn Store) {
    let id = created(store, vec![said("before")]).await;
    let record = turn_in(store, &id, "q", "a").await;
    store.delete_conversation(&owner(), &id).await.unwrap();
    store.finish(record.clone()).await.unwrap();
    assert!(store.response(&owner(), record.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
    assert!(context(store, &id).await.is_none());
}

pub(super) async fn an_item_of_a_turn_whose_id_is_taken_gets_another(store: &dyn Store) {
    let id = created(store, Vec::new()).await;
    let record = turn_in(store, &id, "q", "a").await;
    store.finish(record.clone()).await.unwrap();
    let again = turn_in(store, &id, "other", "b").await;
    let mut items = again.items.clone();
    items[0] = StoredItem {
        id: record.items[0].id.clone(),
        wire: super::message_json(&record.items[0].id, Direction::Input, "other"),
        ..items[0].clone()
    };
    store.finish(ResponseRecord { items, ..again }).await.unwrap();
    assert_eq!(seen(store, &id).await, ["q", "a", "other", "b"]);
    let ids = listed(store, &id).await;
    assert!(ids[2] != ids[0] && ids[2].starts_with("msg_"), "{ids:?}");
    let wire = store.conversation_item(&owner(), &id, &ids[2], u64::MAX).await.unwrap().unwrap();
    assert!(wire.contains(&ids[2]), "{wire}");
}

pub(super) async fn a_turn_reads_what_the_model_saw_and_its_states(store: &dyn Store) {
    let mut items = vec![said("as it is"), plain("hidden"), plain("other"), plain("with state")];
    items[1].item.model_view = ModelView::Hidden;
    let other = super::message_json(&items[2].item.id, Direction::Output, "overridden");
    items[2].item.model_view = ModelView::Override(other);
    let key = StateKey::new(&owner(), "k");
    items[3].item.state = Some(StoredState { key, blob: "sealed".into() });
    let id = created(store, items).await;
    let read = context(store, &id).await.unwrap();
    let texts: Vec<_> = read.items.iter().map(text).collect();
    assert_eq!(texts, ["as it is", "overridden", "with state"]);
    let states: Vec<_> = read.states.iter().map(|(place, blob)| (*place, &**blob)).collect();
    assert_eq!(states, [(2, "sealed")]);
    assert_eq!((read.first, read.until), (0, 4));
    assert_eq!(listed(store, &id).await.len(), 4);
}

pub(super) async fn what_a_turn_reads_is_measured_first(store: &dyn Store) {
    let id = created(store, vec![said(&"x".repeat(5_000)), said(&"y".repeat(5_000))]).await;
    let limit = |bytes| ReadLimit { max_read_bytes: bytes, max_count_bytes: u64::MAX };
    let Err(StoreError::TooLarge { bytes }) = store.conversation_context(&owner(), &id, limit(9_000)).await
    else {
        panic!("it is larger")
    };
    assert!((10_000..12_000).contains(&bytes), "{bytes}");
    assert!(store.conversation_context(&owner(), &id, limit(bytes)).await.unwrap().is_some());
    let counted = ReadLimit { max_read_bytes: 1_000, max_count_bytes: 1_000 };
    let refused = store.conversation_context(&owner(), &id, counted).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { bytes }) if bytes < 9_000), "{refused:?}");
}

fn with_role(text: &str, role: ContextRole) -> ConversationItem {
    ConversationItem { role, ..plain(text) }
}

pub(super) async fn a_summary_hides_what_is_before_it_but_messages(store: &dyn Store) {
    let user = |text: &str, tokens| with_role(text, ContextRole::User { tokens });
    let items = vec![
        with_role("rules", ContextRole::Instructions),
        user("too old", 1),
        user("large", 63_995),
        plain("answer"),
        user("recent", 10),
        plain("trigger"),
        with_role("summary", ContextRole::Summary { with_trigger: true }),
        plain("later"),
    ];
    let summary = items[6].item.id.to_string();
    let id = created(store, items).await;
    let visible = ["rules", "recent", "trigger", "summary", "later"];
    assert_eq!(seen(store, &id).await, visible);
    assert_eq!(context(store, &id).await.unwrap().first, 5);
    let next = vec![with_role("newer", ContextRole::Summary { with_trigger: false }), plain("last")];
    let newer = next[0].item.id.to_string();
    store.add_conversation_items(&owner(), &id, next).await.unwrap();
    assert_eq!(seen(store, &id).await, ["rules", "recent", "newer", "last"]);
    // Without a summary, what it has hidden is seen again.
    assert!(store.delete_conversation_item(&owner(), &id, &newer).await.unwrap());
    assert_eq!(seen(store, &id).await, ["rules", "recent", "summary", "later", "last"]);
    assert!(store.delete_conversation_item(&owner(), &id, &summary).await.unwrap());
    assert_eq!(seen(store, &id).await.len(), 8);
}

pub(super) async fn a_response_of_a_conversation_is_continued_from_what_it_has_read(store: &dyn Store) {
    let items = vec![said("one"), said("two")];
    let one = items[0].item.id.to_string();
    let id = created(store, items).await;
    let first = turn_in(store, &id, "q1", "a1").await;
    store.begin(ResponseRecord { status: ResponseStatus::InProgress, ..first.clone() }, None).await.unwrap();
    store.finish(first.clone()).await.unwrap();
    let second = turn(Some(&first), "q2", "a2");
    store.finish(second.clone()).await.unwrap();
    let failed = turn_in(store, &id, "q3", "a3").await;
    store.finish(ResponseRecord { status: ResponseStatus::Failed, ..failed.clone() }).await.unwrap();
    store.add_conversation_items(&owner(), &id, vec![said("behind")]).await.unwrap();
    assert_eq!(texts(store, &first).await.unwrap(), ["one", "two", "q1", "a1"]);
    assert_eq!(texts(store, &second).await.unwrap(), ["one", "two", "q1", "a1", "q2", "a2"]);
    assert_eq!(texts(store, &failed).await.unwrap(), ["one", "two", "q1", "a1", "q3", "a3"]);
    assert!(store.delete_conversation_item(&owner(), &id, &one).await.unwrap());
    assert_eq!(texts(store, &second).await.unwrap(), ["two", "q1", "a1", "q2", "a2"]);
    let limit = ReadLimit { max_read_bytes: 6 * 300, max_count_bytes: u64::MAX };
    let refused = store.lineage(&owner(), second.lease.id.as_str(), limit).await;
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "the conversation counts: {refused:?}");
    store.delete_conversation(&owner(), &id).await.unwrap();
    let broken = store.lineage(&owner(), second.lease.id.as_str(), ReadLimit::UNLIMITED).await;
    assert!(
        matches!(&broken, Err(StoreError::BrokenChain { missing }) if missing.as_str() == id),
        "{broken:?}"
    );
    assert!(store.delete(&owner(), first.lease.id.as_str()).await.unwrap());
}

pub(super) async fn one_run_has_a_conversation_at_a_time(store: &dyn Store) {
    let id = created(store, Vec::new()).await;
    let lock = store.lock_conversation(&owner(), &id).await.unwrap();
    assert!(lock.is_some());
    assert!(store.lock_conversation(&owner(), &id).await.unwrap().is_none());
    assert!(store.lock_conversation(&owned_by("acme", "bob"), &id).await.unwrap().is_some());
    assert!(store.lock_conversation(&owner(), "conv_other").await.unwrap().is_some());
    drop(lock);
    assert!(store.lock_conversation(&owner(), &id).await.unwrap().is_some());
}

/// The list is what a vector would be.
pub(super) async fn any_sequence_of_changes_gives_the_list_of_a_vector(store: &dyn Store) {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for _ in 0..8 {
        let id = created(store, Vec::new()).await;
        let mut model: Vec<String> = Vec::new();
        for step in 0..30 {
            match next(4) {
                0 => {
                    let items: Vec<_> = (0..next(4)).map(|n| said(&format!("{step} {n}"))).collect();
                    model.extend(items.iter().map(|item| item.item.id.to_string()));
                    let added = store.add_conversation_items(&owner(), &id, items).await.unwrap();
                    assert_eq!(added, AddedItems::Added);
                }
                1 if !model.is_empty() => {
                    let deleted = model.remove(next(model.len() as u64) as usize);
                    assert!(store.delete_conversation_item(&owner(), &id, &deleted).await.unwrap());
                }
                2 => {
                    let status = [ResponseStatus::Completed, ResponseStatus::Failed][next(2) as usize];
                    let record = turn_in(store, &id, "q", "a").await;
                    if status == ResponseStatus::Completed {
                        model.extend(record.items.iter().map(|item| item.id.to_string()));
                    }
                    store.finish(ResponseRecord { status, ..record }).await.unwrap();
                }
                _ => {
                    let expected: Vec<_> = model.iter().rev().take(5).cloned().collect();
                    let page = PageRequest { limit: 5, ascending: false, ..all() };
                    let page = store.conversation_items(&owner(), &id, &page).await.unwrap().unwrap();
                    let found: Vec<_> = page.data.iter().map(|(id, _)| id.to_string()).collect();
                    assert_eq!((found, page.has_more), (expected, model.len() > 5));
                }
            }
            assert_eq!(listed(store, &id).await, model);
            assert_eq!(context(store, &id).await.unwrap().items.len(), model.len());
        }
    }
}

pub(super) async fn a_conversation_expires_some_time_after_its_last_use(store: &dyn Store) {
    let (unused, used) = (created(store, vec![said("unused")]).await, created(store, Vec::new()).await);
    let lock = store.lock_conversation(&owner(), &unused).await.unwrap().unwrap();
    let began = turn_in(store, &unused, "q", "a").await;
    for number in 0..4 {
        tokio::time::sleep(SHORT / 3).await;
        store.finish(turn_in(store, &used, &number.to_string(), "a").await).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(store.conversation(&owner(), &unused).await.unwrap().is_none());
    assert!(context(store, &unused).await.is_none());
    assert!(!store.update_conversation(&owner(), &unused, "{}".into()).await.unwrap());
    assert!(!store.delete_conversation(&owner(), &unused).await.unwrap());
    assert_eq!(seen(store, &used).await.len(), 8);
    store.maintain().await.unwrap();
    store.finish(began).await.unwrap();
    drop(lock);
    assert_eq!(seen(store, &unused).await, ["unused", "q", "a"], "a run that began before loses nothing");
    tokio::time::sleep(SHORT + Duration::from_millis(50)).await;
    store.maintain().await.unwrap();
    assert!(context(store, &unused).await.is_none());
}

pub(super) async fn a_chain_in_use_keeps_the_conversation_in_which_it_began(store: &dyn Store) {
    let id = created(store, vec![said("zero")]).await;
    let mut last = turn_in(store, &id, "q", "a").await;
    store.finish(last.clone()).await.unwrap();
    for number in 0..4 {
        tokio::time::sleep(SHORT / 3).await;
        last = turn(Some(&last), &number.to_string(), "a");
        store.finish(last.clone()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    store.maintain().await.unwrap();
    assert_eq!(texts(store, &last).await.unwrap().len(), 11);
    assert_eq!(seen(store, &id).await, ["zero", "q", "a"]);
}

pub(super) async fn what_processes_add_to_one_conversation_at_once_is_all_there(open: Open<'_>) {
    let (one, two) = (open("one"), open("two"));
    let id = created(&*one, Vec::new()).await;
    let record = turn_in(&*one, &id, "q", "a").await;
    let mut turns = Vec::new();
    for _ in 0..16 {
        turns.push(ResponseRecord { conversation: record.conversation.clone(), ..turn(None, "q", "a") });
    }
    let added: Vec<_> = (0..16).map(|_| vec![said("x"), said("y")]).collect();
    let stores = || [&one, &two].into_iter().cycle();
    let finish = turns.iter().zip(stores()).map(|(turn, store)| store.finish(turn.clone()));
    let add = added.iter().zip(stores().skip(1));
    let add = add.map(|(items, store)| {
        let owner = owner();
        let id = id.as_str();
        async move { store.add_conversation_items(&owner, id, items.clone()).await }
    });
    let (finished, added_all) =
        futures_util::join!(futures_util::future::join_all(finish), futures_util::future::join_all(add));
    finished.into_iter().for_each(Result::unwrap);
    assert!(added_all.into_iter().all(|added| added.unwrap() == AddedItems::Added));
    let listed = listed(&*two, &id).await;
    assert_eq!(listed.len(), 64);
    // What was added together stands together, and in order.
    let turns = turns.iter().map(|turn| [&turn.items[0].id, &turn.items[1].id]);
    for pair in turns.chain(added.iter().map(|items| [&items[0].item.id, &items[1].item.id])) {
        let place = listed.iter().position(|found| found == pair[0].as_str()).unwrap();
        assert_eq!(listed[place + 1], pair[1].as_str());
    }
}

/// Each write of a group holds its conversation until the group is committed.
pub(super) async fn turns_of_processes_in_crossed_conversations_are_all_stored(open: Open<'_>) {
    let (one, two) = (open("one"), open("two"));
    let ids = [created(&*one, Vec::new()).await, created(&*one, Vec::new()).await];
    let in_one = async |id: &str, store: &dyn Store| turn_in(store, id, "q", "a").await;
    for _ in 0..10 {
        let forth = [in_one(&ids[0], &*one).await, in_one(&ids[1], &*one).await];
        let back = [in_one(&ids[1], &*one).await, in_one(&ids[0], &*one).await];
        let forth = futures_util::future::join_all(forth.into_iter().map(|turn| one.finish(turn)));
        let back = futures_util::future::join_all(back.into_iter().map(|turn| two.finish(turn)));
        let (forth, back) = futures_util::join!(forth, back);
        forth.into_iter().chain(back).for_each(Result::unwrap);
    }
    for id in &ids {
        assert_eq!(listed(&*two, id).await.len(), 40);
    }
}
