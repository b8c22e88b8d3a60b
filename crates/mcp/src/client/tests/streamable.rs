//! Streamable HTTP: what is sent, what comes back which way, and what happens when it does not.

use super::server::{Seen, Server, answer, event, events, failed, shake, status};
use super::*;

#[tokio::test]
async fn a_json_answer_comes_back_and_the_session_is_named_and_deleted() {
    let server = Server::calling(|seen: Seen| async move { seen.ok(&text("hello")) }).await;
    let connection = connect(&server.url).await;

    assert_eq!(says(&call_tool(&*connection, "greet").await.unwrap()), "hello");
    connection.close().await;

    assert!(connection.is_closed());
    let info = connection.server();
    assert_eq!(
        (info.name.as_str(), info.version.as_str(), info.transport),
        ("small", "1.2", "streamable_http")
    );
    assert_eq!(info.protocol, "2025-11-25");
    let call = &server.asked("tools/call")[0];
    assert_eq!(call.header("mcp-session-id"), Some("s1"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(call.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(call.header("authorization"), Some("Bearer t0"));
    assert_eq!(call.body["params"]["name"], "greet");
    let info = &server.asked("initialize")[0].body["params"]["clientInfo"];
    assert_eq!(info, &json!({ "name": "antwort", "version": env!("CARGO_PKG_VERSION") }));
    let deleted: Vec<Seen> = server.seen().into_iter().filter(|seen| seen.verb == "DELETE").collect();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0].header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn an_answer_comes_back_as_an_event_among_others() {
    let server = Server::calling(|seen: Seen| async move {
        let (writer, response) = events();
        writer.send("id: 1\ndata:\n\n: a comment\n\n".to_owned()).unwrap();
        writer.send("data: no json\n\n".to_owned()).unwrap();
        writer.send(event(&seen.result(&text("streamed")))).unwrap();
        response
    })
    .await;
    let connection = connect(&server.url).await;

    assert_eq!(says(&call_tool(&*connection, "greet").await.unwrap()), "streamed");

    // The end of a stream that has brought the answer is no reason to take it up again.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let gets = server.seen().iter().filter(|seen| seen.verb == "GET").count();
    assert_eq!(gets, 1, "only the session's own stream");
}

#[tokio::test]
async fn a_stream_that_breaks_is_taken_up_where_it_was() {
    let server = Server::calling(|seen: Seen| async move { seen.ok(&text("unused")) }).await;
    drop(server);
    let server = Server::doing(|seen: Seen| async move {
        match (seen.verb.as_str(), seen.method(), seen.header("last-event-id")) {
            ("POST", "tools/call", _) => {
                let (writer, response) = events();
                writer.send("id: e7\nretry: 10\ndata:\n\n".to_owned()).unwrap();
                response
            }
            ("GET", _, Some("e7")) => {
                let (writer, response) = events();
                let result = json!({ "jsonrpc": "2.0", "id": 1, "result": text("resumed") });
                writer.send(event(&result)).unwrap();
                response
            }
            _ => shake(&seen, Some("s1")).unwrap(),
        }
    })
    .await;
    let connection = connect(&server.url).await;

    assert_eq!(says(&call_tool(&*connection, "greet").await.unwrap()), "resumed");
}

#[tokio::test]
async fn a_stream_that_ends_without_an_answer_leaves_open_what_happened() {
    let server = Server::calling(|_seen: Seen| async move { events().1 }).await;
    let connection = connect(&server.url).await;

    let error = call_tool(&*connection, "greet").await.unwrap_err();

    assert!(matches!(error, McpError::Broken(_)), "{error:?}");
    assert!(!error.was_not_processed());
    assert_eq!(server.asked("tools/call").len(), 1);
}

#[tokio::test]
async fn an_answer_on_the_stream_of_the_session_is_received() {
    let writers: Arc<Mutex<Vec<tokio::sync::mpsc::UnboundedSender<String>>>> = Arc::default();
    let kept = Arc::clone(&writers);
    let server = Server::doing(move |seen: Seen| {
        let kept = Arc::clone(&kept);
        async move {
            match (seen.verb.as_str(), seen.method()) {
                ("GET", _) => {
                    let (writer, response) = events();
                    kept.lock().push(writer);
                    response
                }
                ("POST", "tools/call") => {
                    kept.lock()[0].send(event(&seen.result(&text("elsewhere")))).unwrap();
                    status(202)
                }
                _ => shake(&seen, Some("s1")).unwrap(),
            }
        }
    })
    .await;
    let connection = connect(&server.url).await;
    eventually("the stream is open", || !writers.lock().is_empty()).await;

    assert_eq!(says(&call_tool(&*connection, "greet").await.unwrap()), "elsewhere");

    assert_eq!(connection.tools_version(), 0);
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    writers.lock()[0].send(event(&changed)).unwrap();
    eventually("the change is known", || connection.tools_version() == 1).await;
}

#[tokio::test]
async fn a_server_without_sessions_works() {
    let server = Server::doing(|seen: Seen| async move {
        shake(&seen, None).unwrap_or_else(|| seen.ok(&text("stateless")))
    })
    .await;
    let connection = connect(&server.url).await;

    assert_eq!(says(&call_tool(&*connection, "greet").await.unwrap()), "stateless");
    connection.close().await;

    assert!(server.seen().iter().all(|seen| seen.header("mcp-session-id").is_none() && seen.verb == "POST"));
}

#[tokio::test]
async fn a_lost_session_is_an_error_before_the_call_and_nothing_is_sent_again() {
    for lost in [(|_seen: &Seen| status(404)) as fn(&Seen) -> axum::response::Response, |_seen| {
        failed(
            400,
            &json!({ "jsonrpc": "2.0", "id": null,
            "error": { "code": -32000, "message": "Bad Request: No valid session ID provided" } }),
        )
    }] {
        let server = Server::calling(move |seen: Seen| async move { lost(&seen) }).await;
        let connection = connect(&server.url).await;

        let error = call_tool(&*connection, "greet").await.unwrap_err();

        assert!(matches!(error, McpError::SessionLost), "{error:?}");
        assert_eq!((server.asked("tools/call").len(), server.asked("initialize").len()), (1, 1));
    }
}

#[tokio::test]
async fn a_call_that_failed_over_some_session_is_not_made_again() {
    let server = Server::calling(|seen: Seen| async move {
        failed(
            400,
            &json!({ "jsonrpc": "2.0", "id": seen.body["id"],
                "error": { "code": -32000, "message": "the browser session crashed" } }),
        )
    })
    .await;
    let connection = connect(&server.url).await;

    let error = call_tool(&*connection, "browse").await.unwrap_err();

    assert!(matches!(error, McpError::Protocol { code: -32000, .. }), "{error:?}");
    assert_eq!(server.asked("tools/call").len(), 1);
}

#[tokio::test]
async fn a_server_that_has_no_time_says_when_it_has() {
    let server = Server::calling(|_seen: Seen| async move {
        let mut response = status(503);
        response.headers_mut().insert("retry-after", HeaderValue::from_static("7"));
        response
    })
    .await;
    let connection = connect(&server.url).await;

    let error = call_tool(&*connection, "greet").await.unwrap_err();

    let wait = Some(Duration::from_secs(7));
    assert!(matches!(error, McpError::Http { status: 503, retry_after } if retry_after == wait), "{error:?}");
    assert_eq!(server.asked("tools/call").len(), 1, "a request is never sent again on its own");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let server = Server::calling(|_seen: Seen| async move {
        let mut response = status(307);
        response.headers_mut().insert("location", HeaderValue::from_static("/elsewhere"));
        response
    })
    .await;
    let connection = connect(&server.url).await;

    let error = call_tool(&*connection, "greet").await.unwrap_err();

    assert!(matches!(error, McpError::Http { status: 307, .. }), "{error:?}");
    assert!(server.seen().iter().all(|seen| seen.path == "/mcp"));
}

#[tokio::test]
async fn refused_credentials_are_tried_once_more_when_they_have_changed() {
    let server = Server::doing(|seen: Seen| async move {
        if seen.header("authorization") != Some("Bearer fresh") {
            let mut response = status(401);
            response.headers_mut().insert(
                "www-authenticate",
                HeaderValue::from_static("Bearer error=\"expired\", scope=\"a b\""),
            );
            return response;
        }
        shake(&seen, Some("s1")).unwrap_or_else(|| seen.ok(&text("welcome")))
    })
    .await;

    let token = Token::in_turn(&["stale", "fresh"]);
    let endpoint = at(&server.url, HttpKind::Streamable);
    let connection = client().connect(&endpoint, Arc::clone(&token) as Arc<dyn Credentials>).await.unwrap();
    assert_eq!(says(&call_tool(&*connection, "greet").await.unwrap()), "welcome");
    assert_eq!(token.refusals.load(Ordering::SeqCst), 1);
    assert_eq!(*token.challenges.lock(), ["a b"]);

    for names in [&["stale"][..], &["stale", "staler"]] {
        let error = client().connect(&endpoint, Token::in_turn(names)).await.err().unwrap();
        assert!(matches!(error, McpError::Unauthorized { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_json_rpc_error_keeps_its_code_and_its_words_whatever_the_status() {
    let server = Server::calling(|seen: Seen| async move {
        let body = json!({ "jsonrpc": "2.0", "id": seen.body["id"],
            "error": { "code": -32602, "message": "no such tool" } });
        match seen.body["params"]["name"].as_str() {
            Some("ok") => answer(&body),
            _ => failed(400, &body),
        }
    })
    .await;
    let connection = connect(&server.url).await;

    for name in ["ok", "bad"] {
        let error = call_tool(&*connection, name).await.unwrap_err();
        assert!(
            matches!(&error, McpError::Protocol { code: -32602, message } if message == "no such tool"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn an_error_of_somebody_on_the_way_keeps_its_status() {
    let server =
        Server::calling(|_seen: Seen| async move { failed(404, &json!({ "detail": "Not Found" })) }).await;
    let stateless = Server::doing(|seen: Seen| async move {
        shake(&seen, None).unwrap_or_else(|| match seen.body["params"]["name"].as_str() {
            Some("detail") => failed(404, &json!({ "detail": "Not Found" })),
            Some("error") => failed(400, &json!({ "error": "bad" })),
            Some("status") => failed(422, &json!({ "error": { "code": "bad" } })),
            _ => failed(502, &json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "" } })),
        })
    })
    .await;
    let connection = connect(&stateless.url).await;

    for (name, expected) in [("detail", 404), ("error", 400), ("status", 422), ("gateway", 502)] {
        let error = call_tool(&*connection, name).await.unwrap_err();
        assert!(matches!(error, McpError::Http { status, .. } if status == expected), "{error:?}");
    }
    let error = call_tool(&*connect(&server.url).await, "x").await.unwrap_err();
    assert!(matches!(error, McpError::SessionLost), "{error:?}");
}

/// 50 MB, in pieces; counts what could be written.
fn flood(before: String, written: Arc<AtomicUsize>) -> axum::body::Body {
    let pieces = (0..800).map(move |piece| {
        written.fetch_add(1, Ordering::SeqCst);
        let text = if piece == 0 { before.clone() } else { "x".repeat(64 * 1024) };
        Ok::<_, std::convert::Infallible>(text)
    });
    axum::body::Body::from_stream(futures_util::stream::iter(pieces))
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read_to_its_end_and_others_come_through() {
    let written = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&written);
    let server = Server::calling(move |seen: Seen| {
        let written = Arc::clone(&counted);
        async move {
            let head = seen.result(&text("")).to_string().replace("\"}]}}", "");
            let (kind, before) = match seen.body["params"]["name"].as_str() {
                Some("json") => ("application/json", head),
                Some("events") => ("text/event-stream", format!("data: {head}")),
                _ => return seen.ok(&text("small")),
            };
            let response = axum::response::Response::builder().header("content-type", kind);
            response.body(flood(before, written)).unwrap()
        }
    })
    .await;
    let connection = connect(&server.url).await;

    for name in ["json", "events"] {
        let error = call_tool(&*connection, name).await.unwrap_err();
        assert!(matches!(error, McpError::TooLarge { limit: MIB }), "{error:?}");
        assert_eq!(says(&call_tool(&*connection, "small").await.unwrap()), "small");
    }
    assert!(written.load(Ordering::SeqCst) < 800, "most of it was never taken");
}

/// A runtime of its own, so that its tasks are not counted.
fn server_elsewhere() -> (tokio::runtime::Runtime, Arc<Server>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(Server::calling(|seen: Seen| async move {
        let (writer, response) = events();
        if seen.body["params"]["name"] == "hang" {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        writer.send(event(&seen.result(&text("x")))).unwrap();
        response
    }));
    (runtime, server)
}

#[test]
fn no_task_and_no_socket_is_left_of_a_connection() {
    let (elsewhere, server) = server_elsewhere();
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    here.block_on(async {
        let metrics = tokio::runtime::Handle::current().metrics();
        for closes in [true, false] {
            let connection = connect(&server.url).await;
            call_tool(&*connection, "x").await.unwrap();
            let unanswered =
                tokio::time::timeout(Duration::from_millis(100), call_tool(&*connection, "hang"));
            assert!(unanswered.await.is_err());
            if closes {
                connection.close().await;
            }
            drop(connection);
            eventually("all tasks have ended", || metrics.num_alive_tasks() == 0).await;
        }
        let deleted = server.seen().iter().filter(|seen| seen.verb == "DELETE").count();
        assert_eq!(deleted, 2, "a session is also deleted when its connection is dropped");
    });
    elsewhere.shutdown_background();
}
