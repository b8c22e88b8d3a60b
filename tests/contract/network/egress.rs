//! Tools and MCP servers behind a proxy: what the rules of `egress` still hold, and what only the proxy can.

use std::time::Duration;

use antwort_net::client::{HttpClientOptions, Proxies, ProxyError, ProxyUrl};
use antwort_net::egress::{Egress, EgressError, EgressOptions};
use axum::Router;
use axum::http::header::LOCATION;
use axum::routing::get;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::json;

use super::{port_of, settings, url_of};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::{Auth, McpServer};
use antwort_test_support::network::{Server, TestCa};
use antwort_test_support::upstream::{Reply, Upstream};

fn behind(proxy: &str, allow: &[&str], allowed_domains: Option<&[&str]>) -> Egress {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let options = EgressOptions {
        allow: owned(allow),
        allowed_domains: allowed_domains.map(owned),
        max_redirects: 3,
        max_response_bytes: 1 << 20,
        timeout: Duration::from_secs(20),
        http: HttpClientOptions {
            proxies: Proxies::All(ProxyUrl::parse(proxy).unwrap()),
            ..HttpClientOptions::default()
        },
    };
    Egress::new(&options).unwrap()
}

/// Says `there`, and redirects.
async fn pages() -> u16 {
    let to = |target: &'static str| get(move || async move { (StatusCode::FOUND, [(LOCATION, target)]) });
    let routes = Router::new()
        .route("/", get(|| async { "there" }))
        .route("/near", to("http://inside.test/"))
        .route("/metadata", to("http://169.254.169.254/latest"))
        .route("/elsewhere", to("http://elsewhere.test/"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move { axum::serve(listener, routes).await });
    port
}

#[tokio::test]
async fn no_proxy_is_asked_for_what_the_rules_refuse() {
    let port = pages().await;
    let proxy = Server::proxy(&[], &[("inside.test", port), ("elsewhere.test", port)]);
    let egress = behind(&url_of(&proxy), &[], None);
    for url in [
        "http://169.254.169.254/latest",
        "https://10.0.0.1/",
        "http://2130706433/",
        "http://localhost:1/",
        "http://[::ffff:127.0.0.1]/",
        "https://metadata.google.internal/",
        "http://user:password@inside.test/",
        "ftp://inside.test/",
    ] {
        let error = egress.get(url, HeaderMap::new()).await.unwrap_err();
        assert!(error.is_refusal(), "{url}: {error}");
    }
    let narrow = behind(&url_of(&proxy), &[], Some(&["inside.test"]));
    let error = narrow.get("http://elsewhere.test/", HeaderMap::new()).await.unwrap_err();
    assert!(matches!(error, EgressError::DomainNotAllowed { .. }), "{error}");
    assert!(proxy.said(0).await.is_empty(), "{:?}", proxy.said(0).await);

    // Nor does a redirect lead there.
    for (egress, path) in [(&egress, "metadata"), (&narrow, "elsewhere")] {
        let error = egress.get(&format!("http://inside.test/{path}"), HeaderMap::new()).await.unwrap_err();
        assert!(error.is_refusal(), "{path}: {error}");
    }
    let asked = |path| format!("GET http://inside.test/{path} forwarded");
    assert_eq!(proxy.said(2).await, [asked("metadata"), asked("elsewhere")]);
}

/// The price of a proxy, and why `docs/security.md` says to name domains or to have the proxy refuse: this name is one of
/// a private address.
#[tokio::test]
async fn what_a_name_resolves_to_is_the_proxys_to_judge() {
    let port = pages().await;
    let proxy = Server::proxy(&[], &[("inside.test", port)]);
    let egress = behind(&url_of(&proxy), &["127.0.0.1"], None);
    let answer = egress.get("http://inside.test/near", HeaderMap::new()).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &b"there"[..]));
    assert_eq!(proxy.said(2).await.len(), 2, "each hop goes through it");
    // What is on this machine and allowed is not asked of another one.
    let answer = egress.get(&format!("http://127.0.0.1:{port}/"), HeaderMap::new()).await.unwrap();
    assert_eq!((answer.status, proxy.said(2).await.len()), (200, 2));
}

#[tokio::test]
async fn a_proxy_that_fails_is_not_taken_for_the_server() {
    let proxy = Server::proxy(&["--credentials", "gateway:s3cret"], &[]);
    let egress = behind(&url_of(&proxy), &[], None);
    for url in ["http://inside.test/", "https://inside.test/"] {
        let error = egress.get(url, HeaderMap::new()).await.unwrap_err();
        let is_expected = matches!(&error, EgressError::Proxy { host, error: ProxyError::Credentials, .. } if host == "inside.test");
        assert!(is_expected, "{url}: {error}");
    }
    let known = url_of(&proxy).replace("//", "//gateway:s3cret@");
    for (proxy, expected) in [
        (known.as_str(), ProxyError::Refused),
        ("http://127.0.0.1:1", ProxyError::Unreachable),
        ("https://127.0.0.1:1", ProxyError::Unreachable),
    ] {
        let error = behind(proxy, &[], None).get("https://inside.test/", HeaderMap::new()).await.unwrap_err();
        assert!(matches!(error, EgressError::Proxy { error, .. } if error == expected), "{proxy}: {error}");
    }
}

#[tokio::test]
async fn mcp_servers_and_their_tokens_come_through_the_proxy() {
    let (upstream, server, authority) =
        (Upstream::spawn().await, McpServer::spawn().await, TestCa::generate());
    server.auth(Auth::Issued).oauth().client("gateway", "s3cret");
    let tls = |name| (name, Server::tls(port_of(&server.base), &authority.issue(name), None));
    let fronts = [tls("mcp.test"), tls("token.test")];
    let proxy = Server::proxy(&[], &fronts.each_ref().map(|(name, front)| (*name, front.port)));
    let yaml = format!(
        "providers: {{default: {{url: '{}'}}}}
egress: {{proxy: '{}', ca_file: {}}}
mcp: {{servers: {{guarded: {{url: 'https://mcp.test/mcp', trust: trusted, auth: {{type: client_credentials,
  client_id: gateway, client_secret: s3cret, token_url: 'https://token.test/token'}}}}}}}}",
        upstream.url,
        url_of(&proxy),
        authority.file().display()
    );
    let gateway = Gateway::with(settings(&yaml, &[])).spawn().await;
    upstream.reply(Reply::Calls(vec![("whoami", json!({}))])).text("Done.");
    let tools = json!([{"type": "mcp", "server_label": "guarded"}]);
    let response = gateway.create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
    let output = response["output"].as_array().unwrap();
    let call =
        output.iter().find(|item| item["type"] == "mcp_call").unwrap_or_else(|| panic!("{response:#}"));
    assert_eq!(call["status"], "completed", "{response:#}");
    let said = proxy.said(2).await;
    for name in ["mcp.test", "token.test"] {
        assert!(said.contains(&format!("CONNECT {name}:443 200")), "{said:?}");
    }

    // A server that a request brings comes the same way.
    upstream.reply(Reply::Calls(vec![("whoami", json!({}))])).text("Done.");
    let brought = json!({"type": "mcp", "server_label": "s", "server_url": "https://elsewhere.test/mcp",
        "require_approval": "never"});
    gateway.create(json!({"model": "test-model", "input": "Go.", "tools": [brought]})).await;
    let said = proxy.said(said.len() + 1).await;
    assert!(said.contains(&"CONNECT elsewhere.test:443 502".to_owned()), "{said:?}");
}
