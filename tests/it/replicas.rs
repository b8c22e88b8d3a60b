//! Several gateways on one PostgreSQL: what one was asked for is made, read, followed and cancelled at any other.
//!
//! What needs a process that dies, or a role of its own, is here, with real processes; the rest is in `pair` and the modules that use
//! it, with two gateways of this process.

mod pair;
mod state;
mod streams;
mod versions;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::gateway::{JsonBody, frames, text_of};
use crate::support::postgres::Database;
use crate::support::process::Process;
use crate::support::stream_validator::assert_valid_resumed_stream;
use crate::support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

/// 32 bytes in base64.
const SEAL_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A gateway with this role on the database, whose leases do not last long.
async fn start(folder: &Path, upstream: &Upstream, database: &Database, role: &str) -> Process {
    let own = folder.join(role);
    std::fs::create_dir_all(&own).unwrap();
    let url = database.url();
    let environment = [
        ("ANTWORT_STORE_URL", &*url),
        ("ANTWORT_SEAL_KEYS", SEAL_KEY),
        ("ANTWORT_ROLE", role.split('-').next().unwrap()),
        ("ANTWORT__STORE__LEASE", "2s"),
        ("ANTWORT__STORE__MAINTENANCE_INTERVAL", "500ms"),
        ("ANTWORT__STORE__POOL_SIZE", "3"),
    ];
    let process = Process::launch(&own, upstream, &environment);
    let http = reqwest::Client::new();
    let ready = format!("{}/readyz", process.base);
    let is_ready = async || http.get(&ready).send().await.is_ok_and(|answer| answer.status() == 200);
    assert!(eventually(is_ready).await, "{}", std::fs::read_to_string(own.join("log")).unwrap_or_default());
    process
}

async fn get(gateway: &Process, path: &str) -> String {
    let url = format!("{}/v1/responses/{path}", gateway.base);
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

async fn read(gateway: &Process, id: &str) -> Value {
    serde_json::from_str(&get(gateway, id).await).unwrap()
}

async fn post(gateway: &Process, path: &str, body: &Value) -> Value {
    let url = format!("{}/v1/responses{path}", gateway.base);
    let answer = reqwest::Client::new().post(url).json_body(body).send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

async fn queue(gateway: &Process) -> String {
    let queued = post(gateway, "", &json!({"model": "test-model", "input": "Hi", "background": true})).await;
    assert_eq!(queued["status"], "queued", "{queued}");
    queued["id"].as_str().unwrap().to_owned()
}

async fn becomes(gateway: &Process, id: &str, status: &str) -> Value {
    let is_so = async || read(gateway, id).await["status"] == status;
    assert!(eventually(is_so).await, "{status}: {:#}", read(gateway, id).await);
    read(gateway, id).await
}

fn answer(pause: u64) -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for word in ["one ", "two ", "three"] {
        steps.extend([chunk(json!({"content": word})), Step::Wait(Duration::from_millis(pause))]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

fn endless() -> Reply {
    Reply::Stream(vec![chunk(json!({"content": "Hel"})), chunk(json!({"content": "lo"})), Step::Hang])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_makes_what_a_gateway_was_asked_for_and_any_other_follows_it() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let database = Database::new().await;
    let gateway = start(folder.path(), &upstream, &database, "gateway").await;
    let other = start(folder.path(), &upstream, &database, "all").await;
    upstream.reply(answer(300));
    let id = queue(&gateway).await;
    let stream = format!("{id}?stream=true");
    let (here, there) = tokio::join!(get(&gateway, &stream), get(&other, &stream));
    assert_eq!(here, there, "the same bytes");
    assert_valid_resumed_stream(&frames(&here));
    let response = becomes(&gateway, &id, "completed").await;
    assert_eq!(text_of(&response), "one two three");
    assert_eq!(get(&other, &stream).await, here, "again, when it has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_at_another_gateway_whether_it_waits_or_runs() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let database = Database::new().await;
    let gateway = start(folder.path(), &upstream, &database, "gateway").await;
    let waits = queue(&gateway).await;
    let cancelled = post(&gateway, &format!("/{waits}/cancel"), &json!({})).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    let worker = start(folder.path(), &upstream, &database, "worker").await;
    upstream.reply(endless());
    let runs = queue(&gateway).await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    let cancelled = post(&gateway, &format!("/{runs}/cancel"), &json!({})).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider is left alone");
    assert_eq!(read(&gateway, &waits).await["status"], "cancelled", "it stays so");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_worker_is_gone_is_made_by_another_one() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let database = Database::new().await;
    let gateway = start(folder.path(), &upstream, &database, "gateway").await;
    let mut worker = start(folder.path(), &upstream, &database, "worker").await;
    upstream.reply(endless());
    let id = queue(&gateway).await;
    becomes(&gateway, &id, "in_progress").await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    worker.kill();
    upstream.reply(answer(10));
    let _another = start(folder.path(), &upstream, &database, "worker-2").await;
    let response = becomes(&gateway, &id, "completed").await;
    assert!(text_of(&response).ends_with("one two three"), "{response:#}");
    let stream = get(&gateway, &format!("{id}?stream=true")).await;
    assert_valid_resumed_stream(&frames(&stream));
}
