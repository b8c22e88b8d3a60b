//! One server a database: the second waits, and says why if it waits in vain.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use antwort::app::App;
use antwort::config::Settings;
use antwort::store::Store;
use antwort_store_sqlite::{Location, SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::ask;
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

/// A second server on the database of these settings: where it answers, how it ends, and what tells it to.
pub(super) struct Second {
    pub base: String,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<anyhow::Result<()>>,
}

pub(super) async fn second(settings: Settings, lock_wait: Duration) -> Second {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    let server = tokio::spawn(async move { App::run(&settings, listener, stopped, lock_wait).await });
    Second { base, stop, server }
}

impl Second {
    pub async fn stop(self) {
        self.stop.cancel();
        self.server.await.unwrap().unwrap();
    }
}

/// A server, its database and its provider.
struct First {
    _folder: tempfile::TempDir,
    database: PathBuf,
    upstream: Upstream,
    gateway: Gateway,
}

async fn first() -> First {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    First { _folder: folder, database, upstream, gateway }
}

pub(super) fn settings(upstream: &Upstream, database: PathBuf) -> Settings {
    let mut settings = Settings::default();
    let builder = Gateway::with_upstream(upstream).database(database).set(|made| settings = made.clone());
    drop(builder);
    settings
}

pub(super) async fn get(url: &str) -> (u16, Value) {
    let answer = reqwest::get(url).await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

#[tokio::test]
async fn a_second_server_waits_alive_and_unready_and_serves_when_the_first_has_gone() {
    let First { database, upstream, gateway: first, _folder } = first().await;
    let id = first.create(ask()).await["id"].as_str().unwrap().to_owned();
    let second = second(settings(&upstream, database), Duration::from_secs(60)).await;
    assert_eq!(get(&format!("{}/healthz", second.base)).await, (200, json!({"status": "ok"})));
    let unready = json!({"status": "unavailable", "checks": {"store": "locked"}});
    assert_eq!(get(&format!("{}/readyz", second.base)).await, (503, unready));
    let http = reqwest::Client::new();
    let refused = http.post(format!("{}/v1/responses", second.base)).json_body(&ask()).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    let error: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "server_starting");
    assert_eq!(first.create(ask()).await["status"], "completed", "the first goes on");

    first.stop().await;
    let ready = async || get(&format!("{}/readyz", second.base)).await.0 == 200;
    assert!(eventually(ready).await);
    assert_eq!(get(&format!("{}/v1/responses/{id}", second.base)).await.0, 200);
    second.stop().await;
}

#[tokio::test]
async fn a_second_server_that_waits_in_vain_ends_and_says_who_has_the_database() {
    let First { database, upstream, gateway: first, _folder } = first().await;
    let second = second(settings(&upstream, database.clone()), Duration::from_millis(300)).await;
    let error = format!("{:#}", second.server.await.unwrap().unwrap_err());
    let process = format!("process {} on ", std::process::id());
    for part in [database.to_str().unwrap(), "is in use by another server", &process, "ANTWORT_STORE_URL"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(first.create(ask()).await["status"], "completed");
    let refused = App::build(&settings(&upstream, database)).await.err().map(|error| format!("{error:#}"));
    let refused = refused.expect("at once, where nothing can wait");
    // It said no more than who has it.
    for part in ["is in use by another server", "stop the other one", "ANTWORT_STORE_URL=sqlite:PATH"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_while_it_waits_ends_in_order() {
    let First { database, upstream, gateway: _first, _folder } = first().await;
    let second = second(settings(&upstream, database), Duration::from_secs(60)).await;
    assert_eq!(get(&format!("{}/readyz", second.base)).await.0, 503);
    second.stop().await;
}

/// A disk that hangs: the lock file is a pipe, from which the note of the lock's holder cannot be read.
#[tokio::test]
async fn a_disk_that_hangs_at_the_first_attempt_holds_up_neither_probes_nor_the_end() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let lock = folder.path().join("test.db.lock");
    assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success());
    let lock = std::fs::File::options().read(true).write(true).open(lock).unwrap();
    lock.try_lock().unwrap();
    let mut process = Process::launch(folder.path(), &upstream, &[]);
    let alive = format!("{}/healthz", process.base);
    let is_alive = async || reqwest::get(&alive).await.is_ok_and(|answer| answer.status() == 200);
    assert!(eventually(is_alive).await);
    let unready = json!({"status": "unavailable", "checks": {"store": "locked"}});
    assert_eq!(get(&format!("{}/readyz", process.base)).await, (503, unready));
    process.terminate();
    assert!(eventually(async || process.exit_code().is_some()).await);
    assert_eq!(process.exit_code(), Some(0));
}

#[tokio::test]
async fn a_connection_that_says_nothing_does_not_keep_probes_from_a_server_that_waits() {
    let First { database, upstream, gateway: _first, _folder } = first().await;
    let second = second(settings(&upstream, database), Duration::from_secs(60)).await;
    let address = second.base.strip_prefix("http://").unwrap();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(get(&format!("{}/healthz", second.base)).await.0, 200);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_and_backups_work_beside_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    gateway.create(ask()).await;
    let store = SqliteStore::open(SqliteOptions::new(Location::File(database.clone()), "command")).unwrap();
    store.ready().await.unwrap();
    store.close().await;
    let copy = folder.path().join("copy.db");
    let sql = rusqlite::Connection::open(&database).unwrap();
    sql.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    let responses = |path: &std::path::Path| -> i64 {
        let sql = rusqlite::Connection::open(path).unwrap();
        sql.query_row("SELECT count(*) FROM responses", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(responses(&copy), 1);
    gateway.create(ask()).await;
    assert_eq!(responses(&database), 2);
}
