//! A prompt that is longer than the model's context window, in the words of many servers: what the client is told, and what
//! `truncation` and compaction make of it.

use antwort::config::ErrorPattern;
use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

const LLAMA: &str =
    r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#;
const XAI: &str = r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#;
const GEMINI: &str = r#"[{"error":{"code":400,"message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#;

fn refusal(status: u16, body: &str) -> Reply {
    Reply::Status(status, vec![("content-type", "application/json")], body.to_owned())
}

/// A refusal inside a stream.
fn streamed(data: &str) -> Reply {
    Reply::Stream(vec![Step::Raw(format!("data: {data}\n\n").into_bytes())])
}

/// A conversation of this many turns.
fn conversation(turns: usize) -> Vec<Value> {
    let turn = |n| {
        [
            json!({"role": "user", "content": format!("question {n} {}", "word ".repeat(50))}),
            json!({"role": "assistant", "content": format!("answer {n} {}", "word ".repeat(50))}),
        ]
    };
    let mut items: Vec<Value> = (0..turns).flat_map(turn).collect();
    items.push(json!({"role": "user", "content": "last"}));
    items
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_told_as_such_whatever_the_servers_words() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let replies = [
        refusal(500, LLAMA),
        refusal(400, XAI),
        refusal(400, GEMINI),
        streamed(LLAMA),
        streamed(GEMINI),
        streamed("ValueError: prompt is too long: 9 tokens > 8 maximum"),
    ];
    for reply in replies {
        for stream in [false, true] {
            upstream.reply(reply.clone());
            let body = json!({"model": "test-model", "input": "x", "stream": stream});
            let answer = gateway.post("/v1/responses", &body).await;
            let told = (answer.status, &answer.body["error"]["code"]);
            assert_eq!(told, (400, &json!("context_length_exceeded")), "{reply:?}: {}", answer.body);
            assert_eq!(answer.headers["x-should-retry"], "false", "{reply:?}");
        }
    }
    assert_eq!(upstream.requests().len(), 12, "nothing is tried again");
    // After the first words, it is a failed response.
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "Hel"})),
        Step::Raw(format!("data: {LLAMA}\n\n").into_bytes()),
    ]));
    let response = gateway.stream(json!({"model": "test-model", "input": "x"})).await.response;
    assert_eq!((&response["status"], text_of(&response)), (&json!("failed"), "Hel".into()));
    assert_eq!(response["error"]["code"], "context_length_exceeded");
    upstream.reply(refusal(500, LLAMA));
    let queued = gateway.create(json!({"model": "test-model", "input": "x", "background": true})).await;
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    assert!(eventually(async || gateway.get(&path).await.body["status"] == "failed").await);
    assert_eq!(gateway.get(&path).await.body["error"]["code"], "context_length_exceeded");
}

#[tokio::test]
async fn a_rate_limit_and_a_refused_length_of_the_answer_are_no_overflow() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with_upstream(&upstream).provider(|provider| provider.retries.max = 0).spawn().await;
    let rate = r#"{"error":{"message":"Request too large: tokens per minute (TPM): Limit 10, Requested 20. Please reduce the length of the messages.","code":"rate_limit_exceeded"}}"#;
    let answer = r#"{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is 4096 tokens and your request has 20 input tokens.","type":"BadRequestError","code":400}}"#;
    let body = json!({"model": "test-model", "input": "x"});
    upstream.reply(refusal(429, rate)).reply(refusal(413, rate)).reply(refusal(400, answer));
    gateway.refuse(body.clone(), 429, "rate_limit_exceeded").await;
    gateway.refuse(body.clone(), 413, "rate_limit_exceeded").await;
    gateway.refuse(body, 400, "BadRequestError").await;
}

#[tokio::test]
async fn the_configuration_adds_patterns() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| {
            provider.errors.context_overflow = vec![ErrorPattern::new(r"buffer of \d+ pages").unwrap()];
        })
        .spawn()
        .await;
    let body = json!({"model": "test-model", "input": "x"});
    upstream.reply(refusal(400, r#"{"error":{"message":"Exhausted BUFFER of 12 pages"}}"#));
    gateway.refuse(body.clone(), 400, "context_length_exceeded").await;
    upstream.reply(refusal(400, r#"{"error":{"message":"Exhausted"}}"#));
    gateway.refuse(body, 400, "upstream_rejected_request").await;
}

#[tokio::test]
async fn truncation_shortens_a_refused_conversation_until_it_fits() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut body = json!({"model": "test-model", "input": conversation(16)});
    upstream.reply(refusal(500, LLAMA));
    gateway.refuse(body.clone(), 400, "context_length_exceeded").await;
    body["truncation"] = json!("auto");
    upstream.reply(refusal(500, LLAMA)).reply(refusal(400, XAI)).reply(streamed(LLAMA)).text("Hello");
    let before = upstream.requests().len();
    let response = gateway.create(body.clone()).await;
    assert_eq!(text_of(&response), "Hello");
    let lengths: Vec<usize> = upstream.requests()[before..]
        .iter()
        .map(|request| request.body["messages"].as_array().unwrap().len())
        .collect();
    assert_eq!(lengths.len(), 4);
    assert!(lengths.windows(2).all(|pair| pair[1] * 3 < pair[0] * 2), "{lengths:?}");
    // It does not go on for ever.
    let before = upstream.requests().len();
    for _ in 0..10 {
        upstream.reply(refusal(500, LLAMA));
    }
    gateway.refuse(body, 400, "context_length_exceeded").await;
    assert_eq!(upstream.requests().len() - before, 5);
}

#[tokio::test]
async fn a_refused_conversation_is_compacted_if_the_request_wants_compaction() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let body = json!({"model": "test-model", "input": conversation(16),
        "context_management": [{"type": "compaction", "compact_threshold": 4000}]});
    for _ in 0..2 {
        upstream.reply(refusal(500, LLAMA)).text("A summary of it all.").text("Hello");
    }
    for response in gateway.both(body).await {
        let kinds: Vec<&Value> =
            response["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["compaction", "message"], "{response:#}");
        assert_eq!(text_of(&response), "Hello");
    }
    let lengths: Vec<usize> =
        upstream.requests().iter().map(|request| request.body["messages"].to_string().len()).collect();
    assert!(lengths[1] < lengths[0] && lengths[2] < lengths[0], "{lengths:?}");
}
