//! Responses that go on when their client disconnects, without an idempotency key.

use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, frames};
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

fn slow_answer() -> Reply {
    let mut steps = Vec::new();
    for n in 0..6 {
        steps.extend([
            chunk(json!({"content": format!("word {n} ")})),
            Step::Wait(Duration::from_millis(100)),
        ]);
    }
    steps.extend([finish("stop"), usage(5, 6), done()]);
    Reply::Stream(steps)
}

/// A request whose client reads the beginning and goes; the id of its response.
async fn begin(gateway: &Gateway, antwort: Value) -> String {
    let ask = json!({"model": "test-model", "input": "Hi", "antwort": antwort});
    let mut stream = gateway.open_stream(ask).await;
    let first = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let created: Value = serde_json::from_str(data).unwrap();
    created["response"]["id"].as_str().unwrap().to_owned()
}

async fn final_status(gateway: &Gateway, id: &str) -> Value {
    let path = format!("/v1/responses/{id}");
    let ended = async || {
        let status = gateway.get(&path).await.body["status"].clone();
        status.is_string() && status != "in_progress"
    };
    assert!(eventually(ended).await);
    gateway.get(&path).await.body["status"].clone()
}

#[tokio::test]
async fn a_response_goes_on_or_not_as_its_request_or_the_setting_says() {
    use antwort::config::OnDisconnect::{Cancel, Continue};
    let upstream = Upstream::spawn().await;
    for (setting, asked, status) in [
        (Cancel, json!({}), "cancelled"),
        (Cancel, json!({"on_disconnect": "continue"}), "completed"),
        (Continue, json!({}), "completed"),
        (Continue, json!({"on_disconnect": "cancel"}), "cancelled"),
    ] {
        let set = |settings: &mut antwort::config::Settings| settings.engine.on_disconnect = setting;
        let gateway = Gateway::with_upstream(&upstream).set(set).spawn().await;
        upstream.reply(slow_answer());
        let id = begin(&gateway, asked.clone()).await;
        assert_eq!(final_status(&gateway, &id).await, status, "{setting:?} {asked}");
    }
}

#[tokio::test]
async fn the_stream_of_one_that_goes_on_is_resumed() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(slow_answer());
    let id = begin(&gateway, json!({"on_disconnect": "continue"})).await;
    let path = format!("{}/v1/responses/{id}?stream=true", gateway.base);
    let (whole, rest) =
        tokio::join!(async { reqwest::get(&path).await.unwrap().text().await.unwrap() }, async {
            reqwest::get(format!("{path}&starting_after=2")).await.unwrap().text().await.unwrap()
        },);
    let response = assert_valid_stream(&frames(&whole)).response;
    assert_eq!(response["output"][0]["content"][0]["text"], "word 0 word 1 word 2 word 3 word 4 word 5 ");
    assert_eq!(response["antwort"]["on_disconnect"], "continue");
    assert!(whole.ends_with(&rest) && rest.contains("\"sequence_number\":3,"), "{rest}");
}

#[tokio::test]
async fn one_that_is_not_stored_cannot_go_on() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for value in ["continue", "later"] {
        let ask = json!({"model": "test-model", "input": "Hi", "store": false, "antwort": {"on_disconnect": value}});
        let refused = gateway.post("/v1/responses", &ask).await;
        let param = refused.body["error"]["param"].as_str().unwrap();
        assert_eq!((refused.status, param), (400, "antwort.on_disconnect"), "{:#}", refused.body);
    }
    let set = |settings: &mut antwort::config::Settings| {
        settings.engine.on_disconnect = antwort::config::OnDisconnect::Continue;
    };
    let gateway = Gateway::with_upstream(&upstream).set(set).spawn().await;
    let ask = json!({"model": "test-model", "input": "Hi", "store": false});
    assert_eq!(gateway.post("/v1/responses", &ask).await.status, 200, "the setting is for what is stored");
}

/// What was written at its beginning is deleted, with what was asked. That it has failed is kept.
#[tokio::test]
async fn one_that_is_refused_by_the_provider_leaves_nothing_but_its_failure() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Status(400, vec![], json!({"error": {"message": "no"}}).to_string()));
    let ask = json!({"model": "test-model", "input": "Hi", "stream": true, "antwort": {"on_disconnect": "continue"}});
    assert!(gateway.post("/v1/responses", &ask).await.status >= 400);
    assert_eq!(gateway.get("/v1/responses?status=in_progress").await.body["data"], json!([]));
    let failed = async || gateway.get("/v1/responses?status=failed").await.body["data"][0].clone();
    assert!(eventually(async || failed().await["status"] == "failed").await);
    let path = format!("/v1/responses/{}/input_items", failed().await["id"].as_str().unwrap());
    assert_eq!(gateway.get(&path).await.body["data"], json!([]));
    assert_eq!(gateway.get("/v1/responses").await.body["data"].as_array().unwrap().len(), 1);
}

/// A `cancel` was accepted, and had no effect.
#[tokio::test]
async fn a_cancel_that_could_have_no_effect_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let with_key = Gateway::with_upstream(&upstream).spawn().await.with_header("idempotency-key", "one");
    for (gateway, background) in [(&gateway, true), (&with_key, false), (&with_key, true)] {
        let ask = |on_disconnect: &str| {
            let antwort = json!({"on_disconnect": on_disconnect});
            json!({"model": "test-model", "input": "Hi", "background": background, "antwort": antwort})
        };
        let error = gateway.refuse(ask("cancel"), 400, "unsupported_value").await;
        assert_eq!(error["param"], "antwort.on_disconnect");
        assert_eq!(gateway.get("/v1/responses").await.body["data"], json!([]), "nothing is begun or queued");
    }
    assert!(upstream.requests().is_empty());
    upstream.text("Hello");
    let ask = json!({"model": "test-model", "input": "Hi", "antwort": {"on_disconnect": "continue"}});
    assert_eq!(
        with_key.create(ask).await["status"],
        "completed",
        "the refused request has not used the key up"
    );
    // The setting is for requests that could be cancelled.
    let ask = json!({"model": "test-model", "input": "Hi", "background": true});
    assert_eq!(gateway.create(ask).await["status"], "queued");
}
