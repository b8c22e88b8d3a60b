//! What the log says of tools and MCP servers that fail, in lines of the request that they fail.

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::logged::Logged;
use antwort_test_support::eventually;
use antwort_test_support::network::{Server, TestCa};
use antwort_test_support::upstream::{Reply, Upstream};

const UNLISTED: &str = "the tools of an MCP server cannot be listed";
const CALL: &str = "tool call failed";

/// Settings with this upstream as the provider.
fn settings(upstream: &Upstream, more: Value) -> Value {
    let mut settings = more;
    settings["providers"]["default"]["url"] = upstream.url.as_str().into();
    settings
}

/// Where nobody listens.
async fn closed() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

/// A place that fails in its own way: name, origin, kind, and what the cause says.
type Case = (&'static str, String, &'static str, Vec<&'static str>);

/// Places that fail; `silent` takes connections and says nothing.
async fn failing(private: &Server, silent: &TcpListener, deadline: &'static str) -> Vec<Case> {
    let (plain, tls) = (format!("http://{}", closed().await), format!("https://localhost:{}", private.port));
    vec![
        ("refused", plain, "connection_refused", vec!["Connection refused"]),
        ("nowhere", "https://no-such-host.invalid".to_owned(), "name_not_found", vec!["dns error"]),
        ("private", tls, "tls", vec!["UnknownIssuer", "not issued by a trusted authority", "tls.ca_file"]),
        ("silent", format!("http://{}", silent.local_addr().unwrap()), deadline, vec!["timeout, 1 s"]),
    ]
}

/// The one line, which is a warning of this kind with these causes.
fn judge(line: &Value, kind: &str, causes: &[&str]) {
    assert_eq!((&line["level"], &line["kind"]), (&json!("WARN"), &json!(kind)), "{line}");
    for cause in causes {
        assert!(line["cause"].as_str().unwrap().contains(cause), "{cause}: {line}");
    }
}

#[tokio::test]
async fn mcp_servers_that_cannot_be_reached_are_warned_of_with_their_causes_in_the_name_of_the_request() {
    let (upstream, authority) = (Upstream::spawn().await, TestCa::generate());
    let private = Server::tls(1, &authority.issue("localhost"), None);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cases = failing(&private, &silent, "list_timeout").await;
    let server = |(name, origin, ..): &Case| {
        ((*name).to_owned(), json!({"url": format!("{origin}/path-of-a-tenant/mcp?key=s3cret")}))
    };
    let servers: serde_json::Map<_, _> = cases.iter().map(server).collect();
    let mcp = json!({"mcp": {"servers": servers, "list_timeout": "1s"}});
    let gateway = Logged::start(&upstream, &settings(&upstream, mcp)).await;
    for (name, origin, kind, causes) in &cases {
        let id = format!("req_{name}");
        upstream.text("Done.");
        let tools = json!([{"type": "mcp", "server_label": name}]);
        let body = json!({"model": "test-model", "input": "Hi", "tools": tools});
        let (status, told) = gateway.post("/v1/responses", &id, &body).await;
        assert_eq!(status, 200, "{told}");
        let lines = gateway.lines(UNLISTED, &id);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        judge(&lines[0], kind, causes);
        assert_eq!(lines[0]["server"], *name);
        if *name != "silent" {
            assert_eq!(lines[0]["url"], origin.as_str(), "{}", lines[0]);
        }
        assert!(!told.contains(causes[0]), "{told}");
    }
    let log = gateway.log();
    assert!(!log.contains("s3cret") && !log.contains("path-of-a-tenant"), "{log}");
}

#[tokio::test]
async fn tools_that_reach_nobody_are_warned_of_with_their_causes_in_the_name_of_the_request() {
    let (upstream, authority) = (Upstream::spawn().await, TestCa::generate());
    let private = Server::tls(1, &authority.issue("localhost"), None);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for (name, origin, kind, causes) in failing(&private, &silent, "total_timeout").await {
        let weather = json!({"base_url": format!("{origin}/path-of-a-tenant"), "api_key": "s3cret"});
        let more = json!({"tools": {"builtin": {"get_weather": weather}}, "egress": {"timeout": "1s"}});
        let gateway = Logged::start(&upstream, &settings(&upstream, more)).await;
        let id = format!("req_{name}");
        let call = json!({"arguments": {"location": "a-private-place"}});
        let (_, told) = gateway.post("/v1/tools/get_weather/execute", &id, &call).await;
        let lines = gateway.lines(CALL, &id);
        assert_eq!(lines.len(), 1, "{told}: {}", gateway.log());
        judge(&lines[0], kind, &causes);
        assert_eq!((&lines[0]["url"], &lines[0]["tool"]), (&json!(origin), &json!("get_weather")));
        assert!(!told.contains(causes[0]), "{told}");
        let log = gateway.log();
        for secret in ["s3cret", "path-of-a-tenant", "a-private-place"] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

/// Answers the handshake and lists a tool, which ends it.
const DYING: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "tools/call":
        os._exit(3)
    result = {"tools": [{"name": "die", "inputSchema": {"type": "object"}}]}
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "program", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn programs_that_do_not_start_or_die_are_warned_of_with_their_causes() {
    let upstream = Upstream::spawn().await;
    let python = |code: &str| json!({"command": "python3", "args": ["-c", code], "trust": "trusted"});
    let servers = json!({
        "absent": {"command": "no-such-program", "args": ["s3cret"]},
        "early": python("import sys; print('no such account', file=sys.stderr); sys.exit(4)"),
        "dying": python(DYING),
    });
    let gateway = Logged::start(&upstream, &settings(&upstream, json!({"mcp": {"servers": servers}}))).await;
    let ask = async |server: &str, id: &str| {
        let tools = json!([{"type": "mcp", "server_label": server}]);
        let body = json!({"model": "test-model", "input": "Hi", "tools": tools});
        let (status, told) = gateway.post("/v1/responses", id, &body).await;
        assert_eq!(status, 200, "{told}");
        told
    };
    for (server, message, kind, cause) in [
        (
            "absent",
            "starting the program of an MCP server failed",
            "program_not_started",
            "no-such-program: ",
        ),
        (
            "early",
            "the program of an MCP server has exited",
            "program_ended",
            "python3: exit status: 4; the end of its stderr: no such account",
        ),
    ] {
        upstream.text("Done.");
        let id = format!("req_{server}");
        let told = ask(server, &id).await;
        assert!(!told.contains(cause), "{told}");
        let lines = gateway.lines(UNLISTED, &id);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        // When it happened, and in the name of the request that it fails.
        for line in [&lines[0], &gateway.of_server(message, server)[0]] {
            judge(line, kind, &[cause]);
            assert_eq!(line["server"], server);
        }
    }
    upstream.reply(Reply::Calls(vec![("die", json!({}))])).text("Done.");
    let told = ask("dying", "req_dying").await;
    assert!(!told.contains("exit status"), "{told}");
    let lines = gateway.lines(CALL, "req_dying");
    assert_eq!(lines.len(), 1, "{}", gateway.log());
    judge(&lines[0], "program_ended", &["exit status: 3"]);
    let ended = || gateway.of_server("the program of an MCP server has exited", "dying");
    assert!(eventually(async || ended().len() == 1).await);
    judge(&ended()[0], "program_ended", &["exit status: 3"]);
    assert!(!gateway.log().contains("s3cret"));
}
