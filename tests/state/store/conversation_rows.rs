//! The rows of conversations in SQLite: when they are deleted, and what is left then.

use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::store::{
    ContextRole, ConversationItem, ConversationRecord, ConversationStore, ConversationTurn, Direction,
    ResponseRecord, ResponseStore, RunLog, Store,
};

use super::{Folder, SHORT, message, owner, turn};

const ROWS: &str =
    "SELECT (SELECT count(*) FROM conversations) * 1000 + (SELECT count(*) FROM conversation_items)";

fn conversation(items: usize, text: &str) -> ConversationRecord {
    let item =
        |_| ConversationItem { item: message(Direction::Input, text), role: ContextRole::User { tokens: 1 } };
    ConversationRecord {
        id: Id::generate("conv"),
        owner: owner(),
        created_at: 1,
        metadata: "{}".into(),
        items: (0..items).map(item).collect(),
    }
}

async fn create(store: &dyn ConversationStore, items: usize, text: &str) -> String {
    let record = conversation(items, text);
    store.create_conversation(record.clone()).await.unwrap();
    record.id.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_deletes_expired_conversations_with_their_items() {
    let folder = Folder::new();
    let store = folder.open(|options| options.ttl = Some(SHORT));
    create(&store, 450, "x").await;
    create(&store, 0, "x").await;
    store.maintain().await.unwrap();
    assert_eq!(folder.number(ROWS), 2_450);
    tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    let kept = create(&store, 3, "x").await;
    store.maintain().await.unwrap();
    assert_eq!(folder.number(ROWS), 1_003);
    assert!(store.conversation(&owner(), &kept).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_goes_on_with_a_deletion_that_was_cut_off() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    create(&store, 450, "x").await;
    folder.sql().execute_batch("UPDATE conversations SET used_at = 0").unwrap();
    store.maintain().await.unwrap();
    assert_eq!(folder.number(ROWS), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn above_its_size_the_store_removes_what_was_used_longest_ago() {
    let folder = Folder::new();
    let store = folder.open(|options| options.max_bytes = Some(3 << 20));
    let text = "x".repeat(10_000);
    let (old, new) = (create(&store, 200, &text).await, create(&store, 10, &text).await);
    // Responses say that they were created in 2023.
    let response = turn(None, &text, &text);
    store.finish(response.clone()).await.unwrap();
    folder.sql().execute("UPDATE conversations SET used_at = 1600000000000 WHERE id = ?1", [&old]).unwrap();
    create(&store, 100, &text).await;
    store.maintain().await.unwrap();
    assert!(store.conversation(&owner(), &old).await.unwrap().is_none());
    assert!(store.conversation(&owner(), &new).await.unwrap().is_some());
    let left = async || {
        let found = store.response(&owner(), response.lease.id.as_str(), u64::MAX).await.unwrap();
        (found.is_some(), store.conversation(&owner(), &new).await.unwrap().is_some())
    };
    assert_eq!(left().await, (true, true));
    // Then it is the response's turn.
    create(&store, 180, &text).await;
    store.maintain().await.unwrap();
    assert!(!left().await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_what_was_deleted_is_left_in_the_file() {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let id = create(&store, 300, "a-deleted-conversation").await;
    let items = store.conversation_context(&owner(), &id, antwort::store::ReadLimit::UNLIMITED).await;
    let until = items.unwrap().unwrap().until;
    let kept = create(&store, 1, "a-kept-conversation").await;
    let part = ConversationTurn { id: id.as_str().into(), first: 0, until, roles: Vec::new() };
    let response = ResponseRecord { conversation: Some(part), ..turn(None, "a-deleted-question", "a") };
    store.finish(response.clone()).await.unwrap();
    assert_eq!(folder.number("SELECT count(*) FROM response_conversations"), 1);
    assert!(store.delete_conversation(&owner(), &id).await.unwrap());
    assert!(store.delete(&owner(), response.lease.id.as_str()).await.unwrap());
    assert_eq!(folder.number("SELECT count(*) FROM response_conversations"), 0);
    assert_eq!(folder.number(ROWS), 1_001);
    store.close().await;
    let bytes = std::fs::read(folder.path()).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("a-kept-conversation") && holds(&kept));
    assert!(!holds("a-deleted-conversation") && !holds("a-deleted-question") && !holds(&id));
}
