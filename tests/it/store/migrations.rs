//! Databases of earlier versions: nothing in them is lost, and their rows are found as new ones are.

use std::ops::Range;
use std::path::Path;

use antwort::protocol::id::Id;
use antwort::store::{
    AddedItems, ConversationRecord, ConversationStore, OrphanCause, PageRequest, ReadLimit, ResponseRecord,
    ResponseStore, RunLog, Store,
};

use super::{Folder, owned_by, owner, text, texts, turn};

/// The n-th migration.
pub fn read(number: usize) -> Option<String> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite"));
    let start = format!("{number:04}_");
    let mut files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&start))?;
    Some(std::fs::read_to_string(file).unwrap())
}

fn latest() -> usize {
    (1..).take_while(|number| read(*number).is_some()).last().unwrap()
}

/// Schemas whose items have rows of their own.
const WITH_ITEMS: Range<usize> = 1..7;

/// A response of this owner with messages of these ids, as these versions have stored it.
pub fn insert(folder: &Folder, tenant: &str, response: &str, items: &[&str]) {
    let sql = folder.sql();
    sql.execute(
        "INSERT INTO responses (tenant, principal, id, status, created_at, finished_at, instance, model, body)
         VALUES (?1, 'ann', ?2, 'completed', 1, 1, 'i', 'm', '{}')",
        [tenant, response],
    )
    .unwrap();
    let key = sql.last_insert_rowid();
    for (position, id) in (0_i64..).zip(items) {
        let wire = format!(
            r#"{{"type":"message","id":"{id}","status":"completed","role":"user","content":[{{"type":"input_text","text":"{tenant} {position}"}}]}}"#
        );
        sql.execute(
            "INSERT INTO items (response, position, item_id, side, wire) VALUES (?1, ?2, ?3, 0, ?4)",
            rusqlite::params![key, position, id, wire],
        )
        .unwrap();
    }
}

async fn found(store: &dyn Store, id: &str) -> Option<String> {
    let items = store.items(&owner(), &[Id::from(id)], ReadLimit::UNLIMITED).await.unwrap();
    items[0].as_ref().map(text)
}

#[tokio::test]
async fn a_file_of_any_earlier_version_is_read_whole() {
    for version in WITH_ITEMS {
        let folder = Folder::new();
        folder.create_with_schema(version);
        insert(&folder, "acme", "resp_old", &["msg_0", "msg_1", "msg_2"]);
        insert(&folder, "other", "resp_theirs", &["msg_1"; 300]);
        folder.migrate(|_| ()).unwrap();
        let store = folder.open(|_| ());
        assert_eq!(folder.number("PRAGMA user_version"), latest() as i64);
        for maintained in [false, true] {
            if maintained {
                store.maintain().await.unwrap();
            }
            assert_eq!(found(&store, "msg_1").await.unwrap(), "acme 1", "version {version}, {maintained}");
            assert_eq!(found(&store, "msg_3").await, None);
            let page = PageRequest {
                limit: 10,
                ascending: true,
                after: Some("msg_0".into()),
                before: None,
                max_bytes: u64::MAX,
            };
            let page = store.input_items(&owner(), "resp_old", &page).await.unwrap().unwrap();
            let ids: Vec<_> = page.data.iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!(ids, ["msg_1", "msg_2"], "version {version}, {maintained}");
            assert_eq!(
                store.lineage(&owner(), "resp_old", ReadLimit::UNLIMITED).await.unwrap().unwrap().items.len(),
                3
            );
        }
        store.finish(turn(None, "new", "a")).await.unwrap();
        let theirs =
            store.items(&owned_by("other", "ann"), &["msg_1".into()], ReadLimit::UNLIMITED).await.unwrap();
        assert_eq!(theirs[0].as_ref().map(text).unwrap(), "other 299");
    }
}

#[tokio::test]
async fn a_migration_that_fails_halfway_changes_nothing() {
    for version in WITH_ITEMS {
        let folder = Folder::new();
        folder.create_with_schema(version);
        insert(&folder, "acme", "resp_old", &["msg_0"]);
        let schema = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)";
        // A migration fails, with half of its statements executed.
        folder.sql().execute_batch("CREATE TABLE turns (x)").unwrap();
        let read = || folder.sql().query_row(schema, [], |row| row.get::<_, String>(0)).unwrap();
        let before = read();
        assert!(folder.migrate(|_| ()).is_err());
        assert_eq!(folder.names(), ["responses.db"], "the backup of a file that was not changed is not kept");
        assert_eq!((read(), folder.number("PRAGMA user_version")), (before, version as i64));
        folder.sql().execute_batch("DROP TABLE turns").unwrap();
        folder.migrate(|_| ()).unwrap();
        let store = folder.open(|_| ());
        assert_eq!(found(&store, "msg_0").await.unwrap(), "acme 0");
    }
}

/// What the last migration adds is not there, and another table has one of its names.
#[tokio::test]
async fn a_last_migration_that_fails_halfway_changes_nothing() {
    let folder = Folder::new();
    let released = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/stores/schema-7.sqlite"));
    std::fs::copy(released, folder.path()).unwrap();
    folder.sql().execute_batch("CREATE TABLE event_log (x)").unwrap();
    assert!(folder.migrate(|_| ()).is_err());
    let added = "SELECT count(*) FROM sqlite_schema WHERE name = 'idempotency_keys'";
    assert_eq!((folder.number(added), folder.number("PRAGMA user_version")), (0, 7));
    folder.sql().execute_batch("DROP TABLE event_log").unwrap();
    folder.migrate(|_| ()).unwrap();
    assert_eq!((folder.number(added), folder.number("PRAGMA user_version")), (1, latest() as i64));
}

#[tokio::test]
async fn runs_that_an_earlier_version_left_are_orphans_after_the_migration() {
    for version in WITH_ITEMS {
        let folder = Folder::new();
        folder.create_with_schema(version);
        insert(&folder, "acme", "resp_ended", &["msg_0"]);
        for (id, instance) in [("resp_gone", "other"), ("resp_not_stored", "other/abandoned")] {
            insert(&folder, "acme", id, &["msg_1", "msg_2"]);
            let left = "UPDATE responses SET status = 'in_progress', finished_at = NULL, lease_until = 1,
                instance = ?2 WHERE id = ?1";
            folder.sql().execute(left, [id, instance]).unwrap();
            if version >= 6 {
                let run = "INSERT INTO runs (response, instance, epoch, lease_until, orphan)
                    SELECT key, ?2, 1, 1, CASE WHEN ?2 LIKE '%/abandoned' THEN 1 END FROM responses WHERE id = ?1";
                folder.sql().execute(run, [id, instance]).unwrap();
            }
        }
        folder.migrate(|_| ()).unwrap();
        let found = folder.instance("finder").take_orphaned(10).await.unwrap();
        let mut found: Vec<_> = found
            .iter()
            .map(|orphan| (orphan.lease.id.as_str(), orphan.lease.epoch, orphan.cause, orphan.items.len()))
            .collect();
        found.sort_unstable_by_key(|(id, ..)| *id);
        let expected = [
            ("resp_gone", 2, OrphanCause::ProcessGone, 2),
            ("resp_not_stored", 2, OrphanCause::EndNotStored, 2),
        ];
        assert_eq!(found, expected, "version {version}");
    }
}

/// A file that was written before there were conversations.
async fn file_without_conversations() -> (Folder, ResponseRecord) {
    let folder = Folder::new();
    let store = folder.open(|_| ());
    let record = turn(None, "question", "answer");
    store.finish(record.clone()).await.unwrap();
    store.close().await;
    folder
        .sql()
        .execute_batch(
            "DROP TABLE conversations; DROP TABLE conversation_items; DROP TABLE response_conversations;
             DROP TABLE idempotency_keys; DROP TABLE deleted_keys; DROP TABLE event_log;
             DROP TABLE event_logs; DROP TABLE webhook_outbox;
             DROP INDEX runs_to_cancel; ALTER TABLE runs DROP COLUMN cancel_requested;
             DROP INDEX runs_with_job; DROP INDEX runs_by_tenant;
             ALTER TABLE runs DROP COLUMN tenant; ALTER TABLE runs DROP COLUMN attempt; ALTER TABLE runs DROP COLUMN job;
             DROP TABLE async_calls; DROP INDEX runs_that_wait; ALTER TABLE runs DROP COLUMN waits_until;
             ALTER TABLE tool_calls DROP COLUMN call_id; ALTER TABLE tool_calls DROP COLUMN expires_at;
             ALTER TABLE responses DROP COLUMN trace;
             DROP INDEX responses_by_status; DROP INDEX responses_by_model; DROP INDEX responses_unlisted;
             ALTER TABLE responses DROP COLUMN unlisted;
             DROP INDEX responses_by_failed_tenant; ALTER TABLE responses DROP COLUMN failed_tenant;
             DROP INDEX runs_by_conversation; ALTER TABLE runs DROP COLUMN conversation; ALTER TABLE runs DROP COLUMN place;
             PRAGMA user_version = 7",
        )
        .unwrap();
    (folder, record)
}

#[tokio::test]
async fn a_file_from_before_conversations_keeps_its_rows_and_takes_conversations() {
    let (folder, record) = file_without_conversations().await;
    let migrated = folder.migrate(|_| ()).unwrap().unwrap();
    assert_eq!((migrated.from, folder.number("PRAGMA user_version")), (7, latest() as i64));
    let store = folder.open(|_| ());
    assert_eq!(texts(&store, &record).await.unwrap(), ["question", "answer"]);
    let conversation = ConversationRecord {
        id: Id::generate("conv"),
        owner: owner(),
        created_at: 1,
        metadata: "{}".into(),
        items: Vec::new(),
    };
    assert_eq!(store.create_conversation(conversation).await.unwrap(), AddedItems::Added);
}

#[tokio::test]
async fn a_migration_to_conversations_that_fails_halfway_changes_nothing() {
    let (folder, record) = file_without_conversations().await;
    folder.sql().execute_batch("CREATE TABLE conversation_items (x)").unwrap();
    assert!(folder.migrate(|_| ()).is_err());
    let tables =
        "SELECT count(*) FROM sqlite_schema WHERE name IN ('conversations', 'response_conversations')";
    assert_eq!((folder.number(tables), folder.number("PRAGMA user_version")), (0, 7));
    folder.sql().execute_batch("DROP TABLE conversation_items").unwrap();
    folder.migrate(|_| ()).unwrap();
    assert_eq!(texts(&folder.open(|_| ()), &record).await.unwrap().len(), 2);
}
