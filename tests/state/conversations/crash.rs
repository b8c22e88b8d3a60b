//! What a crash leaves of conversations. With the real binary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ask, shown};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

/// Sends a request; `None` once the gateway is gone.
async fn post(http: &reqwest::Client, base: &str, path: &str, body: &Value) -> Option<Value> {
    let answer = http.post(format!("{base}{path}")).json_body(body).send().await.ok()?;
    let text = answer.text().await.ok()?;
    serde_json::from_str(&text).ok()
}

/// Talks in a conversation until the gateway is gone. Returns how many turns it has seen the end of.
async fn talk(http: &reqwest::Client, base: &str, id: &str, ended: &AtomicUsize) -> usize {
    let mut turns = 0;
    while let Some(response) = post(http, base, "/v1/responses", &ask(id, turns.to_string())).await {
        assert_eq!(response["status"], "completed", "{response:#}");
        turns += 1;
        ended.fetch_add(1, Ordering::Relaxed);
    }
    turns
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_leaves_no_half_turn_in_a_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let steps = vec![
        chunk(json!({"content": "An "})),
        Step::Wait(Duration::from_millis(2)),
        chunk(json!({"content": "answer."})),
        finish("stop"),
        done(),
    ];
    upstream.always(Reply::Stream(steps));
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let ended = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..16 {
        let (base, ended) = (gateway.base.clone(), Arc::clone(&ended));
        clients.spawn(async move {
            let http = reqwest::Client::new();
            let made = post(&http, &base, "/v1/conversations", &json!({})).await.expect("a conversation");
            let id = made["id"].as_str().expect("an id").to_owned();
            let turns = talk(&http, &base, &id, &ended).await;
            (id, turns)
        });
    }
    assert!(eventually(async || ended.load(Ordering::Relaxed) >= 200).await, "{ended:?} turns in time");
    gateway.kill();
    let seen = clients.join_all().await;
    gateway.restart().await;
    let http = reqwest::Client::new();
    for (id, turns) in seen {
        // What was being made when the process was killed is either there as a whole, or not at all.
        assert!(post(&http, &gateway.base, "/v1/responses", &ask(&id, "more")).await.is_some());
        let (mut said, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("{}/v1/conversations/{id}/items?order=asc&limit=100{after}", gateway.base);
            let page = http.get(path).send().await.unwrap().text().await.unwrap();
            let page: Value = serde_json::from_str(&page).unwrap();
            said.extend(page["data"].as_array().unwrap().iter().map(shown));
            if page["has_more"] == false {
                break;
            }
            after = format!("&after={}", page["last_id"].as_str().unwrap());
        }
        assert!(said.len() == 2 * turns + 2 || said.len() == 2 * turns + 4, "{turns} turns: {said:?}");
        let (asked, answers): (Vec<_>, Vec<_>) = said.chunks(2).map(|turn| (&turn[0], &turn[1])).unzip();
        assert!(answers.iter().all(|answer| *answer == "An answer."), "{said:?}");
        let (last, before) = asked.split_last().unwrap();
        assert_eq!(*last, "more");
        let expected: Vec<_> = (0..before.len()).map(|turn| turn.to_string()).collect();
        assert_eq!(before.iter().map(|text| (*text).clone()).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_cut_off_by_a_crash_leaves_its_conversation_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let http = reqwest::Client::new();
    let items = json!({"items": [{"role": "user", "content": "before"}]});
    let made = post(&http, &gateway.base, "/v1/conversations", &items).await.unwrap();
    let id = made["id"].as_str().unwrap();
    let mut body = ask(id, "cut off");
    body["stream"] = true.into();
    let request = http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
    let _stream = request.send().await.unwrap();
    let get = async |base: String, path: &str| -> Value {
        let text = http.get(format!("{base}{path}")).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let listed = async || get(gateway.base.clone(), "/v1/responses").await["data"].clone();
    assert!(
        eventually(async || listed().await[0]["status"] == "in_progress").await,
        "recorded while it runs"
    );
    gateway.kill();
    gateway.restart().await;
    let failed = get(gateway.base.clone(), "/v1/responses").await["data"][0].clone();
    assert_eq!((&failed["status"], &failed["conversation"]), (&json!("failed"), &json!({"id": id})));
    let items = get(gateway.base.clone(), &format!("/v1/conversations/{id}/items")).await;
    assert_eq!(items["data"].as_array().unwrap().len(), 1, "{items:#}");
    // It can be continued by its id, from what it has read.
    let next = json!({"model": "test-model", "input": "next", "previous_response_id": failed["id"]});
    assert_eq!(post(&http, &gateway.base, "/v1/responses", &next).await.unwrap()["status"], "completed");
    assert_eq!(super::asked(&upstream), ["before", "cut off", "next"]);
    let again = post(&http, &gateway.base, "/v1/responses", &ask(id, "again")).await.unwrap();
    assert_eq!(again["status"], "completed", "it is not locked");
    assert_eq!(super::asked(&upstream), ["before", "again"]);
}
