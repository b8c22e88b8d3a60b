//! What must not get from one tenant to another, from a client to a server, or anywhere it would stay.

use std::collections::{HashMap, HashSet};

use antwort::config::{McpAuth, McpServerSettings};
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, keys, told};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::{Auth, McpServer, tools};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

fn with_token(server: &McpServer, token: &str) -> Value {
    let mut tool = brought(server);
    tool["authorization"] = json!(token);
    tool
}

/// Names of the tools in the list of a response.
fn listed(response: &Value) -> Vec<String> {
    let tools = item(response, "mcp_list_tools")["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn tenants_and_tokens_share_neither_session_nor_list() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let mut gateway = before(&upstream).set(|settings| settings.auth = keys()).spawn().await;
    let who = [("ann", "t1"), ("ann", "t2"), ("eve", "t1"), ("eve", "t2")];
    for round in 0..2 {
        for (i, (key, token)) in who.into_iter().enumerate() {
            if round == 0 {
                server.set_tools(vec![tools::tool(&format!("of_{i}"), json!({}))]);
            }
            gateway = gateway.with_header("authorization", &format!("Bearer key-{key}"));
            let response = gateway.create(ask(json!([with_token(&server, token)]))).await;
            assert_eq!(listed(&response), [format!("of_{i}")], "{key} with {token}, round {round}");
        }
    }
    assert_eq!((server.sessions_made(), server.count("tools/list")), (4, 4));
    // Two people of one tenant with the same token are one to the server.
    gateway = gateway.with_header("authorization", "Bearer key-bob");
    let response = gateway.create(ask(json!([with_token(&server, "t1")]))).await;
    assert_eq!(listed(&response), ["of_0"]);
    assert_eq!(server.sessions_made(), 4);
    let mut tokens: HashMap<String, HashSet<String>> = HashMap::new();
    for request in server.requests() {
        let header = |name| request.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        if let Some(session) = header("mcp-session-id") {
            tokens.entry(session).or_default().insert(header("authorization").unwrap());
        }
    }
    assert!(tokens.values().all(|tokens| tokens.len() == 1), "two tokens in one session: {tokens:#?}");
}

#[tokio::test]
async fn results_are_used_again_for_nobody_else() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.redefine("whoami", |tool| {
        tool["annotations"] = json!({"readOnlyHint": true, "openWorldHint": false});
    });
    let url = Some(server.url());
    let gateway = before(&upstream)
        .set(|settings| {
            settings.tools.cache.enabled = true;
            settings.tools.cache.ttl.insert("default".into(), std::time::Duration::from_secs(60));
            let forward = McpServerSettings { url, auth: McpAuth::Forward, ..McpServerSettings::default() };
            settings.mcp.servers.insert("forward".into(), forward);
        })
        .spawn()
        .await;
    for token in ["token-of-ann1", "token-of-eve2"] {
        for tool in [
            with_token(&server, token),
            json!({"type": "mcp", "server_label": "forward", "authorization": token}),
        ] {
            upstream.reply(call("whoami", json!({}))).text("Done.");
            let response = gateway.create(ask(json!([tool]))).await;
            assert_eq!(item(&response, "mcp_call")["output"], token[token.len() - 4..], "{response:#}");
        }
    }
}

#[tokio::test]
async fn what_clients_show_the_gateway_is_shown_to_nobody_else() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let (plain, forward) = (Some(server.url()), Some(server.url()));
    let gateway = before(&upstream)
        .set(|settings| {
            let headers = [("x-fixed".to_owned(), "fixed-value".to_owned().into())].into();
            let plain = McpServerSettings { url: plain, headers, ..McpServerSettings::default() };
            let auth = McpAuth::Forward;
            let forward = McpServerSettings { url: forward, auth, ..McpServerSettings::default() };
            settings.mcp.servers.extend([("plain".into(), plain), ("forward".into(), forward)]);
        })
        .spawn()
        .await
        .with_header("authorization", "Bearer of-the-client")
        .with_header("cookie", "session=of-the-client")
        .with_header("x-api-key", "of-the-client")
        .with_header("x-forwarded-for", "of-the-client");
    for tool in [brought(&server), json!({"type": "mcp", "server_label": "plain"})] {
        upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
        gateway.create(ask(json!([tool]))).await;
    }
    let all = server.requests();
    assert!(
        all.iter().any(|request| request.headers.get("x-fixed").is_some_and(|value| value == "fixed-value"))
    );
    for request in all {
        assert!(!format!("{:?}{}", request.headers, request.raw).contains("of-the-client"), "{request:#?}");
    }
    let seen = server.requests().len();
    gateway.create(ask(json!([{"type": "mcp", "server_label": "forward"}]))).await;
    for request in &server.requests()[seen..] {
        assert_eq!(request.headers["authorization"], "Bearer of-the-client", "it is configured to get it");
        assert!(!request.headers.contains_key("cookie") && !request.headers.contains_key("x-api-key"));
    }
    for request in upstream.requests() {
        assert!(!format!("{:?}{}", request.headers, request.raw).contains("of-the-client"));
    }
}

#[tokio::test]
async fn a_configured_server_takes_no_credentials_that_it_was_not_configured_to_take() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let url = Some(server.url());
    let gateway = before(&upstream)
        .set(|settings| {
            let auth = McpAuth::Bearer { token: "of-the-operator".to_owned().into() };
            let own = McpServerSettings { url, auth, ..McpServerSettings::default() };
            settings.mcp.servers.insert("own".into(), own);
        })
        .spawn()
        .await;
    for (field, value) in
        [("authorization", json!("mine")), ("headers", json!({"authorization": "Bearer mine"}))]
    {
        let mut tool = json!({"type": "mcp", "server_label": "own"});
        tool[field] = value;
        let answer = gateway.post("/v1/responses", &ask(json!([tool]))).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["param"]),
            (400, &json!(format!("tools[0].{field}")))
        );
    }
    assert!(server.requests().is_empty());
    gateway.create(ask(json!([{"type": "mcp", "server_label": "own"}]))).await;
    assert!(
        server.requests().iter().all(|request| request.headers["authorization"] == "Bearer of-the-operator")
    );
}

#[tokio::test]
async fn a_token_that_is_refused_is_an_error_that_does_not_tell_it() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.auth(Auth::Tokens(vec!["right-secret"]));
    let response = gateway.create(ask(json!([with_token(&server, "wrong-secret")]))).await;
    assert!(item(&response, "mcp_list_tools")["error"].as_str().unwrap().contains("credentials"));
    assert!(!response.to_string().contains("wrong-secret"));

    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    gateway.create(ask(json!([with_token(&server, "right-secret")]))).await;
    server.expire_token();
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let response = gateway.create(ask(json!([with_token(&server, "right-secret")]))).await;
    let error = &item(&response, "mcp_call")["error"];
    assert_eq!((&error["type"], &error["code"]), (&json!("http_error"), &json!(401)), "{response:#}");
    assert_eq!((response["status"].as_str(), server.count_calls("echo")), (Some("completed"), 1));
    assert!(!response.to_string().contains("right-secret") && !told(&upstream).contains("right-secret"));
}

#[tokio::test]
async fn tokens_stay_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let environment = [("ANTWORT_LOG", "trace"), ("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let mut tool = with_token(&server, "s3cret-token");
    tool["headers"] = json!({"x-key": "s3cret-header"});
    tool["server_url"] = json!(format!("{}?key=s3cret-query", server.url()));
    upstream.reply(call("echo", json!({"text": "kept-in-the-store"}))).text("Done.");
    let http = reqwest::Client::new();
    let url = format!("{}/v1/responses", gateway.base);
    let text = http.post(&url).json_body(&ask(json!([tool]))).send().await.unwrap().text().await.unwrap();
    let response: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(item(&response, "mcp_call")["output"], "kept-in-the-store", "{response:#}");
    assert_secretless("the response", &text);
    server.notify(json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "error", "data": "said by the server"}}));
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(eventually(async || log().contains("said by the server")).await, "what servers log is logged");
    // A server that is gone, and one that refuses.
    server.status_of("tools/call", 1, (500, &[], "s3cret-body"));
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let text = http.post(&url).json_body(&ask(json!([tool]))).send().await.unwrap().text().await.unwrap();
    assert_secretless("the response of a failure", &text);
    tool["server_url"] = json!("http://127.0.0.1:9/mcp?key=s3cret-query");
    let text = http.post(&url).json_body(&ask(json!([tool]))).send().await.unwrap().text().await.unwrap();
    assert_secretless("the response without a server", &text);
    let id = response["id"].as_str().unwrap();
    for path in
        [format!("{url}/{id}"), format!("{url}/{id}/input_items"), format!("{}/metrics", gateway.base)]
    {
        let text = http.get(&path).send().await.unwrap().text().await.unwrap();
        assert_secretless(&path, &text);
    }
    gateway.terminate();
    assert!(eventually(async || gateway.exit_code().is_some()).await);
    let mut kept = false;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let is_store = path.file_name().unwrap().to_str().unwrap().starts_with("test.db");
        kept |= is_store && text.contains("kept-in-the-store");
        assert_secretless(path.to_str().unwrap(), &text);
    }
    assert!(kept, "the store is where it is looked for");
}

fn assert_secretless(place: &str, text: &str) {
    if let Some(at) = text.find("s3cret") {
        let from = text.floor_char_boundary(at.saturating_sub(300));
        let to = text.floor_char_boundary((at + 100).min(text.len()));
        panic!("{place} tells a secret: {}", &text[from..to]);
    }
}

#[tokio::test]
async fn headers_that_are_not_the_clients_to_set_are_refused() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let mut cases: Vec<Value> =
        ["Host", "content-length", "Transfer-Encoding", "connection", "upgrade", "accept", "te"]
            .into_iter()
            .chain([
                "content-type",
                "mcp-session-id",
                "MCP-Protocol-Version",
                "last-event-id",
                "proxy-authorization",
            ])
            .chain(["", "a b", "a\r\nb", "ä", ":path"])
            .map(|name| json!({name: "s3cret"}))
            .collect();
    cases.extend(["a\r\nx: b", "a\nb", "a\0b"].map(|value| json!({"x-a": format!("s3cret{value}")})));
    cases.push(json!({"x-a": "s3cret", "X-A": "s3cret"}));
    cases.push((0..100).map(|i| (format!("x-{i}"), json!("s3cret"))).collect());
    for headers in cases {
        let mut tool = brought(&server);
        tool["headers"] = headers;
        let answer = gateway.post("/v1/responses", &ask(json!([tool]))).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["param"]),
            (400, &json!("tools[0].headers")),
            "{tool}"
        );
        assert_secretless("the error", &answer.body.to_string());
    }
    for token in ["", "two words", "line\nbreak", "ö", "Basic abc"] {
        let answer = gateway.post("/v1/responses", &ask(json!([with_token(&server, token)]))).await;
        let param = &answer.body["error"]["param"];
        assert_eq!(
            (answer.status, param),
            (400, &json!("tools[0].authorization")),
            "{token:?}: {:#}",
            answer.body
        );
    }
    assert!(server.requests().is_empty());
}
