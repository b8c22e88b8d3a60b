//! What a provider refuses: which status and code a client gets for it, and what it is not told.

use antwort::config::ProviderSettings;
use secrecy::SecretString;
use serde_json::json;

use antwort_test_support::gateway::{Gateway, HttpAnswer};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

/// Looks like no key of any known kind, so that only knowing it keeps it secret.
const KEY: &str = "hunter2-correct-horse";

fn configured(provider: &mut ProviderSettings) {
    provider.api_key = Some(SecretString::from(KEY));
    provider.retries.max = 0;
}

fn json_error(status: u16, body: serde_json::Value) -> Reply {
    Reply::Status(status, vec![("content-type", "application/json")], body.to_string())
}

/// Words that no client should read.
fn indiscreet(upstream: &Upstream) -> String {
    format!("Key {KEY} ('{KEY}') was refused by {}/chat/completions", upstream.url)
}

fn assert_discreet(upstream: &Upstream, text: &str) {
    let host = upstream.url.trim_start_matches("http://").trim_end_matches("/v1");
    assert!(!text.contains(KEY), "the key leaked: {text}");
    assert!(!text.contains(host) && !text.contains("http://"), "the provider's address leaked: {text}");
}

async fn ask(gateway: &Gateway, stream: bool) -> HttpAnswer {
    gateway.post("/v1/responses", &json!({"model": "test-model", "input": "x", "stream": stream})).await
}

#[tokio::test]
async fn every_status_of_a_provider_has_its_counterpart_and_keeps_secrets() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).provider(configured).spawn().await;
    for (theirs, ours, kind, code) in [
        (400, 400, "invalid_request_error", "their_code"),
        (401, 502, "server_error", "upstream_auth_error"),
        (402, 502, "server_error", "upstream_billing_error"),
        (403, 502, "server_error", "upstream_auth_error"),
        (404, 404, "invalid_request_error", "model_not_found"),
        (407, 502, "server_error", "upstream_auth_error"),
        (408, 504, "server_error", "upstream_timeout"),
        (409, 502, "server_error", "upstream_error"),
        (413, 413, "invalid_request_error", "their_code"),
        (418, 502, "server_error", "upstream_error"),
        (422, 422, "invalid_request_error", "their_code"),
        (429, 429, "rate_limit_error", "their_code"),
        (500, 502, "server_error", "upstream_error"),
        (501, 502, "server_error", "upstream_error"),
        (502, 502, "server_error", "upstream_error"),
        (503, 503, "server_error", "upstream_unavailable"),
        (504, 504, "server_error", "upstream_timeout"),
        (529, 503, "server_error", "upstream_unavailable"),
    ] {
        for stream in [false, true] {
            let body =
                json!({"error": {"message": indiscreet(&upstream), "type": "t", "code": "their_code"}});
            upstream.reply(json_error(theirs, body));
            let answer = ask(&gateway, stream).await;
            let error = &answer.body["error"];
            let got = (answer.status, error["type"].as_str().unwrap(), error["code"].as_str().unwrap());
            assert_eq!(got, (ours, kind, code), "{theirs}: {error}");
            assert_discreet(&upstream, &answer.body.to_string());
        }
    }
    assert_eq!(
        upstream.requests()[0].headers["authorization"],
        format!("Bearer {KEY}"),
        "the key itself is right"
    );
}

#[tokio::test]
async fn a_providers_words_are_kept_where_they_help() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).provider(configured).spawn().await;
    for body in [
        json!({"error": {"message": "temperature must be above 0"}}),
        json!({"object": "error", "message": "temperature must be above 0", "code": 400}),
        json!({"detail": "temperature must be above 0"}),
        json!({"error": "temperature must be above 0"}),
    ] {
        upstream.reply(json_error(400, body));
        let answer = ask(&gateway, true).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (400, &json!("upstream_rejected_request"))
        );
        assert_eq!(answer.body["error"]["message"], "temperature must be above 0");
    }
}

#[tokio::test]
async fn pages_for_browsers_and_redirects_are_told_in_our_words() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).provider(configured).spawn().await;
    let page = format!("<html><body><h1>Bad Gateway</h1>{}</body></html>", indiscreet(&upstream));
    for (reply, status, code) in [
        (Reply::Status(502, vec![("content-type", "text/html")], page.clone()), 502, "upstream_error"),
        (Reply::Status(503, vec![("content-type", "text/html")], page.clone()), 503, "upstream_unavailable"),
        (Reply::Status(500, vec![], String::new()), 502, "upstream_error"),
        (
            Reply::Status(302, vec![("location", "https://example.com/login")], page.clone()),
            502,
            "upstream_malformed",
        ),
        (
            Reply::Status(307, vec![("location", "/v2/chat/completions")], String::new()),
            502,
            "upstream_malformed",
        ),
        (Reply::Status(204, vec![], String::new()), 502, "upstream_malformed"),
        (Reply::Status(200, vec![("content-type", "text/html")], page.clone()), 502, "upstream_malformed"),
    ] {
        for stream in [false, true] {
            upstream.reply(reply.clone());
            let answer = ask(&gateway, stream).await;
            assert_eq!((answer.status, &answer.body["error"]["code"]), (status, &json!(code)), "{reply:?}");
            let message = answer.body["error"]["message"].as_str().unwrap();
            assert!(!message.contains("<h1>") && message.len() > 20, "{message}");
            let is_redirect = matches!(reply, Reply::Status(302 | 307, ..));
            let told = answer.headers.get("x-should-retry").is_some_and(|told| told == "false");
            assert_eq!(told, is_redirect, "{reply:?}");
            assert_discreet(&upstream, message);
        }
    }
    assert_eq!(upstream.requests().len(), 14, "no redirect is followed");
}

#[tokio::test]
async fn retry_after_is_handed_on_and_an_empty_account_is_not_worth_a_retry() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).provider(configured).spawn().await;
    for (status, told, expected) in
        [(429, "7", "7"), (429, "0.3", "1"), (429, "223920", "223920"), (503, "30", "30")]
    {
        for stream in [false, true] {
            upstream.reply(Reply::Status(status, vec![("retry-after", told)], "slow down".into()));
            let answer = ask(&gateway, stream).await;
            assert_eq!(
                (answer.status, &answer.headers["retry-after"]),
                (status, &expected.parse().unwrap()),
                "{told}"
            );
        }
    }
    upstream.reply(json_error(429, json!({"error": {"message": "no money", "code": "insufficient_quota"}})));
    let answer = ask(&gateway, false).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (429, &json!("insufficient_quota")));
    assert_eq!(answer.headers["x-should-retry"], "false");
}

#[tokio::test]
async fn errors_in_fastapis_form_are_told_in_its_words() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).provider(configured).spawn().await;
    let listed = json!([
        {"type": "missing", "loc": ["body", "messages", 0, "content"], "msg": "Field required"},
        {"type": "int_parsing", "loc": ["body", "max_tokens"], "msg": "Input should be a valid integer"},
    ]);
    for (status, detail, code, expected) in [
        (400, json!("Only one image is allowed."), "upstream_rejected_request", "Only one image is allowed."),
        (
            422,
            listed,
            "upstream_rejected_request",
            "messages[0].content: Field required; max_tokens: Input should be a valid integer",
        ),
        (
            400,
            json!("This model's maximum context length is 4096 tokens."),
            "context_length_exceeded",
            "This model's",
        ),
        (503, json!({"message": "The model is loading."}), "upstream_unavailable", "The model is loading."),
    ] {
        upstream.reply(json_error(status, json!({"detail": detail})));
        let answer = ask(&gateway, false).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (status, &json!(code)));
        let message = answer.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn errors_inside_an_answer_of_status_200_keep_secrets_too() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).provider(configured).spawn().await;
    let error = json!({"error": {"message": indiscreet(&upstream), "code": 500}});
    upstream.reply(Reply::Whole(error.clone()));
    let answer = ask(&gateway, false).await;
    assert_eq!(answer.status, 502);
    assert_discreet(&upstream, &answer.body.to_string());
    upstream.reply(Reply::Stream(vec![Step::Chunk(error.clone())]));
    let answer = ask(&gateway, true).await;
    assert_eq!(answer.status, 502);
    assert_discreet(&upstream, &answer.body.to_string());
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Chunk(error)]));
    let streamed = gateway.stream(json!({"model": "test-model", "input": "x"})).await;
    assert_eq!(streamed.response["status"], "failed");
    assert_discreet(&upstream, &json!(streamed.events).to_string());
}
