//! Keys across a crash, with the real binary.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Raw, ask, keyed};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{frames, frames_so_far};
use antwort_test_support::process::Process;
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};
use antwort_test_support::weather::Weather;

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_in_mid_stream_the_retry_gets_one_whole_stream_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let mut steps: Vec<_> = (0..20).map(|n| chunk(json!({"content": format!("word {n} ")}))).collect();
    steps.extend([Step::Wait(Duration::from_millis(200)), chunk(json!({"content": "more"})), Step::Hang]);
    upstream.reply(Reply::Stream(steps));
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let mut first = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\"more\"") {
        seen.push_str(std::str::from_utf8(&first.chunk().await.unwrap().unwrap()).unwrap());
    }
    gateway.kill();
    gateway.restart().await;
    let again = Raw::of(keyed(&gateway.base, "k", &ask(true)).send().await.unwrap()).await;
    assert_eq!((again.status, again.is_replayed()), (200, true), "{again:?}");
    let events = frames(&again.text);
    let response = assert_valid_stream(&events).response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_restarted"))
    );
    let whole_frames = &seen[..seen.rfind("\n\n").unwrap() + 2];
    assert_eq!(response["id"], frames_so_far(whole_frames)[0]["response"]["id"], "it is the same response");
    let third = Raw::of(keyed(&gateway.base, "k", &ask(true)).send().await.unwrap()).await;
    assert_eq!(third.text, again.text);
    assert_eq!(upstream.requests().len(), 1, "the model is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_the_retry_of_a_create_without_a_stream_gets_the_failed_response() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.reply(Reply::Silence);
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let request = keyed(&gateway.base, "k", &ask(false));
    let client = tokio::task::JoinSet::from_iter([async move { request.send().await.is_err() }]);
    assert!(eventually(async || upstream.requests().len() == 1).await);
    gateway.kill();
    assert_eq!(client.join_all().await, [true]);
    gateway.restart().await;
    let again = Raw::of(keyed(&gateway.base, "k", &ask(false)).send().await.unwrap()).await;
    let response = again.json();
    assert!(again.is_replayed());
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_restarted"))
    );
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_before_a_crash_is_sent_again_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let mut first = Vec::new();
    for stream in [false, true] {
        let key = format!("key-{stream}");
        first.push(Raw::of(keyed(&gateway.base, &key, &ask(stream)).send().await.unwrap()).await.text);
    }
    gateway.kill();
    gateway.restart().await;
    for (stream, first) in [false, true].into_iter().zip(first) {
        let key = format!("key-{stream}");
        let again = Raw::of(keyed(&gateway.base, &key, &ask(stream)).send().await.unwrap()).await;
        assert!(again.is_replayed() && again.text == first);
    }
}

/// A gateway that has called two tools, one of which has not answered, in a stream of which the client has seen something; and
/// what the client asked.
async fn killed_in_a_call(folder: &Path, upstream: &Upstream) -> (Process, Value) {
    let weather = Weather::spawn().await;
    let config = format!(
        "tools: {{builtin: {{get_weather: {{api_key: weather-key, base_url: \"{}\"}}}}}}\n\
         egress: {{allow: [127.0.0.1]}}\n",
        weather.url
    );
    std::fs::write(folder.join("antwort.yaml"), config).unwrap();
    let mut gateway = Process::start(folder, upstream).await;
    upstream.reply(Reply::Calls(vec![("calculate", json!({"expression": "1+2*3"}))]));
    upstream.reply(Reply::Calls(vec![
        ("calculate", json!({"expression": "2*2"})),
        ("get_weather", json!({"location": "Oslo"})),
    ]));
    weather.stop_answering();
    let mut body = ask(true);
    body["tools"] = json!([{"type": "mcp", "server_label": "antwort"}]);
    let mut first = keyed(&gateway.base, "k", &body).send().await.unwrap();
    assert!(first.chunk().await.unwrap().is_some());
    assert!(eventually(async || weather.asked() == 1).await, "the tool was called");
    gateway.kill();
    (gateway, body)
}

fn sequence_numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_in_a_call_the_stream_shows_the_turn_and_that_the_outcome_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let (mut gateway, body) = killed_in_a_call(folder.path(), &upstream).await;
    gateway.restart().await;
    let again = Raw::of(keyed(&gateway.base, "k", &body).send().await.unwrap()).await;
    let events = frames(&again.text);
    assert_eq!(sequence_numbers(&events), (0..events.len() as u64).collect::<Vec<_>>(), "without a gap");
    let response = assert_valid_stream(&events).response;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_restarted"))
    );
    let calls: Vec<_> = response["output"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(calls, ["calculate", "calculate", "get_weather"]);
    assert_eq!(response["output"][2]["error"]["code"], "outcome_unknown");
    assert_eq!(upstream.requests().len(), 2, "nothing is done again");
}

/// The state of the run cannot be opened: it is sealed.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_seal_key_a_stream_that_was_cut_off_still_has_one_end_and_no_gap() {
    for in_a_call in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let upstream = Upstream::spawn().await;
        let (mut gateway, body) = if in_a_call {
            killed_in_a_call(folder.path(), &upstream).await
        } else {
            upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
            let mut gateway = Process::start(folder.path(), &upstream).await;
            let mut first = keyed(&gateway.base, "k", &ask(true)).send().await.unwrap();
            assert!(first.chunk().await.unwrap().is_some());
            gateway.kill();
            (gateway, ask(true))
        };
        std::fs::remove_file(folder.path().join("test.db.seal-key")).unwrap();
        gateway.restart().await;
        let again = Raw::of(keyed(&gateway.base, "k", &body).send().await.unwrap()).await;
        let events = frames(&again.text);
        assert_eq!(sequence_numbers(&events), (0..events.len() as u64).collect::<Vec<_>>(), "{in_a_call}");
        let last = events.last().unwrap();
        assert_eq!(
            (&last["type"], &last["response"]["error"]["code"]),
            (&json!("response.failed"), &json!("server_restarted"))
        );
        let ends = events.iter().filter(|event| event["type"] == "response.failed").count();
        assert_eq!(ends, 1, "{in_a_call}");
    }
}
