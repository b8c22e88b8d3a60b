//! Web pages: shut out by default, let in by name.

use antwort::config::Settings;
use reqwest::header::HeaderMap;

use super::ask;
use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::upstream::Upstream;

const PAGE: &str = "https://app.example.com";

async fn preflight(gateway: &Gateway, origin: &str) -> (u16, HeaderMap) {
    let request = gateway.http.request("OPTIONS".parse().unwrap(), format!("{}/v1/responses", gateway.base));
    let request = request
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,x-stainless-lang");
    let answer = gateway.send(request).await;
    (answer.status, answer.headers)
}

fn allowed(headers: &HeaderMap, what: &str) -> String {
    headers.get(what).map(|value| value.to_str().unwrap().to_lowercase()).unwrap_or_default()
}

async fn gateway(upstream: &Upstream, origins: &[&str]) -> Gateway {
    let origins: Vec<String> = origins.iter().map(|origin| (*origin).to_owned()).collect();
    let set = |settings: &mut Settings| settings.server.cors.allowed_origins = origins;
    Gateway::with_upstream(upstream).set(set).spawn().await
}

#[tokio::test]
async fn no_page_may_call_unless_it_was_configured() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[]).await;
    let (status, headers) = preflight(&gateway, PAGE).await;
    assert_eq!(status, 403);
    assert!(!headers.keys().any(|name| name.as_str().starts_with("access-control")));
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&ask());
    let answer = gateway.send(request.header("origin", PAGE)).await;
    assert_eq!(answer.body["error"]["code"], "origin_not_allowed");
    assert!(answer.status == 403 && answer.headers.get("access-control-allow-origin").is_none());
}

#[tokio::test]
async fn a_configured_page_may_call_with_its_key_and_others_may_not() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[PAGE, "http://localhost:3000"]).await;
    let (status, headers) = preflight(&gateway, PAGE).await;
    assert!((200..300).contains(&status));
    assert_eq!(allowed(&headers, "access-control-allow-origin"), PAGE);
    let methods = allowed(&headers, "access-control-allow-methods");
    assert!(["get", "post", "delete"].iter().all(|method| methods.contains(method)), "{methods}");
    // The wildcard does not cover `Authorization`: https://fetch.spec.whatwg.org/#cors-non-wildcard-request-header-name
    let names = allowed(&headers, "access-control-allow-headers");
    assert!(
        ["authorization", "content-type", "x-stainless-lang"].iter().all(|name| names.contains(name)),
        "{names}"
    );

    for stream in [false, true] {
        let mut body = ask();
        body["stream"] = stream.into();
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
        let answer = gateway.send(request.header("origin", PAGE)).await;
        assert_eq!(allowed(&answer.headers, "access-control-allow-origin"), PAGE);
        let exposed = allowed(&answer.headers, "access-control-expose-headers");
        assert!(exposed.contains("x-request-id") && exposed.contains("retry-after"), "{exposed}");
    }
    let (status, headers) = preflight(&gateway, "https://evil.example.com").await;
    assert_eq!(status, 403);
    assert_eq!(allowed(&headers, "access-control-allow-origin"), "");
}

#[tokio::test]
async fn any_page_may_call_where_that_was_configured() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &["*"]).await;
    let (_, headers) = preflight(&gateway, "https://anywhere.example.com").await;
    assert_eq!(allowed(&headers, "access-control-allow-origin"), "*");
    let request = gateway.http.get(format!("{}/nowhere", gateway.base)).header("origin", PAGE);
    let answer = gateway.send(request).await;
    assert_eq!((answer.status, allowed(&answer.headers, "access-control-allow-origin")), (404, "*".into()));
}
