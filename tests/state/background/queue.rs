//! The queue: how many runs are made at a time, keys, conversations, and what a stop does.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, ended, id_of, is_over, read, slow_answer};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Builder, Gateway, JsonBody, text_of};
use antwort_test_support::halting_store::{Halt, HaltingStore};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

#[tokio::test]
async fn so_many_background_runs_are_made_at_a_time_and_the_others_wait() {
    let upstream = Upstream::spawn().await;
    upstream.always(slow_answer(100));
    let few = |settings: &mut antwort::config::Settings| settings.jobs.concurrency = 2;
    let gateway = Gateway::with_upstream(&upstream).set(few).spawn().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(id_of(&gateway.create(ask()).await));
    }
    let mut most = 0;
    for id in &ids {
        while !is_over(&read(&gateway, id).await) {
            most = most.max(upstream.open_streams());
        }
    }
    assert_eq!(most, 2);
    for id in &ids {
        assert_eq!(read(&gateway, id).await["status"], "completed");
    }
}

#[tokio::test]
async fn one_key_queues_one_run() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer(50));
    let http = reqwest::Client::new();
    let send = async |body: &Value| {
        let request = http.post(format!("{}/v1/responses", gateway.base)).json_body(body);
        let response = request.header("idempotency-key", "k").send().await.unwrap();
        let replayed = response.headers().contains_key("idempotent-replayed");
        (replayed, serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap())
    };
    let (replayed, first) = send(&ask()).await;
    assert!(!replayed);
    let (replayed, again) = send(&ask()).await;
    assert!(replayed && again["id"] == first["id"] && !is_over(&again), "nobody waits: {again}");
    let response = ended(&gateway, &id_of(&first)).await;
    assert_eq!(send(&ask()).await, (true, response));
    let other = json!({"model": "test-model", "input": "Other", "background": true});
    assert_eq!(send(&other).await.1["error"]["code"], "idempotency_key_reused");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn background_runs_of_one_conversation_are_made_one_after_the_other() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.always(slow_answer(30));
    let conversation = gateway.post("/v1/conversations", &json!({})).await.body;
    let mut body = ask();
    body["conversation"] = conversation["id"].clone();
    let (first, second) = (gateway.create(body.clone()).await, gateway.create(body).await);
    for id in [id_of(&first), id_of(&second)] {
        assert_eq!(ended(&gateway, &id).await["status"], "completed");
    }
    let asked: Vec<usize> = upstream
        .requests()
        .iter()
        .map(|request| request.body["messages"].as_array().unwrap().len())
        .collect();
    assert_eq!(asked, [1, 3], "the second was asked with the first's question and answer");
    let path = format!("/v1/conversations/{}/items", id_of(&conversation));
    assert_eq!(gateway.get(&path).await.body["data"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_read_for_a_while() {
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let gateway = Gateway::with_upstream(&upstream).database(file.clone()).spawn().await;
    upstream.text("Hello.");
    let mut body = ask();
    body["store"] = json!(false);
    let id = id_of(&gateway.create(body).await);
    let response = ended(&gateway, &id).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert_eq!((&response["store"], text_of(&response).as_str()), (&json!(false), "Hello."));
    let sql = rusqlite::Connection::open(file).unwrap();
    let kept: i64 = sql
        .query_row("SELECT expires_at - finished_at FROM responses WHERE id = ?1", [&id], |row| row.get(0))
        .unwrap();
    let day = 24 * 3600 * 1000;
    assert!((day - 10_000..=day + 10_000).contains(&kept), "kept for {kept} ms, and its events for a day");
}

/// A gateway that waits for nothing when it stops.
fn hasty_gateway(upstream: &Upstream, folder: &tempfile::TempDir) -> Builder {
    let set = |settings: &mut antwort::config::Settings| {
        settings.server.drain_timeout = Duration::from_millis(20);
    };
    Gateway::with_upstream(upstream).database(folder.path().join("test.db")).set(set)
}

#[tokio::test]
async fn a_stop_gives_runs_back_that_the_next_process_makes_to_their_end() {
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let first = hasty_gateway(&upstream, &folder).spawn().await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    let id = id_of(&first.create(ask()).await);
    assert!(eventually(async || upstream.open_streams() == 1).await);
    assert!(eventually(async || read(&first, &id).await["status"] == "in_progress").await);
    first.stop().await;
    upstream.text("Done.");
    let second = hasty_gateway(&upstream, &folder).spawn().await;
    let response = ended(&second, &id).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert_eq!(response["output"].as_array().unwrap().last().unwrap()["content"][0]["text"], "Done.");
}

#[tokio::test]
async fn a_stop_gives_a_run_back_that_is_in_a_call_of_a_tool() {
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let (builder, seen) = hasty_gateway(&upstream, &folder).probe();
    let first = builder.spawn().await;
    upstream.reply(Reply::Calls(vec![("slow", json!({}))]));
    let mut body = ask();
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    let id = id_of(&first.create(body).await);
    assert!(eventually(async || seen.count("slow") == 1).await);
    first.stop().await;
    upstream.text("Done.");
    let second = hasty_gateway(&upstream, &folder).probe().0.spawn().await;
    let response = ended(&second, &id).await;
    assert_eq!(
        (&response["status"], text_of(&response).as_str()),
        (&json!("completed"), "Done."),
        "{response:#}"
    );
}

#[tokio::test]
async fn metrics_say_how_many_runs_wait() {
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Stream(vec![Step::Hang]));
    let one = |settings: &mut antwort::config::Settings| settings.jobs.concurrency = 1;
    let gateway = Gateway::with_upstream(&upstream).set(one).spawn().await;
    let shows = async |line: &str| {
        let text = gateway.get("/metrics").await.body;
        text.as_str().unwrap().lines().any(|shown| shown.starts_with(line))
    };
    assert!(shows("antwort_jobs_queued 0").await && shows("antwort_job_oldest_seconds 0").await);
    gateway.create(ask()).await;
    gateway.create(ask()).await;
    assert!(eventually(async || shows("antwort_jobs_queued 1").await).await);
    assert!(eventually(async || !shows("antwort_job_oldest_seconds 0").await).await);
}

/// Its lease was renewed, as those of all claims, for as long as the process lived, and nobody made it.
#[tokio::test]
async fn a_run_whose_claim_got_lost_is_given_back_and_made() {
    let folder = tempfile::tempdir().unwrap();
    let lease = Duration::from_secs(600);
    let store = HaltingStore::open_with(&folder.path().join("test.db"), Halt::Never, lease);
    store.lose_claim();
    let upstream = Upstream::spawn().await;
    upstream.reply(slow_answer(100));
    let often = |settings: &mut antwort::config::Settings| {
        settings.store.maintenance_interval = Duration::from_millis(50);
    };
    let gateway = Gateway::with_upstream(&upstream).set(often).store(store.store()).spawn().await;
    let response = ended(&gateway, &id_of(&gateway.create(ask()).await)).await;
    // While it was made for longer than several looks, it was not given back again.
    assert_eq!((&response["status"], upstream.requests().len()), (&json!("completed"), 1));
}
