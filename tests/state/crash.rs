//! Crashes, of the gateway and of its provider: what a client has seen the end of is kept, every request ends in
//! exactly one way, and nothing hangs. With the real binary.

mod appends;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use antwort_test_support::eventually;
use antwort_test_support::gateway::{JsonBody, frames};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};
use antwort_test_support::{openapi, stream_validator};

/// An answer that takes a little while.
fn answer(words: usize, gap: Duration) -> Reply {
    let mut steps = vec![chunk(json!({"role": "assistant", "content": ""}))];
    for n in 0..words {
        steps.extend([chunk(json!({"content": format!("word {n} ")})), Step::Wait(gap)]);
    }
    steps.extend([finish("stop"), usage(5, words as u64), done()]);
    Reply::Stream(steps)
}

fn create(http: &reqwest::Client, base: &str, stream: bool) -> reqwest::RequestBuilder {
    let body = json!({"model": "test-model", "input": "Hi", "stream": stream});
    http.post(format!("{base}/v1/responses")).json_body(&body)
}

/// The response of a JSON body or of a stream's terminal event, as far as it came before the connection broke.
async fn seen(http: &reqwest::Client, base: &str, stream: bool) -> Option<Value> {
    let mut response =
        create(http, base, stream).send().await.ok().filter(|response| response.status() == 200)?;
    if !stream {
        return serde_json::from_str(&response.text().await.ok()?).ok();
    }
    let mut text = String::new();
    while let Ok(Some(piece)) = response.chunk().await {
        text.push_str(std::str::from_utf8(&piece).ok()?);
    }
    let (whole, _cut) = text.rsplit_once("\n\n")?;
    let events = whole.split("\n\n").filter_map(|frame| frame.split_once("data: ")).map(|(_, data)| data);
    let events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let ends = ["response.completed", "response.failed", "response.incomplete"];
    events
        .filter(|event| ends.iter().any(|end| event["type"] == *end))
        .map(|event| event["response"].clone())
        .next()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_saw_the_end_of_survives_kill_9_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.always(answer(5, Duration::from_millis(2)));
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let ended = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for client in 0..32 {
        let (base, ended) = (gateway.base.clone(), Arc::clone(&ended));
        clients.spawn(async move {
            let http = reqwest::Client::new();
            let mut all = Vec::new();
            // Until the gateway is gone.
            while let Some(response) = seen(&http, &base, client % 2 == 0).await {
                all.push(response);
                ended.fetch_add(1, Ordering::Relaxed);
            }
            all
        });
    }
    assert!(eventually(async || ended.load(Ordering::Relaxed) >= 300).await, "{ended:?} responses in time");
    gateway.kill();
    let seen: Vec<Value> = clients.join_all().await.into_iter().flatten().collect();
    assert!(seen.len() >= 300);

    gateway.restart().await;
    let http = reqwest::Client::new();
    for response in &seen {
        assert_eq!(response["status"], "completed");
        let url = format!("{}/v1/responses/{}", gateway.base, response["id"].as_str().unwrap());
        let stored = http.get(url).send().await.unwrap().text().await.unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&stored).unwrap(),
            *response,
            "equal to what the client saw"
        );
    }
    let body =
        json!({"model": "test-model", "input": "More", "previous_response_id": seen.last().unwrap()["id"]});
    let continued =
        http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send().await.unwrap();
    assert_eq!(continued.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_cut_off_by_a_crash_is_failed_after_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    let mut gateway =
        Process::start_with_environment(folder.path(), &upstream, &[("ANTWORT_LOG", "warn")]).await;
    let http = reqwest::Client::new();
    let mut stream = create(&http, &gateway.base, true).send().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();
    let data = std::str::from_utf8(&first).unwrap().lines().nth(1).unwrap().strip_prefix("data: ").unwrap();
    let created: Value = serde_json::from_str(data).unwrap();
    let url = format!("{}/v1/responses/{}", gateway.base, created["response"]["id"].as_str().unwrap());
    let stored = async || -> Value {
        let text = http.get(&url).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    };
    assert!(eventually(async || stored().await["status"] == "in_progress").await, "recorded while it runs");
    gateway.kill();
    gateway.restart().await;
    let response = stored().await;
    openapi::assert_response(&response);
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_restarted"))
    );
    let items = http.get(format!("{url}/input_items")).send().await.unwrap().text().await.unwrap();
    assert!(items.contains("\"Hi\""), "its input is kept: {items}");
    let log = gateway.log();
    let failed =
        log.lines().find(|line| line.contains("a response failed")).unwrap_or_else(|| panic!("{log}"));
    assert!(
        failed.contains(response["id"].as_str().unwrap()) && failed.contains("server_restarted"),
        "{failed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_a_stream_end_and_the_process_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.reply(answer(10, Duration::from_millis(100)));
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let http = reqwest::Client::new();
    let stream = create(&http, &gateway.base, true).send().await.unwrap();
    gateway.terminate();
    let events = frames(&stream.text().await.unwrap());
    assert_eq!(stream_validator::assert_valid_stream(&events).response["status"], "completed");
    assert!(eventually(async || gateway.exit_code() == Some(0)).await, "it ends, and in order");
}

/// How one request ended; panics if it did not end in exactly one way.
async fn end(http: &reqwest::Client, base: &str, stream: bool) -> String {
    let response = create(http, base, stream).send().await.expect("the gateway answers");
    let status = response.status();
    let text = response.text().await.expect("the answer is whole");
    if status != 200 {
        let error: Value = serde_json::from_str(&text).expect("JSON");
        openapi::assert_error(&error);
        return status.as_u16().to_string();
    }
    let response = if stream {
        stream_validator::assert_valid_stream(&frames(&text)).response
    } else {
        let response: Value = serde_json::from_str(&text).expect("JSON");
        openapi::assert_response(&response);
        response
    };
    let status = response["status"].as_str().unwrap();
    assert!(matches!(status, "completed" | "failed"), "{status}");
    status.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_clients_each_get_one_end_while_the_provider_dies_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut upstream = Upstream::spawn().await;
    let address = upstream.url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let slow = || answer(10, Duration::from_millis(50));
    upstream.always(slow());
    let gateway = Process::start(folder.path(), &upstream).await;
    let http = reqwest::Client::new();
    let mut clients = JoinSet::new();
    for client in 0..500 {
        let (http, base) = (http.clone(), gateway.base.clone());
        clients.spawn(async move {
            let mut ends = Vec::new();
            for n in 0..4 {
                ends.push(end(&http, &base, (client + n) % 2 == 0).await);
            }
            ends
        });
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        upstream.kill().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        upstream = Upstream::spawn_on(&address).await;
        upstream.always(slow());
    }
    let ends =
        tokio::time::timeout(Duration::from_secs(120), clients.join_all()).await.expect("no request hangs");
    let ends: Vec<String> = ends.into_iter().flatten().collect();
    assert_eq!(ends.len(), 2000);
    let count = |end: &str| ends.iter().filter(|got| *got == end).count();
    assert!(count("completed") >= 500, "most fare well: {} of 2000", count("completed"));
    assert!(count("failed") >= 1, "some are cut: otherwise this tested nothing");

    let idle = async || {
        let text = http.get(format!("{}/metrics", gateway.base)).send().await.unwrap().text().await.unwrap();
        text.contains("antwort_runs_active 0\n")
    };
    assert!(eventually(idle).await, "nothing is left running");
    assert_eq!(end(&http, &gateway.base, true).await, "completed", "and all is well again");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_a_shell_allows_files_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Stream(vec![chunk(json!({"content": "Hi"})), Step::Hang]));
    let gateway = Process::start_with_files(folder.path(), &upstream, Some(128)).await;
    let http = reqwest::Client::new();
    let mut open = Vec::new();
    for _ in 0..150 {
        let stream = create(&http, &gateway.base, true).send();
        let stream = tokio::time::timeout(Duration::from_secs(10), stream).await.expect("accepted").unwrap();
        assert_eq!(stream.status(), 200);
        open.push(stream);
    }
    assert_eq!(upstream.open_streams(), 150);
}
