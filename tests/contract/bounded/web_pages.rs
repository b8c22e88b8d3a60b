//! Web pages: what browsers send for pages that were not asked in is refused, with keys and without.

use antwort::config::Settings;
use antwort_test_support::openapi::operations;
use serde_json::{Value, json};

use antwort_test_support::configured::settings;
use antwort_test_support::gateway::{Builder, Gateway, HttpAnswer, JsonBody};
use antwort_test_support::raw::exchange;
use antwort_test_support::upstream::Upstream;

const PAGE: &str = "https://app.example.com";

fn ask() -> Value {
    json!({"model": "test-model", "input": "Hi"})
}

fn code(answer: &HttpAnswer) -> (u16, &str) {
    (answer.status, answer.body["error"]["code"].as_str().unwrap_or("none"))
}

/// A gateway that asks for `the-key`.
fn keyed(upstream: &Upstream) -> Builder {
    Gateway::with(settings(upstream, &[("ANTWORT_API_KEY", "the-key")], ""))
}

fn allow_page(settings: &mut Settings) {
    settings.server.cors.allowed_origins = vec![PAGE.into()];
}

#[tokio::test]
async fn a_page_of_another_origin_gets_no_route_with_keys_or_without() {
    let upstream = Upstream::spawn().await;
    let open = Gateway::with_upstream(&upstream).set(allow_page).spawn().await;
    let with_key = keyed(&upstream).set(allow_page).spawn().await;
    let with_key = with_key.with_header("authorization", "Bearer the-key");
    let documented = operations().map(|operation| (operation.method, operation.path.to_owned()));
    let routes: Vec<_> = documented.chain([("GET".to_owned(), "/nowhere".to_owned())]).collect();
    for gateway in [&open, &with_key] {
        for (method, path) in &routes {
            for (name, value) in [
                ("origin", "https://evil.example.com"),
                ("origin", "null"),
                ("origin", "http://127.0.0.1"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-site", "same-site"),
            ] {
                let request =
                    gateway.http.request(method.parse().unwrap(), format!("{}{path}", gateway.base));
                let answer = gateway.send(request.header(name, value)).await;
                assert_eq!(code(&answer), (403, "origin_not_allowed"), "{method} {path} {name}: {value}");
                let message = answer.body["error"]["message"].as_str().unwrap();
                assert!(message.contains("server.cors.allowed_origins"), "{message}");
                assert!(!answer.headers.contains_key("access-control-allow-origin"));
            }
        }
    }
    let metrics = open.get("/metrics").await.body;
    assert!(metrics.as_str().unwrap().contains("antwort_rejected_total{reason=\"origin_not_allowed\"}"));
    assert!(upstream.requests().is_empty());
}

/// What browsers send without asking first: a body whose type nobody said, from wherever.
#[tokio::test]
async fn a_page_cannot_make_a_keyless_gateway_run_tools_or_a_model() {
    let upstream = Upstream::spawn().await;
    let (builder, seen) = Gateway::with_upstream(&upstream).probe();
    let gateway = builder.spawn().await;
    for (path, body) in [
        ("/v1/tools/echo/execute", json!({"arguments": {"a": 1}}).to_string()),
        ("/v1/responses", ask().to_string()),
    ] {
        // Browsers that say nothing of the page: the type alone decides.
        let request = gateway.http.post(format!("{}{path}", gateway.base)).body(body.clone());
        assert_eq!(code(&gateway.send(request).await), (415, "unsupported_media_type"), "{path}");
        for content_type in
            ["", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data"]
        {
            let request = gateway.http.post(format!("{}{path}", gateway.base)).body(body.clone());
            let answer = gateway.send(request.header("content-type", content_type)).await;
            assert_eq!(code(&answer), (415, "unsupported_media_type"), "{path} {content_type:?}");
        }
        let request = gateway.http.post(format!("{}{path}", gateway.base)).body(body);
        let answer = gateway.send(request.header("origin", "https://evil.example.com")).await;
        assert_eq!(code(&answer), (403, "origin_not_allowed"), "{path}");
    }
    let refresh = gateway.http.post(format!("{}/v1/tools/refresh", gateway.base));
    let answer = gateway.send(refresh.header("sec-fetch-site", "cross-site")).await;
    assert_eq!(code(&answer), (403, "origin_not_allowed"), "it reads no body");
    assert_eq!((seen.count("echo"), upstream.requests().len()), (0, 0));
}

#[tokio::test]
async fn a_request_without_a_body_needs_no_content_type() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let refreshed = gateway.send(gateway.http.post(format!("{}/v1/tools/refresh", gateway.base))).await;
    assert_eq!(refreshed.status, 200);
    let empty = gateway.send(gateway.http.post(format!("{}/v1/responses", gateway.base))).await;
    assert_eq!(code(&empty), (400, "invalid_json"), "what is missing is the body");
}

#[tokio::test]
async fn the_gateways_own_pages_and_the_configured_ones_are_served() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).set(allow_page).spawn().await;
    let own = gateway.base.clone();
    let headers: [&[(&str, &str)]; 5] = [
        &[("origin", &own), ("sec-fetch-site", "same-origin")],
        &[("origin", &own)],
        &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
        &[("origin", PAGE), ("sec-fetch-site", "cross-site")],
        &[("origin", PAGE)],
    ];
    for headers in headers {
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&ask());
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        assert_eq!(gateway.send(request).await.status, 200, "{headers:?}");
    }
}

#[tokio::test]
async fn over_http2_the_own_host_is_the_authority() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let get = |origin: &str| http2.get(format!("{}/v1/models", gateway.base)).header("origin", origin);
    let answer = get(&gateway.base).send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (reqwest::Version::HTTP_2, 200));
    assert_eq!(gateway.send(get("http://evil.example.com")).await.status, 403);
    let port = gateway.base.rsplit(':').next().unwrap();
    let named = |name: &str| {
        let address = gateway.base.trim_start_matches("http://").parse().unwrap();
        let http2 =
            reqwest::Client::builder().http2_prior_knowledge().resolve(name, address).build().unwrap();
        http2.get(format!("http://{name}:{port}/v1/models"))
    };
    assert_eq!(gateway.send(named("localhost")).await.status, 200);
    assert_eq!(code(&gateway.send(named("rebind.evil.example")).await), (403, "host_not_allowed"));
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn without_keys_a_name_that_was_not_allowed_reads_nothing() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for path in ["/v1/responses", "/v1/models", "/v1/mcp/servers", "/metrics", "/openapi.yaml", "/nowhere"] {
        for host in ["rebind.evil.example", "antwort:8080", "127.0.0.1.evil.example", "127.1"] {
            let (status, body) = exchange(&gateway, &get(path, host)).await;
            assert_eq!((status, &body["error"]["code"]), (403, &json!("host_not_allowed")), "{path} {host}");
            assert!(body["error"]["message"].as_str().unwrap().contains("server.allowed_hosts"), "{body}");
        }
    }
    for (path, host) in [
        ("/healthz", "antwort"),
        ("/readyz", "antwort:8080"),
        ("/v1/models", "localhost:8080"),
        ("/v1/models", "LOCALHOST."),
        ("/v1/models", "192.168.3.4"),
        ("/v1/models", "[::1]:8080"),
    ] {
        assert_eq!(exchange(&gateway, &get(path, host)).await.0, 200, "{path} {host}");
    }
    // The page's own idea of where it is does not help it.
    let rebound = "GET /v1/models HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example\r\n\
                   sec-fetch-site: same-origin\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(&gateway, rebound).await.0, 403);
    let old = "GET /v1/models HTTP/1.0\r\n\r\n";
    assert_eq!(exchange(&gateway, old).await.0, 403, "who says no host may mean any");
}

#[tokio::test]
async fn names_that_were_allowed_are_served_and_with_keys_any() {
    let upstream = Upstream::spawn().await;
    let allow = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Gateway::with_upstream(&upstream).set(|settings| settings.server.allowed_hosts = names)
    };
    let named = allow(&["antwort", "gw.internal"]).spawn().await;
    for (host, status) in [("antwort:8080", 200), ("GW.internal.", 200), ("other", 403), ("x.antwort", 403)] {
        assert_eq!(exchange(&named, &get("/v1/models", host)).await.0, status, "{host}");
    }
    let any = allow(&["*"]).spawn().await;
    assert_eq!(exchange(&any, &get("/v1/models", "whatever")).await.0, 200);
    let with_key = keyed(&upstream).spawn().await;
    let (status, body) = exchange(&with_key, &get("/v1/models", "whatever")).await;
    assert_eq!((status, &body["error"]["code"]), (401, &json!("invalid_api_key")), "the key decides");
}

#[tokio::test]
async fn a_request_that_says_twice_or_not_at_all_where_it_goes_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = keyed(&upstream).spawn().await;
    let end = "connection: close\r\n\r\n";
    let key = "authorization: Bearer the-key\r\n";
    for (head, code) in [
        (format!("GET /v1/models HTTP/1.1\r\n{key}"), "invalid_host"),
        (format!("GET /v1/models HTTP/1.1\r\nhost:\r\n{key}"), "invalid_host"),
        (format!("GET /v1/models HTTP/1.1\r\nhost: a b\r\n{key}"), "invalid_host"),
        (format!("GET /v1/models HTTP/1.1\r\nhost: u:p@a\r\n{key}"), "invalid_host"),
        (format!("GET /healthz HTTP/1.1\r\n{key}"), "invalid_host"),
        (format!("GET /v1/models HTTP/1.1\r\nhost: a\r\nhost: a\r\n{key}"), "duplicate_header"),
        (format!("GET /v1/models HTTP/1.1\r\nhost: a\r\nhost: b\r\n{key}"), "duplicate_header"),
        (format!("GET /v1/models HTTP/1.1\r\nhost: a\r\n{key}{key}"), "duplicate_header"),
        (
            format!("GET /v1/models HTTP/1.1\r\nhost: a\r\n{key}authorization: Bearer x\r\n"),
            "duplicate_header",
        ),
        (
            "GET /v1/models HTTP/1.1\r\nhost: a\r\napi-key: the-key\r\napi-key: x\r\n".to_owned(),
            "duplicate_header",
        ),
    ] {
        let (status, body) = exchange(&gateway, &format!("{head}{end}")).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!(code)), "{head}");
    }
    for head in [
        format!("GET /v1/models HTTP/1.1\r\nhost: a\r\n{key}"),
        format!("GET http://a/v1/models HTTP/1.1\r\nhost: a\r\n{key}"),
        format!("GET /v1/models HTTP/1.0\r\n{key}"),
    ] {
        assert_eq!(exchange(&gateway, &format!("{head}{end}")).await.0, 200, "{head}");
    }
}

/// A target in absolute form says which host is meant, whatever `Host` says.
#[tokio::test]
async fn the_host_of_an_absolute_target_counts() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (target, host, status) in
        [("http://evil.example", "localhost", 403), ("http://localhost", "evil.example", 200)]
    {
        let request = format!("GET {target}/v1/models HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        assert_eq!(exchange(&gateway, &request).await.0, status, "{target} {host}");
    }
}
