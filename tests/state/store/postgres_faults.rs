//! What PostgreSQL's store does when a server, or a process beside it, is not as it should be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use antwort::protocol::response::ResponseStatus;
use antwort::store::{
    ConversationRecord, ConversationStore, ConversationTurn, ResponseRecord, ResponseStore, RunLog, Store,
    StoreError,
};
use antwort_store_postgres::{PostgresOptions, PostgresStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio_postgres::Client;
use tokio_util::task::TaskTracker;

use super::{LEASE, owner, record, running, turn};
use antwort_test_support::postgres::{Cluster, Database, connect};

/// Ends all connections but this one.
async fn cut(sql: &Client) {
    sql.batch_execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await
    .unwrap();
}

/// Waits until a statement waits for something of this kind, and ends its connection.
async fn cut_waiting(sql: &Client, kind: &str) {
    let waiting = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = '{kind}' AND pid <> pg_backend_pid()"
    );
    while sql.query(&waiting, &[]).await.unwrap().is_empty() {}
}

/// A server that is about to be replaced connects, and refuses to write. Writes once failed after five quick attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_wait_for_a_server_that_connects_and_refuses() {
    let database = Database::new().await;
    let store = database.open(|options| options.statement_timeout = Duration::from_secs(30)).await;
    let store = Arc::new(store);
    store.finish(record()).await.unwrap();
    let sql = database.sql().await;
    let name = sql.query_one("SELECT current_database()::text", &[]).await.unwrap().get::<_, String>(0);
    let read_only = |is| format!("ALTER DATABASE {name} SET default_transaction_read_only = {is}");
    sql.batch_execute(&read_only("on")).await.unwrap();
    cut(&sql).await;
    let stored = record();
    let writes = TaskTracker::new().spawn({
        let (store, stored) = (Arc::clone(&store), stored.clone());
        async move { tokio::join!(store.finish(stored), store.create_conversation(conversation("conv_1"))) }
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    sql.batch_execute(&read_only("off")).await.unwrap();
    let (finished, created) = writes.await.unwrap();
    finished.unwrap();
    created.unwrap();
    assert!(store.response(&owner(), stored.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
}

fn conversation(id: &str) -> ConversationRecord {
    let (id, owner) = (id.into(), owner());
    ConversationRecord { id, owner, created_at: 0, metadata: "{}".into(), items: Vec::new() }
}

/// The connection is lost before the first attempt has deleted anything; it was once taken for one that had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_that_is_repeated_does_not_say_that_it_has_deleted_what_never_was() {
    let database = Database::new().await;
    let store = database.open(|_| ()).await;
    store.finish(record()).await.unwrap();
    let (owner, locking, sql) = (owner(), database.sql().await, database.sql().await);
    locking.batch_execute("BEGIN; LOCK TABLE responses, owners, runs").await.unwrap();
    let unlock = async {
        cut_waiting(&sql, "Lock").await;
        locking.batch_execute("ROLLBACK").await.unwrap();
    };
    let (deleted, ()) = tokio::join!(store.delete(&owner, "resp_none"), unlock);
    assert!(!deleted.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_whose_commit_is_not_answered_says_that_it_has_deleted() {
    let settings = ["fsync=off", "synchronous_standby_names=nobody", "synchronous_commit=local"];
    let cluster = tokio::task::spawn_blocking(move || Cluster::start(&settings)).await.unwrap();
    let url = cluster.url("postgres");
    let store = PostgresStore::open(PostgresOptions::new(&url, "test")).await.unwrap();
    let stored = record();
    store.finish(stored.clone()).await.unwrap();
    let sql = connect(&url).await;
    // Its commit waits for a server that does not exist, after it was made.
    sql.batch_execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM set_config('synchronous_commit', 'on', true); RETURN NULL; END $$;
         CREATE TRIGGER wait AFTER DELETE ON responses FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    .await
    .unwrap();
    let (owner, id) = (owner(), stored.lease.id.as_str());
    let (deleted, ()) = tokio::join!(store.delete(&owner, id), cut_waiting(&sql, "IPC"));
    assert!(deleted.unwrap());
    assert!(!store.delete(&owner, id).await.unwrap());
    store.close().await;
}

/// A process that was stopped for so long that another one has made a turn meanwhile once appended its own behind that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_has_lost_its_conversation_appends_nothing_to_it() {
    let database = Database::new().await;
    let open = |name: &'static str| {
        database.open(move |options| {
            options.instance = name.to_owned();
            options.lease = LEASE;
        })
    };
    let (stalled, other) = (open("stalled").await, open("other").await);
    let in_conversation = |record: ResponseRecord| {
        let turn = ConversationTurn { id: "conv_1".into(), first: 0, until: 0, roles: Vec::new() };
        ResponseRecord { conversation: Some(turn), ..record }
    };
    stalled.create_conversation(conversation("conv_1")).await.unwrap();
    let begun = in_conversation(running());
    let (first, unbegun) =
        (stalled.lock_conversation(&owner(), "conv_1").await.unwrap(), turn(None, "q", "a"));
    stalled.begin(begun.clone(), None).await.unwrap();
    tokio::time::sleep(LEASE + LEASE / 5).await;
    let second = other.lock_conversation(&owner(), "conv_1").await.unwrap();
    assert!(first.is_some() && second.is_some(), "its lease is over");
    let ended = ResponseRecord { lease: begun.lease.clone(), ..turn(None, "q", "a") };
    for late in [in_conversation(ended.clone()), in_conversation(unbegun)] {
        let refused = stalled.finish(late).await;
        assert!(matches!(refused, Err(StoreError::ConversationLost)), "{refused:?}");
    }
    other.finish(in_conversation(turn(None, "r", "b"))).await.unwrap();
    drop(second);
    // The row of the lock is gone, and with it what the run knows of its conversation.
    let refused = stalled.finish(in_conversation(ended.clone())).await;
    assert!(matches!(refused, Err(StoreError::ConversationLost)), "{refused:?}");
    let failed = ResponseRecord { status: ResponseStatus::Failed, ..ended };
    stalled.finish(in_conversation(failed)).await.unwrap();
    let sql = database.sql().await;
    let count = sql.query_one("SELECT count(*) FROM conversation_items", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 2);
}

/// A run that was taken over by the process which could not end it once lost its lease to itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_is_one_lease_and_not_its_run() {
    let database = Database::new().await;
    let store = database.open(|_| ()).await;
    let begun = running();
    store.begin(begun.clone(), None).await.unwrap();
    let sql = database.sql().await;
    let damage = "ALTER TABLE responses ADD CONSTRAINT no_end CHECK (finished_at IS NULL)";
    sql.batch_execute(damage).await.unwrap();
    let ended = ResponseRecord { lease: begun.lease.clone(), ..turn(None, "q", "a") };
    store.finish(ended.clone()).await.unwrap_err();
    sql.batch_execute("ALTER TABLE responses DROP CONSTRAINT no_end; UPDATE runs SET epoch = epoch + 1")
        .await
        .unwrap();
    store.maintain().await.unwrap();
    assert!(store.take_orphaned(10).await.unwrap().is_empty(), "its new holder makes it");
}

/// A part of maintenance that fails once kept those behind it from being made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_maintenance_that_fails_does_not_stop_the_others() {
    let database = Database::new().await;
    let store = database.open(|_| ()).await;
    let sql = database.sql().await;
    sql.batch_execute(
        "ALTER TABLE approvals RENAME TO away;
         INSERT INTO conversation_locks (owner, conversation, instance, holder, until)
            VALUES (1, 'x', 'gone', gen_random_uuid(), 0)",
    )
    .await
    .unwrap();
    let error = store.maintain().await.unwrap_err().to_string();
    assert!(error.contains("approvals"), "{error}");
    let left = sql.query_one("SELECT count(*) FROM conversation_locks", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

/// Once only the client had a limit of statements that stand alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_ends_a_statement_that_takes_too_long() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(&["fsync=off"])).await.unwrap();
    let url = cluster.url("postgres");
    let pooler = format!("postgres://postgres@{}/postgres?sslmode=disable", pooler(&cluster).await);
    for through in [&url, &pooler] {
        let mut options = PostgresOptions::new(through, "test");
        options.statement_timeout = Duration::from_millis(300);
        let store = PostgresStore::open(options).await.unwrap();
        let stored = record();
        store.finish(stored.clone()).await.unwrap();
        let locking = connect(&url).await;
        locking.batch_execute("BEGIN; LOCK TABLE responses").await.unwrap();
        let read = store.response(&owner(), stored.lease.id.as_str(), u64::MAX).await;
        assert!(matches!(read, Err(StoreError::Timeout)), "{read:?}");
        assert!(matches!(store.finish(record()).await, Err(StoreError::Timeout)));
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        let waiting = locking.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0);
        assert_eq!(waiting, 0, "the server has ended what nobody waits for");
        locking.batch_execute("ROLLBACK").await.unwrap();
        assert!(store.response(&owner(), stored.lease.id.as_str(), u64::MAX).await.unwrap().is_some());
        store.close().await;
    }
}

/// Listens for connections to this server, and refuses those with options as some poolers do.
async fn pooler(cluster: &Cluster) -> SocketAddr {
    let (folder, port) = cluster.place();
    let socket = folder.join(format!(".s.PGSQL.{port}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, tasks) = (listener.local_addr().unwrap(), TaskTracker::new());
    tasks.clone().spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = UnixStream::connect(&socket).await.unwrap();
            tasks.spawn(async move {
                let length = client.read_i32().await.unwrap();
                let mut startup = vec![0; length as usize - 4];
                client.read_exact(&mut startup).await.unwrap();
                if startup.windows(8).any(|name| name == b"options\0") {
                    let error = b"SERROR\0C08P01\0Munsupported startup parameter: options\0\0";
                    client.write_u8(b'E').await.unwrap();
                    client.write_i32(error.len() as i32 + 4).await.unwrap();
                    return client.write_all(error).await.unwrap();
                }
                server.write_i32(length).await.unwrap();
                server.write_all(&startup).await.unwrap();
                _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}
