//! Models: which there are, who serves them, and what is handed through to them unread.

use std::time::Duration;

use antwort::config::{Preset, ProviderSettings, Settings};
use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Builder, Gateway, HttpAnswer, JsonBody, text_of};
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

fn ids(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect()
}

/// A gateway before two providers: one by default, with an alias; one by prefix and pattern.
fn before_two(one: &Upstream, other: &Upstream) -> Builder {
    let mut second = ProviderSettings::new(Preset::Generic, other.url.as_str());
    second.prefix = Some("local".into());
    second.models = vec!["llama*".into()];
    second.retries.max = 0;
    Gateway::with_upstream(one)
        .provider(|provider| {
            provider.aliases.insert("gpt-4o".into(), "org/model:latest".into());
            provider.retries.max = 0;
        })
        .set(|settings: &mut Settings| drop(settings.providers.insert("second".into(), second)))
}

#[tokio::test]
async fn models_of_all_providers_are_listed_under_the_names_that_requests_use() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    other.list(&["llama3.2", "qwen:7b"]);
    let gateway = before_two(&one, &other).spawn().await;
    for prefix in ["/v1", "", "/openai/v1"] {
        let list = gateway.get(&format!("{prefix}/models")).await.body;
        openapi::assert_is("ModelList", &list);
        assert_eq!(
            ids(&list),
            ["gpt-4o", "local/llama3.2", "local/qwen:7b", "org/model:latest", "test-model"]
        );
    }
}

#[tokio::test]
async fn a_model_is_found_by_its_id_however_it_is_encoded() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    other.list(&["llama3.2"]);
    let gateway = before_two(&one, &other).spawn().await;
    for (path, id) in [
        ("test-model", "test-model"),
        ("org/model:latest", "org/model:latest"),
        ("org%2Fmodel%3Alatest", "org/model:latest"),
        ("org/model%3alatest", "org/model:latest"),
        ("gpt-4o", "gpt-4o"),
        ("local/llama3.2", "local/llama3.2"),
        ("local%2Fllama3.2", "local/llama3.2"),
    ] {
        let answer = gateway.get(&format!("/v1/models/{path}")).await;
        assert_eq!((answer.status, &answer.body["id"]), (200, &json!(id)), "{path}");
        openapi::assert_is("Model", &answer.body);
    }
    for path in ["nobody", "org", "local/nobody", "test-model/"] {
        let answer = gateway.get(&format!("/v1/models/{path}")).await;
        let error = &answer.body["error"];
        assert_eq!(
            (answer.status, &error["code"], &error["param"]),
            (404, &json!("model_not_found"), &json!("model")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_list_is_kept_for_its_time_and_beyond_it_if_need_be() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for _ in 0..5 {
        gateway.get("/v1/models").await;
        gateway.get("/v1/models/test-model").await;
    }
    assert_eq!(upstream.listed(), 1, "asked once");

    let fresh = |settings: &mut Settings| settings.models.cache_ttl = Duration::from_millis(50);
    let gateway = Gateway::with_upstream(&upstream).set(fresh).spawn().await;
    gateway.get("/v1/models").await;
    upstream.list(&["new-model"]);
    assert!(
        eventually(async || ids(&gateway.get("/v1/models").await.body) == ["new-model"]).await,
        "asked again"
    );
    upstream.kill().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        ids(&gateway.get("/v1/models").await.body),
        ["new-model"],
        "the last list is better than none"
    );
}

#[tokio::test]
async fn one_provider_that_is_down_does_not_hide_the_others() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    let gateway = before_two(&one, &other).spawn().await;
    other.kill().await;
    let list = gateway.get("/v1/models").await;
    assert_eq!((list.status, ids(&list.body)), (200, vec!["gpt-4o", "org/model:latest", "test-model"]));

    let gateway = Gateway::with_upstream_url("http://127.0.0.1:9/v1").spawn().await;
    let answer = gateway.get("/v1/models").await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (502, &json!("upstream_unreachable")));
}

#[tokio::test]
async fn a_response_comes_from_the_provider_of_its_model_and_keeps_the_clients_name() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    let gateway = before_two(&one, &other).spawn().await;
    for (named, provider, asked) in [
        ("test-model", &one, "test-model"),
        ("gpt-4o", &one, "org/model:latest"),
        ("never-heard-of", &one, "never-heard-of"),
        ("local/qwen:7b", &other, "qwen:7b"),
        ("llama3.2", &other, "llama3.2"),
    ] {
        provider.text("Mine.");
        for response in [
            gateway.create(json!({"model": named, "input": "Hi"})).await,
            gateway.stream(json!({"model": named, "input": "Hi"})).await.response,
        ] {
            assert_eq!(response["model"], named);
            assert!(!text_of(&response).is_empty());
            assert_eq!(provider.last()["model"], asked);
        }
    }
    let answer = Gateway::with_upstream(&one)
        .provider(|provider| (provider.default, provider.models) = (false, vec!["gpt-*".into()]))
        .spawn()
        .await
        .post("/v1/responses", &json!({"model": "llama", "input": "Hi"}))
        .await;
    let error = &answer.body["error"];
    assert_eq!(
        (answer.status, &error["code"], &error["param"]),
        (404, &json!("model_not_found"), &json!("model"))
    );
}

#[tokio::test]
async fn a_chain_may_change_its_provider() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    let gateway = before_two(&one, &other).spawn().await;
    let thinking = vec![
        chunk(json!({"reasoning_content": "Hm."})),
        chunk(json!({"content": "One."})),
        finish("stop"),
        done(),
    ];
    one.reply(Reply::Stream(thinking));
    let first = gateway.stream(json!({"model": "test-model", "input": "1"})).await.response;
    let body = json!({"model": "local/x", "input": "2", "previous_response_id": first["id"]});
    gateway.create(body).await;
    let said: Vec<Value> = other.last()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(said, [json!("1"), json!("One."), json!("2")]);
}

fn chat(model: &str) -> String {
    format!(
        r#"{{"messages":[{{"role":"user","content":"Hi"}}],"model":"{model}","seed": 1.50,"x":{{"b":1,"a":2}}}}"#
    )
}

async fn pass(gateway: &Gateway, body: String) -> HttpAnswer {
    gateway.post_bytes("/v1/chat/completions", body, &[("content-type", "application/json")]).await
}

#[tokio::test]
async fn chat_completions_are_handed_through_unread() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    let gateway = before_two(&one, &other).spawn().await;
    let answer =
        json!({"id": "c", "choices": [{"message": {"role": "assistant", "content": "Hi"}}], "extra": [1, 2]});
    one.reply(Reply::Whole(answer.clone()));
    assert_eq!(pass(&gateway, chat("test-model")).await.body, answer);
    assert_eq!(one.requests()[0].raw, chat("test-model"), "byte for byte");
    for (named, provider, asked) in
        [("gpt-4o", &one, "org/model:latest"), ("local/qwen:7b", &other, "qwen:7b")]
    {
        assert_eq!(pass(&gateway, chat(named)).await.status, 200);
        let sent = provider.requests().last().unwrap().clone();
        assert_eq!(sent.body["model"], asked);
        assert!(
            sent.raw.contains(r#""seed":1.50"#) && sent.raw.contains(r#""x":{"b":1,"a":2}"#),
            "{}",
            sent.raw
        );
    }
}

#[tokio::test]
async fn a_stream_is_handed_through_as_it_comes() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let bytes = b": comment\r\n\r\ndata: {\"odd\": true}\r\n\r\ndata: [DONE]\r\n\r\n".to_vec();
    upstream.reply(Reply::Stream(vec![Step::Raw(bytes.clone())]));
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let ask = || gateway.http.post(format!("{}/v1/chat/completions", gateway.base)).json_body(&body);
    let response = ask().send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.bytes().await.unwrap(), bytes);

    upstream.reply(Reply::Stream(vec![Step::Raw(b"data: 1\n\n".to_vec()), Step::Hang]));
    let mut response = ask().send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: 1\n\n", "at once, not at the end");
    assert_eq!(upstream.open_streams(), 1);
    drop(response);
    assert!(eventually(async || upstream.open_streams() == 0).await, "the provider generates for nobody");

    upstream.reply(Reply::Stream(vec![
        Step::Raw(b"data: 1\n\n".to_vec()),
        Step::Wait(Duration::from_millis(50)),
        Step::Cut,
    ]));
    assert!(ask().send().await.unwrap().text().await.is_err(), "what was cut does not look whole");
}

#[tokio::test]
async fn what_is_handed_through_has_its_errors_in_the_usual_form() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with_upstream(&upstream).provider(|provider| provider.retries.max = 0).spawn().await;
    let theirs = json!({"error": {"message": "too hot", "type": "invalid_request_error", "param": "temperature", "code": null}});
    upstream.reply(Reply::Status(400, vec![("content-type", "application/json")], theirs.to_string()));
    let answer = pass(&gateway, chat("m")).await;
    assert_eq!((answer.status, answer.body), (400, theirs), "the client's mistakes in the provider's words");
    for (status, expected) in [(401, 502), (403, 502), (500, 502), (503, 503)] {
        upstream.reply(Reply::Status(status, vec![], "secret detail of http://10.0.0.1".into()));
        let answer = pass(&gateway, chat("m")).await;
        assert_eq!(answer.status, expected);
        assert!(!answer.body.to_string().contains("10.0.0.1"), "{:#}", answer.body);
    }
    upstream.reply(Reply::Status(
        429,
        vec![("retry-after", "9"), ("content-type", "application/json")],
        theirs_429(),
    ));
    let answer = pass(&gateway, chat("m")).await;
    assert_eq!((answer.status, &answer.headers["retry-after"]), (429, &"9".parse().unwrap()));
    for (body, code) in [
        ("{".to_owned(), "invalid_json"),
        ("[]".to_owned(), "invalid_json"),
        ("{\"messages\":[]}".to_owned(), "missing_required_parameter"),
        ("{\"model\":5}".to_owned(), "invalid_json"),
    ] {
        let answer = pass(&gateway, body.clone()).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!(code)), "{body}");
    }
}

fn theirs_429() -> String {
    json!({"error": {"message": "slow down", "type": "rate_limit_error", "param": null, "code": null}})
        .to_string()
}

#[tokio::test]
async fn embeddings_are_handed_through() {
    let (one, other) = (Upstream::spawn().await, Upstream::spawn().await);
    let gateway = before_two(&one, &other).spawn().await;
    for (named, provider, asked) in [("gpt-4o", &one, "org/model:latest"), ("local/e5", &other, "e5")] {
        let answer = gateway.post("/v1/embeddings", &json!({"model": named, "input": ["a", "b"]})).await;
        assert_eq!((answer.status, &answer.body["data"][0]["embedding"]), (200, &json!([0.5])));
        assert_eq!(provider.last(), json!({"model": asked, "input": ["a", "b"]}));
    }
}
