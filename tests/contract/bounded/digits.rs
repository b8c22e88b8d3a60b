//! Numbers keep their digits from the model to the tool: what is called is what a person has allowed.

use antwort::config::{McpServerSettings, McpTransport};
use serde_json::{Value, json};

use antwort_test_support::gateway::{Builder, Gateway};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish};

/// Each would be another one as a double, or is written in a way that a program may tell from others.
const ARGUMENTS: &str =
    r#"{"text": "1e9", "id": 123456789012345678901234567890, "more": [1.0, 1e0, 0.10, 3E+400]}"#;
/// The same in one line without spaces.
const SENT: &str =
    r#""arguments":{"text":"1e9","id":123456789012345678901234567890,"more":[1.0,1e0,0.10,3E+400]}"#;

fn before(upstream: &Upstream) -> Builder {
    Gateway::with_upstream(upstream).set(|settings| settings.egress.allow = vec!["127.0.0.1".into()])
}

/// A call whose arguments are text, as in the API, or an object, as some servers send them.
fn call(arguments: Value) -> Reply {
    let call = json!({"index": 0, "id": "call_0", "type": "function",
        "function": {"name": "echo", "arguments": arguments}});
    Reply::Stream(vec![chunk(json!({"tool_calls": [call]})), finish("tool_calls"), done()])
}

fn ask(approval: &str, server: &McpServer) -> Value {
    let tool =
        json!({"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": approval});
    json!({"model": "test-model", "input": "Go.", "tools": [tool]})
}

/// Arguments without the number that no double can be.
fn finite(text: &str) -> String {
    text.replace(", 3E+400", "").replace(",3E+400", "")
}

fn sent_to(server: &McpServer) -> Vec<String> {
    let requests = server.requests();
    requests.iter().filter(|r| r.body["method"] == "tools/call").map(|r| r.raw.clone()).collect()
}

#[tokio::test]
async fn arguments_reach_a_server_digit_for_digit() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call(json!(finite(ARGUMENTS)))).text("Done.");
    let response = gateway.create(ask("never", &server)).await;
    let made = &response["output"][1];
    assert_eq!((&made["type"], &made["status"]), (&json!("mcp_call"), &json!("completed")), "{response:#}");
    assert_eq!(made["arguments"], finite(ARGUMENTS), "as the model wrote them");
    let sent = sent_to(&server);
    assert!(sent.len() == 1 && sent[0].contains(&finite(SENT)), "{sent:?}");
    // What the model reads of its call in the next turn.
    assert_eq!(upstream.last()["messages"][1]["tool_calls"][0]["function"]["arguments"], finite(ARGUMENTS));
}

/// A server with the tool `echo`, which adds each line that it reads to a file.
const PROGRAM: &str = r#"
import json, sys
log = open(sys.argv[1], "a")
for line in sys.stdin:
    log.write(line)
    log.flush()
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"content": [{"type": "text", "text": "done"}]}
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "program", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn over_every_transport() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let folder = tempfile::tempdir().unwrap();
    let [program, lines] =
        ["server.py", "lines"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&program, PROGRAM).unwrap();
    let stdio = McpServerSettings {
        command: Some("python3".into()),
        args: vec![program, lines.clone()],
        ..McpServerSettings::default()
    };
    let at = |transport, url: String| McpServerSettings {
        url: Some(url),
        transport: Some(transport),
        ..McpServerSettings::default()
    };
    let servers = [
        ("http", at(McpTransport::StreamableHttp, server.url())),
        ("sse", at(McpTransport::Sse, server.sse_url())),
        ("json_rpc", at(McpTransport::JsonRpc, server.base.clone())),
        ("stdio", stdio),
    ];
    let servers = servers.map(|(label, server)| (label.to_owned(), server));
    let gateway = before(&upstream).set(|settings| settings.mcp.servers.extend(servers)).spawn().await;
    for (made, label) in ["http", "sse", "json_rpc", "stdio"].into_iter().enumerate() {
        upstream.reply(call(json!(finite(ARGUMENTS)))).text("Done.");
        let tools = json!([{"type": "mcp", "server_label": label}]);
        gateway.create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
        let read = std::fs::read_to_string(&lines).unwrap_or_default();
        let mut sent = sent_to(&server);
        sent.extend(read.lines().filter(|line| line.contains("tools/call")).map(str::to_owned));
        assert!(sent.len() == made + 1 && sent[made].contains(&finite(SENT)), "{label}: {sent:?}");
    }
}

#[tokio::test]
async fn arguments_that_come_as_an_object_keep_their_digits_too() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let chunk = r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"echo","arguments":OBJECT}}]},"finish_reason":"tool_calls"}]}"#;
    let bytes = format!("{}\n\ndata: [DONE]\n\n", chunk.replace("OBJECT", &finite(ARGUMENTS)));
    upstream
        .reply(Reply::Stream(vec![antwort_test_support::upstream::Step::Raw(bytes.into_bytes())]))
        .text("Done.");
    gateway.create(ask("never", &server)).await;
    let sent = sent_to(&server);
    assert!(sent.len() == 1 && sent[0].contains(&finite(SENT)), "{sent:?}");
}

#[tokio::test]
async fn a_person_allows_the_digits_that_are_sent_and_no_others() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call(json!(finite(ARGUMENTS))));
    let response = gateway.create(ask("always", &server)).await;
    let request = response["output"][1].clone();
    assert_eq!(
        (&request["type"], &request["arguments"]),
        (&json!("mcp_approval_request"), &json!(finite(ARGUMENTS)))
    );
    let replay = |arguments: &str| {
        let mut request = request.clone();
        request["arguments"] = arguments.into();
        let answer =
            json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true});
        let mut body = ask("always", &server);
        body["input"] = json!([{"role": "user", "content": "Go."}, request, answer]);
        body
    };
    for (there, other) in [("567890,", "567891,"), ("[1.0,", "[1,"), ("1e0", "1.0"), ("0.10", "0.1")] {
        let forged = finite(ARGUMENTS).replace(there, other);
        assert_ne!(forged, finite(ARGUMENTS));
        gateway.refuse(replay(&forged), 400, "approval_mismatch").await;
    }
    assert!(sent_to(&server).is_empty());
    // Other spaces and another order of keys are the same arguments.
    let same = r#"{"id":123456789012345678901234567890, "more":[1.0,1e0,0.10], "text":"1e9"}"#;
    upstream.text("Done.");
    let made = gateway.create(replay(same)).await;
    let calls: Vec<_> =
        made["output"].as_array().unwrap().iter().filter(|item| item["type"] == "mcp_call").collect();
    assert!(calls.len() == 1 && calls[0]["status"] == "completed", "{made:#}");
    let sent = sent_to(&server);
    assert!(sent.len() == 1 && sent[0].contains(r#""id":123456789012345678901234567890"#), "{sent:?}");
}

#[tokio::test]
async fn numbers_that_differ_in_a_late_digit_are_not_the_same_call() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for last in 0..3 {
        upstream.reply(call(json!(format!("{{\"text\": \"x\", \"id\": 12345678901234567890{last}}}"))));
    }
    upstream.text("Done.");
    let mut body = ask("never", &server);
    body["antwort"] = json!({"limits": {"max_identical_calls": 1}});
    let response = gateway.create(body).await;
    assert_eq!((&response["status"], server.count_calls("echo")), (&json!("completed"), 3), "{response:#}");
}
