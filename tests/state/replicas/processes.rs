//! Replicas that die: what they held is ended, freed or made by the others.

use std::path::Path;

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::{SEAL_KEY, endless, slow_answer, words};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{JsonBody, frames, text_of};
use antwort_test_support::postgres::Database;
use antwort_test_support::process::Process;
use antwort_test_support::stream_validator::assert_valid_resumed_stream;
use antwort_test_support::upstream::Upstream;

/// A replica with this role (and, behind a `-`, a name) on the database, whose leases do not last long.
pub(super) async fn start(folder: &Path, upstream: &Upstream, database: &Database, role: &str) -> Process {
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

async fn get(replica: &Process, path: &str) -> String {
    let url = format!("{}/v1/responses/{path}", replica.base);
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

async fn read(replica: &Process, id: &str) -> Value {
    serde_json::from_str(&get(replica, id).await).unwrap()
}

pub(super) fn request(replica: &Process, path: &str, body: &Value) -> RequestBuilder {
    reqwest::Client::new().post(format!("{}/v1/{path}", replica.base)).json_body(body)
}

async fn post(replica: &Process, path: &str, body: &Value) -> Value {
    let answer = request(replica, path, body).send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

async fn queue(replica: &Process) -> String {
    let queued = post(replica, "responses", &super::in_background()).await;
    assert_eq!(queued["status"], "queued", "{queued}");
    super::id_of(&queued)
}

async fn becomes(replica: &Process, id: &str, status: &str) -> Value {
    let is_so = async || read(replica, id).await["status"] == status;
    assert!(eventually(is_so).await, "{status}: {:#}", read(replica, id).await);
    read(replica, id).await
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
    // Followed from before its worker's death until after the end.
    let stream = format!("{id}?stream=true");
    let followed = get(&gateway, &stream);
    let dies = async {
        worker.kill();
        upstream.reply(slow_answer(3, 10));
        start(folder.path(), &upstream, &database, "worker-2").await
    };
    let (followed, _another) = tokio::join!(followed, dies);
    let response = becomes(&gateway, &id, "completed").await;
    assert!(text_of(&response).ends_with(&words(3)), "{response:#}");
    assert_eq!(assert_valid_resumed_stream(&frames(&followed)).response, response);
    assert_eq!(get(&gateway, &stream).await, followed);
}

/// The response that a replica made when it died fails, its conversation is free again, and its key leads to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_replica_held_is_given_back_by_the_other() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let database = Database::new().await;
    let mut one = start(folder.path(), &upstream, &database, "all").await;
    let two = start(folder.path(), &upstream, &database, "all-2").await;
    let conversation = super::id_of(&post(&two, "conversations", &json!({})).await);
    let body = json!({"model": "test-model", "input": "Hi", "conversation": conversation, "stream": true});
    let keyed = |replica: &Process| request(replica, "responses", &body).header("idempotency-key", "k");
    upstream.reply(endless());
    let mut first = keyed(&one).send().await.unwrap();
    let begun = String::from_utf8(first.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let created: Value =
        serde_json::from_str(begun.lines().nth(1).unwrap().trim_start_matches("data: ")).unwrap();
    let id = super::id_of(&created["response"]);
    becomes(&two, &id, "in_progress").await;
    let unkeyed = json!({"model": "test-model", "input": "Again", "conversation": conversation});
    assert_eq!(post(&two, "responses", &unkeyed).await["error"]["code"], "conversation_locked");

    // A stream that has more than was committed breaks off; whoever waits for the end gets it.
    let mut followed = keyed(&two).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\"lo\"") {
        seen.push_str(std::str::from_utf8(&followed.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(seen.starts_with(&begun), "{seen}");
    one.kill();
    let cancelled = post(&two, &format!("responses/{id}/cancel"), &json!({})).await;
    assert!(followed.text().await.is_err());
    let response = read(&two, &id).await;
    assert_eq!(cancelled, response);
    assert!(["failed", "cancelled"].contains(&response["status"].as_str().unwrap()), "{response:#}");
    let again = keyed(&two).send().await.unwrap().text().await.unwrap();
    assert_eq!(frames(&again).last().unwrap()["response"], response);
    let free = async || post(&two, "responses", &unkeyed).await["status"] == "completed";
    assert!(eventually(free).await);
    assert_eq!(upstream.requests().len(), 2, "what was streamed to a client is not made again");
}
