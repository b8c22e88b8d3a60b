//! `POST /v1/responses/input_tokens`: what a request would send to the model, counted without asking it.

mod exact;

use antwort::config::AgentSettings;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::openapi;
use antwort_test_support::upstream::Upstream;

const PATH: &str = "/v1/responses/input_tokens";

fn ask(input: impl Into<Value>) -> Value {
    json!({"model": "test-model", "input": input.into()})
}

/// The request with these fields, too.
fn with(mut body: Value, fields: Value) -> Value {
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

async fn count(gateway: &Gateway, body: &Value) -> (u64, String) {
    let answer = gateway.post(PATH, body).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    openapi::assert_is("InputTokens", &answer.body);
    let precision = answer.headers["antwort-token-count"].to_str().unwrap().to_owned();
    (answer.body["input_tokens"].as_u64().unwrap(), precision)
}

/// The count of a gateway that has no tokenizer to ask.
async fn estimate(gateway: &Gateway, body: &Value) -> u64 {
    let (tokens, precision) = count(gateway, body).await;
    assert_eq!(precision, "estimate");
    tokens
}

#[tokio::test]
async fn a_prompt_is_estimated_without_asking_the_model_or_storing_anything() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    // 10 of the text, 4 around it, 3 before the answer.
    assert_eq!(estimate(&gateway, &ask("The quick brown fox jumps over the lazy dog.")).await, 17);
    // What says how the response is made and kept does not count.
    let more = json!({"store": true, "stream": true, "temperature": 0.5, "max_output_tokens": 9,
        "metadata": {"a": "b"}, "truncation": "auto", "parallel_tool_calls": false});
    assert_eq!(
        estimate(&gateway, &with(ask("The quick brown fox jumps over the lazy dog."), more)).await,
        17
    );
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
    assert!(upstream.tokenizer.requests().is_empty());
    assert_eq!(gateway.get("/v1/responses").await.body["data"], json!([]));
    for method in ["GET", "DELETE", "PUT"] {
        let request = gateway.http.request(method.parse().unwrap(), format!("{}{PATH}", gateway.base));
        assert_eq!(gateway.send(request).await.status, 405, "{method}");
    }
}

#[tokio::test]
async fn everything_that_the_model_reads_counts() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let bare = estimate(&gateway, &ask("Hi")).await;
    let words = "Answer every question about boats in one short sentence. ".repeat(5);
    let schema = json!({"type": "object", "properties": {"answer": {"type": "string", "description": words}},
        "required": ["answer"], "additionalProperties": false});
    let function = json!({"type": "function", "name": "look_up", "description": words, "parameters": schema});
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,aGk="});
    let text = json!({"type": "input_text", "text": "Hi"});
    for (what, body, least, most) in [
        ("instructions", with(ask("Hi"), json!({"instructions": words})), 50, 70),
        ("a tool", with(ask("Hi"), json!({"tools": [function]})), 120, 220),
        (
            "a schema",
            with(
                ask("Hi"),
                json!({"text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}}),
            ),
            70,
            120,
        ),
        ("an image", ask(json!([{"role": "user", "content": [text, image]}])), 1000, 1000),
        (
            "a call with its output",
            ask(json!([{"role": "user", "content": "Hi"},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\":1}"},
                {"type": "function_call_output", "call_id": "c", "output": words}])),
            60,
            100,
        ),
    ] {
        let more = estimate(&gateway, &body).await - bare;
        assert!((least..=most).contains(&more), "{what}: {more} tokens more");
    }
    // As a compaction asks.
    let compacted = json!([{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]);
    assert!(estimate(&gateway, &ask(compacted)).await > bare + 100);
}

#[tokio::test]
async fn a_stored_conversation_counts_as_if_it_were_sent() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("Oslo is the capital of Norway.");
    let first = gateway.create(ask("What is the capital of Norway?")).await;
    let items = json!([{"role": "user", "content": "What is the capital of Norway?"},
        {"role": "assistant", "content": "Oslo is the capital of Norway."},
        {"role": "user", "content": "And of Sweden?"}]);
    let sent = estimate(&gateway, &ask(items)).await;
    let chained = with(ask("And of Sweden?"), json!({"previous_response_id": first["id"]}));
    assert_eq!(estimate(&gateway, &chained).await, sent);
    let referred = json!([{"role": "user", "content": "What is the capital of Norway?"},
        {"type": "item_reference", "id": first["output"][0]["id"]},
        {"role": "user", "content": "And of Sweden?"}]);
    assert_eq!(estimate(&gateway, &ask(referred)).await, sent);
    assert_eq!(upstream.requests().len(), 1);
    let listed = gateway.get("/v1/responses").await;
    assert_eq!(listed.body["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_agents_instructions_and_tools_count() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(|settings| {
        let instructions = Some("Answer as a pirate who has been at sea for far too long.".into());
        let agent =
            AgentSettings { model: Some("test-model".into()), instructions, ..AgentSettings::default() };
        settings.agents.insert("pirate".into(), agent);
    });
    let gateway = gateway.spawn().await;
    let by_agent = estimate(&gateway, &json!({"agent": "pirate", "input": "Hi"})).await;
    let said = json!({"instructions": "Answer as a pirate who has been at sea for far too long."});
    assert_eq!(by_agent, estimate(&gateway, &with(ask("Hi"), said)).await);
    assert!(by_agent > estimate(&gateway, &ask("Hi")).await);
}

#[tokio::test]
async fn what_a_response_would_be_refused_for_is_refused_with_the_same_error() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream);
    let gateway = gateway.provider(|provider| {
        provider.context_window = antwort::config::ContextWindow::All(100);
        provider.supports.audio = false;
        provider.supports.response_format = false;
    });
    let gateway = gateway.spawn().await;
    let audio = json!({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}});
    for body in [
        json!({}),
        json!({"input": "Hi"}),
        json!({"model": "test-model"}),
        json!({"model": 7, "input": "Hi"}),
        with(ask("Hi"), json!({"personality": "friendly"})),
        with(ask("Hi"), json!({"conversation": "conv_1"})),
        with(ask("Hi"), json!({"previous_response_id": "resp_nowhere"})),
        with(ask("Hi"), json!({"agent": "nobody"})),
        with(ask("Hi"), json!({"tools": [{"type": "function", "name": "f", "parameters": 7}]})),
        with(ask("Hi"), json!({"tool_choice": {"type": "function", "name": "f"}})),
        with(ask("Hi"), json!({"text": {"format": {"type": "json_object"}}})),
        ask(json!([{"type": "item_reference", "id": "msg_nowhere"}])),
        ask(json!([{"type": "function_call_output", "call_id": "c", "output": "x"}])),
        ask(json!([{"role": "user", "content": [audio]}])),
        ask("long ".repeat(1000)),
    ] {
        let (created, counted) =
            (gateway.post("/v1/responses", &body).await, gateway.post(PATH, &body).await);
        assert!(created.status >= 400, "{body} makes a response");
        assert_eq!((counted.status, &counted.body), (created.status, &created.body), "{body}");
    }
    assert!(upstream.requests().is_empty());
    // What truncation makes fit is counted.
    let turns = json!([{"role": "user", "content": "long ".repeat(1000)}, {"role": "user", "content": "Hi"}]);
    assert!(estimate(&gateway, &with(ask(turns), json!({"truncation": "auto"}))).await < 20);
}

const KEYS: &str = "
auth:
  keys:
    alice: {key: key-alice}
    bob: {key: key-bob}
";

#[tokio::test]
async fn the_conversations_of_others_cannot_be_measured() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with(antwort_test_support::configured::settings(&upstream, &[], KEYS)).spawn().await;
    let post = async |key: &str, path: &str, body: &Value| -> HttpAnswer {
        let request = gateway.http.post(format!("{}{path}", gateway.base)).json_body(body);
        gateway.send(request.header("authorization", format!("Bearer {key}"))).await
    };
    let first = post("key-alice", "/v1/responses", &ask("Hi")).await.body;
    let chained = with(ask("Go on"), json!({"previous_response_id": first["id"]}));
    let referred = ask(json!([{"type": "item_reference", "id": first["output"][0]["id"]}]));
    for (body, code) in [(&chained, "previous_response_not_found"), (&referred, "item_not_found")] {
        assert_eq!(post("key-alice", PATH, body).await.status, 200);
        let foreign = post("key-bob", PATH, body).await;
        assert_eq!((foreign.status, foreign.body["error"]["code"].as_str()), (400, Some(code)));
    }
}

/// A mebibyte took the thread of all other requests for a while.
#[tokio::test]
async fn a_long_prompt_is_counted_on_a_thread_of_its_own() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let finished = async || {
        let request = gateway.http.get(format!("{}/metrics", gateway.base));
        let text = request.send().await.unwrap().text().await.unwrap();
        let line = text.lines().find(|line| line.contains("blocking") && line.contains("finished"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    let before = finished().await;
    let tokens = estimate(&gateway, &ask("The quick brown fox. ".repeat(50_000))).await;
    assert!((240_000..=310_000).contains(&tokens), "{tokens}");
    // Reading the body, and counting.
    assert!(finished().await >= before + 2.0);
}
