//! Servers that are asked one thing at a time.

use super::server::{Seen, Server, answer, status};
use super::*;

async fn rpc(server: &Server) -> Arc<dyn Connection> {
    client().connect(&at(&server.url, HttpKind::JsonRpc), Token::named("t0")).await.unwrap()
}

#[tokio::test]
async fn tools_are_listed_and_called_without_a_handshake() {
    let server = Server::doing(|seen: Seen| async move {
        match (seen.method(), seen.body["params"]["cursor"].as_str()) {
            ("tools/list", None) => seen.ok(&json!({ "tools": [{ "name": "bad" }], "nextCursor": "2" })),
            ("tools/list", _) => seen.ok(&json!({ "tools": [{ "name": "a", "inputSchema": {} }] })),
            _ => seen.ok(&text("called")),
        }
    })
    .await;
    let connection = rpc(&server).await;
    assert_eq!(server.seen().len(), 0);

    let tools = connection.list_tools(256, None).await.unwrap();
    assert_eq!((tools.tools.len(), tools.unreadable.len()), (1, 1));
    let arguments = Arguments::from_iter([("q".to_owned(), json!(1))]);
    let meta = CallMeta { idempotency_key: Some("k"), traceparent: None, context: None, callback: None };
    let result = connection.call_tool(RemoteCall { meta, ..call("a", &arguments) }, &Progress::none()).await;
    assert_eq!(says(&result.unwrap()), "called");

    let call = &server.asked("tools/call")[0];
    assert_eq!((call.path.as_str(), call.verb.as_str()), ("/mcp/rpc", "POST"));
    assert_eq!(call.header("authorization"), Some("Bearer t0"));
    let params = json!({ "name": "a", "arguments": { "q": 1 }, "_meta": { "antwort/idempotency-key": "k" } });
    assert_eq!(call.body["params"], params);
    assert_eq!(connection.server().transport, "json_rpc");
}

#[tokio::test]
async fn failures_are_told_apart() {
    let server = Server::doing(|seen: Seen| async move {
        match seen.body["params"]["name"].as_str().unwrap() {
            "error" => {
                answer(&json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -7, "message": "no" } }))
            }
            "busy" => status(503),
            "odd" => answer(&json!([])),
            "long" => seen.ok(&text(&"x".repeat(2 * MIB))),
            _ => std::future::pending().await,
        }
    })
    .await;
    let connection = rpc(&server).await;

    let failed = async |name| call_tool(&*connection, name).await.unwrap_err();
    assert!(matches!(failed("error").await, McpError::Protocol { code: -7, .. }));
    assert!(matches!(failed("busy").await, McpError::Http { status: 503, .. }));
    assert!(matches!(failed("odd").await, McpError::Malformed(_)));
    assert!(matches!(failed("long").await, McpError::TooLarge { limit: MIB }));
    let arguments = Arguments::new();
    let hanging = RemoteCall { idle: Duration::from_millis(100), ..call("hang", &arguments) };
    let error = connection.call_tool(hanging, &Progress::none()).await.unwrap_err();
    assert!(matches!(error, McpError::Timeout { .. }));
}
