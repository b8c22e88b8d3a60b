//! URLs and methods that are not served, and the names of requests.

use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, HttpAnswer};
use antwort_test_support::upstream::Upstream;

async fn ask(gateway: &Gateway, method: &str, path: &str) -> HttpAnswer {
    let method = method.parse().unwrap();
    gateway.send(gateway.http.request(method, format!("{}{path}", gateway.base))).await
}

#[tokio::test]
async fn urls_that_are_not_served_are_404_in_the_usual_form() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v2/responses"),
        ("POST", "/v1/response"),
        ("POST", "/v1/responses/resp_1/compact"),
        ("POST", "/v1/audio/speech"),
        ("GET", "/v1//responses"),
        ("GET", "/v1/responses/resp_1/input_items/x"),
    ] {
        let answer = ask(&gateway, method, path).await;
        let error = &answer.body["error"];
        assert_eq!((answer.status, &error["code"]), (404, &json!("unknown_url")), "{method} {path}");
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &Value::Null));
        assert!(error["message"].as_str().unwrap().contains(path), "{error}");
    }
}

#[tokio::test]
async fn methods_that_a_url_does_not_have_are_405_and_say_which_it_has() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (method, path, allowed) in [
        ("PUT", "/v1/responses", "POST"),
        ("DELETE", "/v1/responses", "POST"),
        ("PATCH", "/v1/responses/resp_1", "DELETE"),
        ("POST", "/v1/responses/resp_1", "DELETE"),
        ("POST", "/v1/models", "GET"),
        ("GET", "/v1/chat/completions", "POST"),
        ("GET", "/v1/embeddings", "POST"),
        ("POST", "/healthz", "GET"),
        ("DELETE", "/metrics", "GET"),
        ("BREW", "/v1/responses", "POST"),
    ] {
        let answer = ask(&gateway, method, path).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (405, &json!("method_not_allowed")),
            "{method} {path}"
        );
        let allow = answer.headers.get("allow").expect("Allow").to_str().unwrap();
        assert!(allow.split(',').any(|method| method.trim() == allowed), "{method} {path}: {allow}");
    }
}

#[tokio::test]
async fn ids_that_nobody_minted_are_404() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let long = format!("/v1/responses/{}", "x".repeat(4000));
    for (method, path) in [
        ("GET", "/v1/responses/resp_nowhere"),
        ("GET", "/v1/responses/%00"),
        ("GET", "/v1/responses/'%20OR%201=1"),
        ("GET", long.as_str()),
        ("DELETE", "/v1/responses/resp_nowhere"),
        ("GET", "/v1/responses/resp_nowhere/input_items"),
    ] {
        let answer = ask(&gateway, method, path).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (404, &json!("not_found")),
            "{method} {path}"
        );
        assert!(answer.body.to_string().len() < 1000, "an id is not repeated at length");
    }
    for bad in ["/v1/responses/%ff", "/v1/models/%ff"] {
        let answer = ask(&gateway, "GET", bad).await;
        assert!((400..500).contains(&answer.status), "{bad}: {}", answer.status);
    }
    for query in ["starting_after=3", "starting_after=3&stream=false", "starting_after=x"] {
        let answer = ask(&gateway, "GET", &format!("/v1/responses/resp_1?{query}")).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["param"]),
            (400, &json!("starting_after")),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_clients_request_id_is_kept_and_sent_upstream() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [false, true] {
        let body = json!({"model": "test-model", "input": "x", "stream": stream}).to_string();
        let answer = gateway.post_bytes("/v1/responses", body, &[("x-request-id", "my-id_7")]).await;
        assert_eq!((answer.status, &answer.headers["x-request-id"]), (200, &"my-id_7".parse().unwrap()));
        let sent = upstream.requests().last().unwrap().headers["x-request-id"].clone();
        assert_eq!(sent, "my-id_7");
    }
    let answer = ask(&gateway, "GET", "/nowhere").await;
    assert!(
        answer.headers["x-request-id"].to_str().unwrap().starts_with("req_"),
        "one is made where none was sent"
    );
}

#[tokio::test]
async fn hostile_request_ids_are_replaced() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let long = "x".repeat(129);
    let body = json!({"model": "test-model", "input": "x"}).to_string();
    for hostile in ["", "two words", "tab\tbed", long.as_str(), "naïve"] {
        let answer = gateway.post_bytes("/v1/responses", body.clone(), &[("x-request-id", hostile)]).await;
        let ours = answer.headers["x-request-id"].to_str().unwrap().to_owned();
        assert!(ours.starts_with("req_") && ours.len() < 64, "{hostile:?}: {ours}");
        assert_eq!(upstream.requests().last().unwrap().headers["x-request-id"], ours.as_str(), "{hostile:?}");
    }
}
