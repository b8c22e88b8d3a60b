//! What several processes do at once on one PostgreSQL database: locks of conversations, and maintenance.

use std::collections::HashMap;
use std::time::Duration;

use antwort::protocol::id::Id;
use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    Approvals, ContextRole, ConversationItem, ConversationRecord, ConversationStore, ConversationTurn,
    Direction, EventLog, IdempotencyKeys, LogEnd, ResponseRecord, ResponseStore, RunLog, Store,
};
use antwort_store_postgres::{PostgresOptions, PostgresStore};
use antwort_store_sqlite::TenantRetention;
use futures_util::future::join_all;

use super::logged_runs::keyed;
use super::{LEASE, SHORT, message, owned_by, owner, running, turn};
use antwort_test_support::eventually;
use antwort_test_support::postgres::Database;

/// A lease of which a round of maintenance has time enough for all that there is.
const LONG: Duration = Duration::from_secs(300);

async fn open(database: &Database, name: &str, change: impl FnOnce(&mut PostgresOptions)) -> PostgresStore {
    let options = |options: &mut PostgresOptions| {
        options.instance = name.to_owned();
        options.lease = LEASE;
        change(options);
    };
    database.open(options).await
}

async fn number(database: &Database, sql: &str) -> i64 {
    database.sql().await.query_one(sql, &[]).await.unwrap().get(0)
}

fn conversation(tenant: &str, items: usize, text: &str) -> ConversationRecord {
    let item =
        |_| ConversationItem { item: message(Direction::Input, text), role: ContextRole::User { tokens: 1 } };
    ConversationRecord {
        id: Id::generate("conv"),
        owner: owned_by(tenant, "ann"),
        created_at: 1,
        metadata: "{}".into(),
        items: (0..items).map(item).collect(),
    }
}

async fn is_free(store: &PostgresStore, id: &str) -> bool {
    store.lock_conversation(&owner(), id).await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_one_processs_until_its_run_ends_there() {
    let database = Database::new().await;
    let (one, two) = (open(&database, "one", |_| ()).await, open(&database, "two", |_| ()).await);
    let record = conversation("acme", 0, "");
    let id = record.id.as_str();
    one.create_conversation(record.clone()).await.unwrap();
    for status in [ResponseStatus::Completed, ResponseStatus::Failed] {
        let lock = one.lock_conversation(&owner(), id).await.unwrap();
        assert!(lock.is_some() && !is_free(&two, id).await);
        let part = ConversationTurn { id: id.into(), first: 0, until: 0, roles: Vec::new() };
        one.finish(ResponseRecord { conversation: Some(part), status, ..turn(None, "q", "a") })
            .await
            .unwrap();
        // With the commit, before its client is told.
        assert!(is_free(&two, id).await, "{status:?}");
        drop(lock);
        assert!(eventually(async || is_free(&one, id).await).await);
    }
    // Of a run that ends without a row, soon.
    drop(one.lock_conversation(&owner(), id).await.unwrap());
    assert!(is_free(&one, id).await, "in its own process at once");
    assert!(eventually(async || is_free(&two, id).await).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_processes_that_lock_at_once_one_has_the_conversation() {
    let database = Database::new().await;
    let (one, two) = (open(&database, "one", |_| ()).await, open(&database, "two", |_| ()).await);
    for _ in 0..20 {
        let (id, owner) = (Id::generate("conv"), owner());
        let locks = (0..8).map(|number| {
            let store = if number % 2 == 0 { &one } else { &two };
            store.lock_conversation(&owner, id.as_str())
        });
        let locks: Vec<_> = join_all(locks).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(locks.iter().flatten().count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_kept_by_maintenance_and_ends_with_its_process() {
    let database = Database::new().await;
    let (one, two) = (open(&database, "one", |_| ()).await, open(&database, "two", |_| ()).await);
    let (kept, closed) = (Id::generate("conv"), Id::generate("conv"));
    let lock = one.lock_conversation(&owner(), kept.as_str()).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(LEASE / 2).await;
        one.maintain().await.unwrap();
        two.maintain().await.unwrap();
        assert!(!is_free(&two, kept.as_str()).await);
    }
    // It is not renewed any more, as if the process hung.
    tokio::time::sleep(LEASE + LEASE / 4).await;
    let taken = two.lock_conversation(&owner(), kept.as_str()).await.unwrap();
    assert!(taken.is_some());
    drop(lock);
    one.maintain().await.unwrap();
    assert!(!is_free(&one, kept.as_str()).await, "what was lost is not released, nor renewed");
    let _lock = two.lock_conversation(&owner(), closed.as_str()).await.unwrap();
    two.close().await;
    assert!(is_free(&one, closed.as_str()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_process_has_the_conversations_of_the_one_before() {
    let database = Database::new().await;
    let before = open(&database, "one", |_| ()).await;
    let id = Id::generate("conv");
    let lock = before.lock_conversation(&owner(), id.as_str()).await.unwrap();
    let after = open(&database, "one", |_| ()).await;
    assert!(is_free(&after, id.as_str()).await);
    drop(lock);
}

const ROWS: &str = "SELECT (SELECT count(*) FROM responses) + (SELECT count(*) FROM conversations)
    + (SELECT count(*) FROM conversation_items) + (SELECT count(*) FROM idempotency_keys)
    + (SELECT count(*) FROM event_log) + (SELECT count(*) FROM item_ids) + (SELECT count(*) FROM runs)
    + (SELECT count(*) FROM response_conversations)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_maintain_at_once_delete_what_has_expired_and_nothing_else() {
    let database = Database::new().await;
    let brief = |options: &mut PostgresOptions| {
        options.ttl = Some(SHORT);
        options.idempotency_ttl = SHORT;
        options.lease = LONG;
    };
    let (one, two) = (open(&database, "one", brief).await, open(&database, "two", brief).await);
    for number in 0..300 {
        one.finish(turn(None, "q", "a")).await.unwrap();
        if number % 10 == 0 {
            one.create_conversation(conversation("acme", 30, "x")).await.unwrap();
            let run = keyed(&number.to_string());
            one.begin_logged(run.clone()).await.unwrap();
            one.log_events(&run.record.lease, super::logged_runs::events(2, 3)).await.unwrap();
            let end = LogEnd { keep_below: None, events: None, is_unlisted: false };
            one.finish_logged(ResponseRecord { status: ResponseStatus::Completed, ..run.record }, end)
                .await
                .unwrap();
        }
    }
    tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    let kept = turn(None, "kept", "a");
    two.finish(kept.clone()).await.unwrap();
    let rounds = [one.maintain(), two.maintain(), one.maintain(), two.maintain()];
    join_all(rounds).await.into_iter().for_each(Result::unwrap);
    // What one process has locked, the other has passed.
    one.maintain().await.unwrap();
    assert!(two.response(&owner(), kept.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
    assert_eq!(number(&database, ROWS).await, 1 + 2, "a response and the ids of its items");
}

/// Both add up the same rows; if both deleted, twice as much would be gone as is too much.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_bound_a_tenant_at_once_delete_what_is_too_much_once() {
    let database = Database::new().await;
    let small = |options: &mut PostgresOptions| {
        options.lease = LONG;
        let own = TenantRetention { max_bytes: Some(200_000), ..TenantRetention::default() };
        options.tenants = HashMap::from([("acme".into(), own)]);
    };
    let (one, two) = (open(&database, "one", small).await, open(&database, "two", small).await);
    for number in 0..60 {
        let store = if number % 2 == 0 { &one } else { &two };
        store.finish(turn(None, &"x".repeat(5_000), "answer")).await.unwrap();
    }
    join_all([one.maintain(), two.maintain(), one.maintain(), two.maintain()])
        .await
        .into_iter()
        .for_each(Result::unwrap);
    let left = number(&database, "SELECT count(*) FROM responses").await;
    assert!((34..=39).contains(&left), "{left} of 5,000 bytes and a little more each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_bounded_with_its_conversations_by_their_last_use() {
    let database = Database::new().await;
    let store = open(&database, "one", |options| {
        options.lease = LONG;
        let own = TenantRetention { max_bytes: Some(200_000), ..TenantRetention::default() };
        options.tenants = HashMap::from([("acme".into(), own)]);
    })
    .await;
    let (old, new) =
        (conversation("acme", 300, &"x".repeat(200)), conversation("acme", 300, &"x".repeat(200)));
    let others = conversation("other", 300, &"x".repeat(200));
    for record in [&old, &new, &others] {
        store.create_conversation(record.clone()).await.unwrap();
    }
    let add = vec![ConversationItem { item: message(Direction::Input, "used"), role: ContextRole::Plain }];
    store.add_conversation_items(&old.owner, old.id.as_str(), add).await.unwrap();
    store.maintain().await.unwrap();
    let exists = async |record: &ConversationRecord| {
        store.conversation(&record.owner, record.id.as_str()).await.unwrap().is_some()
    };
    assert!(exists(&old).await && !exists(&new).await && exists(&others).await);
    assert_eq!(number(&database, "SELECT count(*) FROM conversation_items").await, 601);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_goes_on_with_a_deletion_that_was_cut_off() {
    let database = Database::new().await;
    let store = open(&database, "one", |options| options.lease = LONG).await;
    store.create_conversation(conversation("acme", 1_200, "x")).await.unwrap();
    database.sql().await.batch_execute("UPDATE conversations SET used_at = 0").await.unwrap();
    store.maintain().await.unwrap();
    assert_eq!(number(&database, ROWS).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_items_of_any_length_and_of_any_character_are_kept_apart() {
    let database = Database::new().await;
    let store = open(&database, "one", |_| ()).await;
    let mut record = conversation("acme", 3, "x");
    let ids = ["a\0b".to_owned(), "y".repeat(10_000), format!("{}z", "y".repeat(9_999))];
    for (item, id) in record.items.iter_mut().zip(&ids) {
        item.item.id = id.as_str().into();
        item.item.wire = super::message_json(&item.item.id, Direction::Input, &id[..3]);
    }
    store.create_conversation(record.clone()).await.unwrap();
    for id in &ids {
        let read = store.conversation_item(&record.owner, record.id.as_str(), id, u64::MAX).await.unwrap();
        assert!(read.is_some());
    }
    assert!(store.delete_conversation_item(&record.owner, record.id.as_str(), &ids[1]).await.unwrap());
    assert!(store.conversation(&record.owner, "conv_\0").await.unwrap().is_none());
    assert!(is_free(&store, "conv_\0").await);
}

/// A deletion that came between the check and the commit of the requests did not see them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_that_are_committed_behind_the_deletion_of_their_run_go_with_it() {
    let database = Database::new().await;
    let store = open(&database, "one", |_| ()).await;
    store.finish(turn(None, "q", "a")).await.unwrap();
    let run = running();
    let _registration = store.register_run(&run.lease.id, &run.owner);
    let approval = super::deletion::approval_of(&run);
    // Another row of its key holds it up.
    let sql = database.sql().await;
    let id = approval.id.as_str();
    let insert = format!(
        "BEGIN; INSERT INTO approvals SELECT key, '{id}'::bytea, gen_random_uuid(), null, '', '', 0 FROM owners"
    );
    sql.batch_execute(&insert).await.unwrap();
    let delete = async {
        let waits = "SELECT count(*) FROM pg_locks l WHERE NOT l.granted";
        assert!(eventually(async || number(&database, waits).await > 0).await);
        assert!(store.delete(&owner(), run.lease.id.as_str()).await.unwrap());
        sql.batch_execute("ROLLBACK").await.unwrap();
    };
    let (added, ()) = tokio::join!(store.add_approvals(vec![approval.clone()]), delete);
    added.unwrap();
    assert_eq!(number(&database, "SELECT count(*) FROM approvals").await, 0);
}

/// However much there is to delete: other processes take over the runs of one that does not renew its leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_of_maintenance_ends_before_the_leases_do_and_the_next_goes_on() {
    let database = Database::new().await;
    let store = open(&database, "one", |options| options.lease = Duration::from_millis(1)).await;
    store.create_conversation(conversation("acme", 2_600, "x")).await.unwrap();
    database.sql().await.batch_execute("UPDATE conversations SET used_at = 0").await.unwrap();
    let items = "SELECT count(*) FROM conversation_items";
    for left in [2_100, 1_600, 1_100] {
        store.maintain().await.unwrap();
        assert_eq!(number(&database, items).await, left, "one step");
    }
}
