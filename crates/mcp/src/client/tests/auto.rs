//! Which way a server is spoken to, and for how long that is remembered.

use super::legacy::old;
use super::server::{Seen, Server, answer, event, failed, shake, status};
use super::*;
use antwort_tools::verbatim::exact_text;

async fn found(client: &Client, server: &Server) -> Result<Arc<dyn Connection>, McpError> {
    client.connect(&at(&server.url, HttpKind::Auto), Token::named("t0")).await
}

#[tokio::test]
async fn an_old_server_is_found_out_about_once() {
    let server = old("/inbox", |seen, writer| {
        if seen.method() == "tools/call" {
            writer.send(event(&seen.result(&text("old")))).unwrap();
        }
        status(202)
    })
    .await;
    let client = client();

    for _ in 0..2 {
        let connection = found(&client, &server).await.unwrap();
        assert_eq!(connection.server().transport, "sse");
        assert_eq!(says(&call_tool(&*connection, "x").await.unwrap()), "old");
    }

    let tried = server.asked("initialize").iter().filter(|seen| seen.path == "/mcp").count();
    assert_eq!(tried, 1, "the second time it was known");
    // One that is to be streamable is not taken for anything else.
    let endpoint = at(&server.url, HttpKind::Streamable);
    let error = client.connect(&endpoint, Token::named("t0")).await.err().unwrap();
    assert!(matches!(error, McpError::Http { status: 405, .. }), "{error:?}");
}

#[tokio::test]
async fn what_was_remembered_is_forgotten_when_it_fails() {
    let modern = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&modern);
    let server = Server::doing(move |seen: Seen| {
        let old = switch.load(Ordering::SeqCst) == 0;
        async move {
            match (seen.verb.as_str(), old) {
                (_, false) => shake(&seen, None).unwrap_or_else(|| seen.ok(&text("new"))),
                ("GET", true) => status(500),
                _ => status(405),
            }
        }
    })
    .await;
    let client = client();
    client.0.known_modes.insert(server.url.clone(), ProtocolMode::Sse);
    assert!(found(&client, &server).await.is_err());
    assert_eq!(client.0.known_modes.get(&server.url), None);

    client.0.known_modes.insert(server.url.clone(), ProtocolMode::Sse);
    modern.store(1, Ordering::SeqCst);
    let connection = found(&client, &server).await.unwrap();
    assert_eq!(says(&call_tool(&*connection, "x").await.unwrap()), "new");
    assert_eq!(client.0.known_modes.get(&server.url), Some(ProtocolMode::Handshake));
}

#[tokio::test]
async fn servers_in_trouble_are_not_taken_for_old_ones() {
    for code in [401, 403, 429, 500, 503] {
        let server = Server::doing(move |_seen: Seen| async move { status(code) }).await;
        let error = found(&client(), &server).await.err().unwrap();
        let expected = matches!(error, McpError::Http { status, .. } if status == code);
        assert!(expected || matches!(error, McpError::Unauthorized { .. }), "{error:?}");
        assert!(server.seen().iter().all(|seen| seen.verb == "POST"));
    }
}

#[tokio::test]
async fn a_server_without_handshakes_is_asked_what_it_can() {
    let server = Server::doing(|seen: Seen| async move {
        let refused = json!({ "code": -32601, "message": "Method not found" });
        match seen.method() {
            "server/discover" => seen.ok(&json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            })),
            "tools/list" => seen.ok(&json!({ "tools": [{ "name": "x", "inputSchema": { "type": "object",
                "properties": {
                    "r": { "type": "string", "x-mcp-header": "Region" },
                    "to": { "type": "object", "properties": { "id": { "type": "integer", "x-mcp-header": "Id" } } },
                } } }] })),
            "tools/call" => seen.ok(&text("new")),
            "initialize" => {
                failed(404, &json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": refused }))
            }
            _ => answer(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": refused })),
        }
    })
    .await;
    let client = client();

    for _ in 0..2 {
        let connection = found(&client, &server).await.unwrap();
        assert_eq!(connection.server().protocol, "2026-07-28");
        assert_eq!(connection.list_tools(256, None).await.unwrap().tools.len(), 1);
        let arguments = r#"{"r":"eu","to":{"id":123456789012345678901234567890}}"#;
        let exact_arguments = exact_text(arguments);
        let arguments = serde_json::from_str(arguments).unwrap();
        let call = RemoteCall { exact_arguments: exact_arguments.as_deref(), ..call("x", &arguments) };
        let result = connection.call_tool(call, &Progress::none()).await.unwrap();
        assert_eq!(says(&result), "new");
    }

    assert_eq!(server.asked("initialize").len(), 1, "the second time it was known");
    let call = &server.asked("tools/call")[0];
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-param-region"), Some("eu"));
    // Digit for digit, as in the body: whoever routes by the header is not to see another number.
    assert_eq!(call.header("mcp-param-id"), Some("123456789012345678901234567890"));
    assert!(call.text.contains(r#""to":{"id":123456789012345678901234567890}"#), "{}", call.text);
    assert_eq!(call.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[tokio::test]
async fn a_server_that_does_not_shake_hands_is_given_up() {
    let server = Server::doing(|_seen: Seen| std::future::pending()).await;
    let error = found(&hasty(Duration::from_millis(200)), &server).await.err().unwrap();

    assert!(matches!(&error, McpError::Connect(why) if why.message().contains("200ms")), "{error:?}");
    assert!(error.was_not_processed());
}

#[tokio::test]
async fn addresses_that_may_not_be_reached_are_not() {
    let endpoint = at("http://10.0.0.1/mcp", HttpKind::Auto);
    let error = client().connect(&endpoint, Token::named("t0")).await.err().unwrap();
    assert!(matches!(error, McpError::Egress(_)), "{error:?}");
}
