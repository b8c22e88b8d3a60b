//! Where servers of requests may be.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use antwort_mcp::connection::{Connector, Endpoint, HttpKind, ServerAddress};
use antwort_mcp::credentials::StaticHeaders;
use antwort_mcp::{Client, ClientOptions};
use antwort_net::client::HttpClientOptions;
use antwort_net::egress::{Egress, EgressOptions, Resolver};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{ask, brought, item};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::Upstream;

fn at(url: &str) -> Value {
    json!({"type": "mcp", "server_label": "s", "server_url": url, "require_approval": "never"})
}

/// Ways to write addresses that no request may lead to.
const PRIVATE_HOSTS: [&str; 50] = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "0.0.0.0",
    "0",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "[::ffff:169.254.169.254]",
    "metadata.google.internal",
    "metadata.google.internal.",
    "METADATA.google.internal",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fc00::1]",
    "[ff02::1]",
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "198.18.0.1",
    "192.0.2.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "１２７.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "ⓛocalhost",
];

/// What is no URL of a server that a request may name.
const INVALID_URLS: [&str; 21] = [
    "http://example.com/mcp",
    "https://user@example.com/mcp",
    "https://user:s3cret@example.com/mcp",
    "https://example.com@127.0.0.1/mcp",
    "https://127.0.0.1#@example.com/mcp",
    "https://example.com:0/mcp",
    "file:///etc/passwd",
    "unix:/run/docker.sock",
    "ftp://example.com/mcp",
    "gopher://example.com/",
    "data:text/plain,x",
    "javascript:1",
    "ws://example.com/mcp",
    "//example.com/mcp",
    "example.com",
    "/mcp",
    "https://",
    "https://[::1",
    "https://exa mple.com/",
    "http+unix://%2Frun%2Fdocker.sock/mcp",
    "",
];

#[tokio::test]
async fn private_places_are_refused_however_they_are_spelled() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let port = server.base.rsplit_once(':').unwrap().1.to_owned();
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut urls: Vec<String> = Vec::new();
    for host in PRIVATE_HOSTS {
        urls.extend([
            format!("http://{host}:{port}/mcp"),
            format!("https://{host}:{port}/mcp"),
            format!("https://{host}/mcp"),
        ]);
    }
    urls.extend(INVALID_URLS.map(str::to_owned));
    for url in urls {
        let answer = gateway.post("/v1/responses", &ask(json!([at(&url)]))).await;
        let error = &answer.body["error"];
        assert_eq!(
            (answer.status, &error["param"]),
            (400, &json!("tools[0].server_url")),
            "{url}: {:#}",
            answer.body
        );
        assert!(!error["message"].as_str().unwrap().contains("s3cret"), "{error}");
    }
    assert!(server.requests().is_empty() && upstream.requests().is_empty(), "somebody was connected to");
}

#[tokio::test]
async fn a_refused_private_place_names_the_settings_that_allow_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for host in ["127.0.0.1", "localhost", "10.0.0.1"] {
        let body = ask(json!([at(&format!("http://{host}:9/mcp"))]));
        let answer = gateway.post("/v1/responses", &body).await;
        let message = answer.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("egress.allow (ANTWORT_EGRESS_ALLOW)"), "{host}: {message}");
    }
}

#[tokio::test]
async fn tools_that_come_with_the_input_are_judged_the_same() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let more = json!({"type": "additional_tools", "role": "developer", "tools": [brought(&server)]});
    let body = json!({"model": "test-model", "input": [more, {"role": "user", "content": "Go."}]});
    let answer = gateway.post("/v1/responses", &body).await;
    let param = &answer.body["error"]["param"];
    assert_eq!((answer.status, param), (400, &json!("input[0].tools[0].server_url")), "{:#}", answer.body);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_leads_nowhere() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let inside = McpServer::spawn().await;
    let port = server.base.rsplit_once(':').unwrap().1.to_owned();
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.egress.allow = vec![format!("127.0.0.1:{port}")])
        .spawn()
        .await;
    for (i, status) in [301, 302, 303, 307, 308].into_iter().enumerate() {
        for target in [inside.url(), "http://169.254.169.254/latest".into(), server.sse_url()] {
            let mut tool = brought(&server);
            tool["authorization"] = json!(format!("token-{i}-{}", target.len()));
            server.status_of("initialize", 1, (status, &[("location", &target)], ""));
            let response = gateway.create(ask(json!([tool]))).await;
            let problem = item(&response, "mcp_list_tools")["error"].as_str().unwrap().to_owned();
            assert!(problem.contains(&status.to_string()), "{problem}");
            assert!(!problem.contains("127.0.0.1") && !problem.contains("169.254"), "{problem}");
        }
    }
    assert!(inside.requests().is_empty());
    assert!(server.requests().iter().all(|request| request.path == "/mcp"), "not even to the same server");
}

/// Answers with these addresses, whatever is asked.
struct Answers(Vec<IpAddr>);

#[async_trait]
impl Resolver for Answers {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn a_public_name_with_a_private_address_is_not_connected_to() {
    let server = McpServer::spawn().await;
    let port = server.base.rsplit_once(':').unwrap().1.to_owned();
    let options = EgressOptions {
        allow: Vec::new(),
        allowed_domains: None,
        max_redirects: 0,
        max_response_bytes: 1 << 20,
        timeout: Duration::from_secs(5),
        http: HttpClientOptions::default(),
    };
    let client = Client::new(ClientOptions {
        max_message_bytes: 1 << 20,
        connect_timeout: Duration::from_secs(5),
        elicitation: antwort::config::ElicitationPolicy::Decline,
        sampler: None,
    });
    for addresses in [&["127.0.0.1"][..], &["169.254.169.254"], &["::1", "10.0.0.1"], &["::ffff:127.0.0.1"]] {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let egress = Arc::new(Egress::with_resolver(&options, Arc::new(Answers(addresses))).unwrap());
        let url = format!("http://public.example:{port}/mcp").parse().unwrap();
        let endpoint = Endpoint {
            name: "s".into(),
            address: ServerAddress::Http { url, kind: HttpKind::Auto, egress },
            is_configured: true,
            may_sample: false,
            shows: Default::default(),
        };
        let credentials = Arc::new(StaticHeaders::new(reqwest::header::HeaderMap::new()));
        let error = client.connect(&endpoint, credentials).await.err().expect("it is refused").to_string();
        assert_eq!(error, "no connection to public.example");
    }
    // The same as of a name that nobody has: which names there are inside is nobody's business.
    let nowhere = Arc::new(Egress::with_resolver(&options, Arc::new(Answers(Vec::new()))).unwrap());
    let url = "http://public.example:1/mcp".parse().unwrap();
    let endpoint = Endpoint {
        name: "s".into(),
        address: ServerAddress::Http { url, kind: HttpKind::Auto, egress: nowhere },
        is_configured: false,
        may_sample: false,
        shows: Default::default(),
    };
    let credentials = Arc::new(StaticHeaders::new(reqwest::header::HeaderMap::new()));
    let error = client.connect(&endpoint, credentials).await.err().expect("it is not there");
    assert_eq!(error.to_string(), "no connection to public.example");
    assert!(server.requests().is_empty());
}

type Change = Box<dyn FnOnce(&mut antwort::config::Settings)>;

#[tokio::test]
async fn the_operator_opens_and_closes() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let port = server.base.rsplit_once(':').unwrap().1.to_owned();
    let other = format!("127.0.0.1:{}", if port == "9" { 10 } else { 9 });
    let open = |settings: &mut antwort::config::Settings| settings.egress.allow = vec!["127.0.0.0/8".into()];
    let refusals: [(&str, Change); 5] = [
        ("another port", Box::new(move |settings| settings.egress.allow = vec![other])),
        (
            "off",
            Box::new(move |settings| {
                open(settings);
                settings.mcp.requests.enabled = false;
            }),
        ),
        (
            "elsewhere",
            Box::new(move |settings| {
                open(settings);
                settings.mcp.requests.allowed_domains = Some(vec!["example.com".into()]);
            }),
        ),
        (
            "elsewhere in general",
            Box::new(move |settings| {
                open(settings);
                settings.egress.allowed_domains = Some(vec!["example.com".into()]);
                settings.mcp.requests.allowed_domains = Some(vec!["127.0.0.1".into()]);
            }),
        ),
        (
            "none",
            Box::new(move |settings| {
                open(settings);
                settings.mcp.requests.allowed_domains = Some(Vec::new());
            }),
        ),
    ];
    for (what, change) in refusals {
        let gateway = Gateway::with_upstream(&upstream).set(change).spawn().await;
        let answer = gateway.post("/v1/responses", &ask(json!([brought(&server)]))).await;
        let param = &answer.body["error"]["param"];
        assert_eq!((answer.status, param), (400, &json!("tools[0].server_url")), "{what}: {:#}", answer.body);
    }
    assert!(server.requests().is_empty());
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            open(settings);
            settings.mcp.requests.allowed_domains = Some(vec!["127.0.0.1".into()]);
        })
        .spawn()
        .await;
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_list_tools")["error"], json!(null));
}

#[tokio::test]
async fn a_configured_server_may_be_anywhere_and_opens_nothing_for_requests() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let url = Some(server.url());
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| {
            let inside = antwort::config::McpServerSettings { url, ..Default::default() };
            settings.mcp.servers.insert("inside".into(), inside);
        })
        .spawn()
        .await;
    let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "inside"}]))).await;
    assert_eq!(item(&response, "mcp_list_tools")["error"], json!(null), "{response:#}");
    gateway.refuse(ask(json!([brought(&server)])), 400, "invalid_value").await;
}
