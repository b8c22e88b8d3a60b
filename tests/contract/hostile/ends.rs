//! What was used counts, however the answer ends; and what is waited for when the model has finished.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ask;
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

/// What came before has arrived when the connection breaks.
fn pause() -> Step {
    Step::Wait(Duration::from_millis(50))
}

fn text(text: &str) -> Step {
    chunk(json!({"content": text}))
}

fn raw(text: &str) -> Step {
    Step::Raw(text.as_bytes().to_vec())
}

#[tokio::test]
async fn what_was_used_is_in_a_response_that_failed_in_its_row_and_in_the_metrics() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| provider.timeouts.idle = Duration::from_millis(300))
        .spawn()
        .await;
    let error = json!({"error": {"message": "no memory", "code": 500}});
    let rows = [
        ("an error", vec![Step::Chunk(error)], "upstream_error"),
        ("a damaged frame", vec![raw("data: {\"choices\":[{\n\n")], "upstream_malformed"),
        ("an unknown finish reason", vec![finish("lost"), done()], "upstream_error"),
        ("silence", vec![Step::Hang], "upstream_idle_timeout"),
        ("a cut", vec![pause(), Step::Cut], "upstream_disconnected"),
    ];
    for (name, end, code) in &rows {
        let mut steps = vec![text("Hel"), usage(5, 3)];
        steps.extend(end.clone());
        upstream.reply(Reply::Stream(steps));
        let response = gateway.stream(ask()).await.response;
        assert_eq!(
            (&response["status"], &response["error"]["code"]),
            (&json!("failed"), &json!(code)),
            "{name}"
        );
        assert_eq!(response["usage"]["total_tokens"], 8, "{name}: {response}");
        let stored = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.body;
        assert_eq!(stored["usage"]["total_tokens"], 8, "{name}: {stored}");
        let trace = format!("/v1/responses/{}/trace", response["id"].as_str().unwrap());
        let trace = gateway.get(&trace).await.body;
        assert_eq!(trace["turns"][0]["usage"]["input_tokens"], 5, "{name}: {trace}");
    }
    // A whole answer that has content and no known end is a response, too.
    let used = json!({"prompt_tokens": 5, "completion_tokens": 3});
    let lost = json!({"choices": [{"message": {"content": "a"}, "finish_reason": "lost"}], "usage": used});
    upstream.reply(Reply::Whole(lost));
    let response = gateway.create(ask()).await;
    let found = (&response["status"], &response["error"]["code"], &response["usage"]["total_tokens"]);
    assert_eq!(found, (&json!("failed"), &json!("upstream_error"), &json!(8)), "{response}");
    // Where there is no response, it still was paid for.
    upstream.reply(Reply::Whole(json!({"error": {"message": "no memory", "code": 400}, "usage": used})));
    gateway.refuse(ask(), 400, "upstream_rejected_request").await;
    let metrics = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    let counted: f64 = metrics
        .lines()
        .filter(|line| {
            line.starts_with("gen_ai_client_token_usage_sum") && line.contains(r#"gen_ai_token_type="input""#)
        })
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(counted, 5.0 * (rows.len() as f64 + 2.0), "{metrics}");
}

#[tokio::test]
async fn what_a_failed_attempt_has_used_is_counted_with_the_next() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [true, false] {
        let failed = json!({"error": {"message": "busy", "code": 503}, "usage": {"prompt_tokens": 4}});
        upstream.reply(if stream { Reply::Stream(vec![Step::Chunk(failed)]) } else { Reply::Whole(failed) });
        upstream.text("Hello");
        let response =
            if stream { gateway.stream(ask()).await.response } else { gateway.create(ask()).await };
        assert_eq!((text_of(&response), &response["usage"]["total_tokens"]), ("Hello".into(), &json!(12)));
    }
}

#[tokio::test]
async fn a_background_run_that_fails_has_what_it_used() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), usage(5, 3), pause(), Step::Cut]));
    upstream.reply(Reply::Whole(json!({"choices": [{"message": {"content": "a"}, "finish_reason": "lost"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3}})));
    for stream in [true, false] {
        let body = json!({"model": "test-model", "input": "Hi", "background": true, "stream": stream});
        let id = if stream {
            gateway.stream(body).await.response["id"].clone()
        } else {
            gateway.create(body).await["id"].clone()
        };
        let path = format!("/v1/responses/{}", id.as_str().unwrap());
        let ended = async || gateway.get(&path).await.body;
        assert!(eventually(async || ended().await["status"] == "failed").await);
        assert_eq!(ended().await["usage"]["total_tokens"], 8, "stream: {stream}");
    }
}

#[tokio::test]
async fn a_finished_answer_is_completed_though_its_stream_does_not_end() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let comments = (0..40).flat_map(|_| [raw(": ping\n\n"), Step::Wait(Duration::from_millis(250))]);
    let trickle = (0..40).flat_map(|_| [text("."), Step::Wait(Duration::from_millis(250))]);
    let rows: [(&str, Vec<Step>, Value); 4] = [
        ("silence", vec![Step::Hang], Value::Null),
        ("comments", comments.collect(), Value::Null),
        ("text", trickle.collect(), Value::Null),
        ("usage, then silence", vec![usage(5, 3), Step::Hang], json!(8)),
    ];
    let mut runs = Vec::new();
    for (name, rest, tokens) in rows {
        let mut steps = vec![text("Hello"), finish("stop")];
        steps.extend(rest);
        upstream.reply(Reply::Stream(steps));
        let begun = Instant::now();
        let response = gateway.stream(ask()).await.response;
        assert_eq!(
            (&response["status"], text_of(&response).trim_end_matches('.')),
            (&json!("completed"), "Hello"),
            "{name}"
        );
        assert_eq!(response["usage"]["total_tokens"], tokens, "{name}: {response}");
        assert!(begun.elapsed() < Duration::from_secs(9), "{name}: {:?}", begun.elapsed());
        runs.push(begun.elapsed());
    }
    assert!(runs.iter().all(|took| *took > Duration::from_secs(4)), "{runs:?}");
}

#[tokio::test]
async fn an_error_as_plain_text_is_told_without_what_no_client_may_see() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let words = format!("data: Internal error: worker {}/chat died\n\n", upstream.url);
    for end in [vec![done()], vec![], vec![pause(), Step::Cut]] {
        let mut steps = vec![text("Hel"), raw(&words)];
        steps.extend(end);
        upstream.reply(Reply::Stream(steps));
        let response = gateway.stream(ask()).await.response;
        assert_eq!(response["status"], "failed");
        assert_eq!(response["error"]["message"], "Internal error: worker [address] died", "{response}");
    }
    upstream.reply(Reply::Stream(vec![raw(&words)]));
    let refused =
        gateway.post("/v1/responses", &json!({"model": "test-model", "input": "x", "stream": true})).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (502, &json!("upstream_error")));
}

#[tokio::test]
async fn words_of_no_importance_are_no_error() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| provider.timeouts.idle = Duration::from_millis(300))
        .spawn()
        .await;
    let rows = [
        (vec![done()], Value::Null),
        (vec![finish("stop"), raw("data: {\"usage\":{\n\n"), Step::Hang], Value::Null),
        (vec![Step::Hang], json!("upstream_idle_timeout")),
        (vec![pause(), Step::Cut], json!("upstream_disconnected")),
    ];
    for (end, code) in rows {
        let words = || raw("data: keep alive\n\n");
        let mut steps = vec![words(), text("Hel"), words()];
        steps.extend(end);
        upstream.reply(Reply::Stream(steps));
        let response = gateway.stream(ask()).await.response;
        assert_eq!((&response["error"]["code"], text_of(&response)), (&code, "Hel".into()), "{response}");
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_reach_its_server_is_asked_again() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for status in 520..=524 {
        upstream.reply(Reply::Status(status, vec![("retry-after", "0")], "<html>".into())).text("Hello");
        assert_eq!(text_of(&gateway.create(ask()).await), "Hello", "{status}");
    }
}
