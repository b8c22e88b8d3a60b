//! From the schema of this version to the next one: nothing that is stored is lost, and a migration that fails changes nothing.

use std::collections::BTreeSet;
use std::path::Path;

use antwort::protocol::id::Id;
use antwort::store::{
    AddedItems, ConversationRecord, ConversationStore, OrphanCause, PageRequest, ReadLimit, ResponseRecord,
    ResponseStore, RunLog,
};
use antwort_store_postgres as postgres;
use antwort_store_sqlite as sqlite;

use super::{Folder, owner, running, texts, turn};
use antwort_test_support::next_version;

/// Adds so many responses to a file of this version, without a store.
pub fn insert(folder: &Folder, count: u32) {
    let sql = "INSERT OR IGNORE INTO owners (key, tenant, principal) VALUES (1, 'acme', 'ann');
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < COUNT)
        INSERT INTO responses (owner, id, created_at, finished_at, status, model, item_index, items, body)
        SELECT 1, 'resp_' || n, 1, 1, 'completed', 'm', '', '', '{}' FROM n";
    let sql = sql.replace("COUNT", &count.to_string()).replace("'', '', '{}'", "x'', x'', '{}'");
    folder.sql().execute_batch(&sql).unwrap();
}

/// A file of a migration that is not in the list would never be applied.
#[test]
fn each_file_of_a_migration_is_in_the_list_of_its_backend() {
    let files = |backend: &str| -> BTreeSet<String> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).join(backend);
        let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(entry.unwrap().path());
        folder.read_dir().unwrap().map(|entry| read(entry).unwrap()).collect()
    };
    let listed: BTreeSet<_> = sqlite::Migrations::RELEASED.0.iter().map(|each| each.sql.to_owned()).collect();
    assert_eq!(files("sqlite"), listed);
    let listed: BTreeSet<_> =
        postgres::Migrations::RELEASED.0.iter().map(|each| each.sql.to_owned()).collect();
    assert_eq!(files("postgres"), listed);
}

/// A file of this version with a chain of two responses and a run of another process.
async fn file() -> (Folder, [ResponseRecord; 2], ResponseRecord) {
    let folder = Folder::new();
    let store = folder.instance("other");
    let first = turn(None, "question", "answer");
    let second = turn(Some(&first), "next", "and so on");
    for record in [&first, &second] {
        store.finish(record.clone()).await.unwrap();
    }
    let run = running();
    store.begin(run.clone(), None).await.unwrap();
    store.close().await;
    (folder, [first, second], run)
}

#[tokio::test]
async fn a_file_of_the_version_before_is_read_whole_and_goes_on() {
    let (folder, [first, second], run) = file().await;
    let migrated = folder.migrate(|_| ()).unwrap().unwrap();
    assert_eq!((migrated.from, folder.number("PRAGMA user_version")), (1, next_version::sqlite().latest()));
    assert_eq!(folder.number("SELECT count(*) FROM responses WHERE test_only = 'migrated'"), 3);
    let store = folder.open_next();
    assert_eq!(texts(&store, &second).await.unwrap(), ["question", "answer", "next", "and so on"]);
    let id = first.items[1].id.clone();
    assert!(store.items(&owner(), &[id], ReadLimit::UNLIMITED).await.unwrap()[0].is_some());
    let page = PageRequest { limit: 10, ascending: true, after: None, before: None, max_bytes: u64::MAX };
    let page = store.input_items(&owner(), second.lease.id.as_str(), &page).await.unwrap().unwrap();
    let ids: Vec<_> = page.data.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [&second.items[0].id]);
    let third = turn(Some(&second), "later", "yes");
    store.finish(third.clone()).await.unwrap();
    assert_eq!(texts(&store, &third).await.unwrap().len(), 6);
    let conversation = ConversationRecord {
        id: Id::generate("conv"),
        owner: owner(),
        created_at: 1,
        metadata: "{}".into(),
        items: Vec::new(),
    };
    assert_eq!(store.create_conversation(conversation).await.unwrap(), AddedItems::Added);
    // Its process is gone: any other may end it.
    folder.sql().execute("UPDATE runs SET lease_until = 1", []).unwrap();
    let found = store.take_orphaned(10).await.unwrap();
    let found: Vec<_> = found.iter().map(|orphan| (&orphan.lease.id, orphan.cause)).collect();
    assert_eq!(found, [(&run.lease.id, OrphanCause::ProcessGone)]);
}

#[tokio::test]
async fn a_migration_that_fails_halfway_changes_nothing() {
    let (folder, [_, second], _) = file().await;
    let schema = "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)";
    // The last statement of the migration fails.
    folder.sql().execute_batch("CREATE TABLE test_only (x)").unwrap();
    let read = || folder.sql().query_row(schema, [], |row| row.get::<_, String>(0)).unwrap();
    let before = read();
    assert!(folder.migrate(|_| ()).is_err());
    assert_eq!(folder.names(), ["responses.db"], "the backup of a file that was not changed is not kept");
    assert_eq!((read(), folder.number("PRAGMA user_version")), (before, 1));
    folder.sql().execute_batch("DROP TABLE test_only").unwrap();
    folder.migrate(|_| ()).unwrap();
    assert_eq!(texts(&folder.open_next(), &second).await.unwrap().len(), 4);
}

/// Builds before the first version had other schemas with the same numbers.
#[tokio::test]
async fn a_file_of_a_build_before_the_first_version_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    folder
        .sql()
        .execute_batch(
            "CREATE TABLE responses (x); PRAGMA application_id = 0x616e7477; PRAGMA user_version = 16",
        )
        .unwrap();
    let error = sqlite::SqliteStore::open(folder.options()).err().unwrap().to_string();
    assert!(error.contains("before antwort 0.1.0"), "{error}");
    assert!(folder.migrate(|_| ()).is_err());
    assert_eq!(folder.number("PRAGMA user_version"), 16);
}
