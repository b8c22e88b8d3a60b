//! Servers that send without end what nobody asked for, over each transport: how much of it costs anything, and that
//! it ends.

use std::sync::atomic::AtomicU64;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};

use super::super::unsolicited::MAX_OPEN_REQUESTS;
use super::legacy::old;
use super::server::{Seen, Server, event, shake, status};
use super::stdio::program;
use super::*;

/// Requests of a server that cost an answer each.
const ASKED: [&str; 5] =
    ["ping", "elicitation/create", "sampling/createMessage", "roots/list", "nobody/knows_this"];

/// What is neither a request nor an answer: messages, and other events.
fn noises() -> Vec<(&'static str, String)> {
    let notice =
        |method: &str, params: Value| event(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    let said = "x".repeat(200);
    vec![
        ("progress", notice("notifications/progress", json!({"progressToken": 0, "progress": 1}))),
        ("changes", notice("notifications/tools/list_changed", json!({}))),
        ("lines", notice("notifications/message", json!({"level": "error", "data": said}))),
        ("withdrawals", notice("notifications/cancelled", json!({"requestId": 7}))),
        ("answers", event(&json!({"jsonrpc": "2.0", "id": 4711, "result": {}}))),
        ("errors", event(&json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}}))),
        ("no JSON", "data: no JSON\n\n".to_owned()),
        ("ids", "id: x\n\n".to_owned()),
        ("other events", format!("event: other\ndata: {said}\n\n")),
        ("comments", format!(": {said}\n\n")),
        ("a line without end", said),
    ]
}

/// A body without end, and how many pieces of it went out.
fn endless(piece: impl Fn(u64) -> String + Send + 'static) -> (Arc<AtomicU64>, Response) {
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let pieces = futures_util::stream::repeat_with(move || {
        let first = count.fetch_add(64, Ordering::SeqCst);
        let text: String = (first..first + 64).map(&piece).collect();
        Ok::<_, std::convert::Infallible>(Bytes::from(text))
    });
    let response = ([("content-type", "text/event-stream")], Body::from_stream(pieces)).into_response();
    (sent, response)
}

fn request(method: &'static str) -> impl Fn(u64) -> String + Send + 'static {
    move |id| {
        event(&json!({"jsonrpc": "2.0", "id": format!("q{id}"), "method": method,
        "params": {"message": "?", "messages": [], "maxTokens": 1}}))
    }
}

/// A server that answers a call, or the request for a stream of the session, with a flood.
async fn flooding(
    verb: &'static str,
    piece: impl Fn() -> Box<dyn Fn(u64) -> String + Send> + Send + Sync + 'static,
) -> (Arc<Server>, Arc<Mutex<Arc<AtomicU64>>>) {
    let sent: Arc<Mutex<Arc<AtomicU64>>> = Arc::default();
    let latest = Arc::clone(&sent);
    let server = Server::doing(move |seen: Seen| {
        let floods = match verb {
            "GET" => seen.verb == "GET",
            _ => seen.method() == "tools/call",
        };
        let response = if floods {
            let (count, response) = endless(piece());
            *latest.lock() = count;
            response
        } else {
            shake(&seen, Some("s1")).unwrap_or_else(|| status(202))
        };
        async move { response }
    })
    .await;
    (server, sent)
}

/// Answers to the server's requests that it got.
fn answers(server: &Server) -> usize {
    let is_answer = |seen: &Seen| seen.verb == "POST" && seen.method().is_empty();
    server.seen().iter().filter(|seen| is_answer(seen)).count()
}

/// Waits until nothing is sent any more.
async fn dries_up(sent: &Mutex<Arc<AtomicU64>>) {
    let count = || sent.lock().load(Ordering::SeqCst);
    let mut last = (count(), 0);
    for _ in 0..500 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        last = if count() == last.0 { (last.0, last.1 + 1) } else { (count(), 0) };
        if last.1 >= 20 {
            return;
        }
    }
    panic!("it is still read");
}

#[tokio::test]
async fn a_call_that_is_answered_with_requests_fails_and_few_of_them_are_answered() {
    for method in ASKED {
        let (server, sent) = flooding("POST", move || Box::new(request(method))).await;
        let connection = connect(&server.url).await;

        let error = call_tool(&*connection, "x").await.unwrap_err();

        assert!(error.to_string().contains("too many unsolicited messages"), "{method}: {error}");
        assert!(matches!(error, McpError::Broken(_)), "{method}: {error:?}");
        assert!(connection.is_closed() && connection.why_given_up().is_some());
        dries_up(&sent).await;
        assert!(answers(&server) <= 256, "{method}: {}", answers(&server));
    }
}

#[tokio::test]
async fn a_stream_of_a_session_that_is_full_of_requests_is_given_up_without_a_call() {
    for method in ASKED {
        let (server, sent) = flooding("GET", move || Box::new(request(method))).await;
        let connection = connect(&server.url).await;

        eventually("it is given up", || connection.why_given_up().is_some()).await;

        dries_up(&sent).await;
        assert!(answers(&server) <= 256, "{method}: {}", answers(&server));
        let streams = || server.seen().iter().filter(|seen| seen.verb == "GET").count();
        let opened = streams();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!((1..=2).contains(&opened) && streams() == opened, "it is not opened again and again");
        let error = call_tool(&*connection, "x").await.unwrap_err();
        assert!(error.was_not_processed(), "{error:?}");
    }
}

#[tokio::test]
async fn requests_that_nobody_takes_the_answers_of_are_not_piled_up() {
    let sent: Arc<AtomicUsize> = Arc::default();
    let got = Arc::clone(&sent);
    let server = Server::doing(move |seen: Seen| {
        let early = shake(&seen, Some("s1")).filter(|_| seen.verb != "GET");
        let got = Arc::clone(&got);
        async move {
            if let Some(response) = early {
                return response;
            }
            if seen.verb == "GET" {
                // One at a time, so that no burst is to blame.
                let pings = futures_util::stream::unfold(0_u64, |id| async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    let ping = event(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
                    Some((Ok::<_, std::convert::Infallible>(Bytes::from(ping)), id + 1))
                });
                return ([("content-type", "text/event-stream")], Body::from_stream(pings)).into_response();
            }
            got.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    })
    .await;
    let connection = connect(&server.url).await;

    eventually("it is given up", || connection.why_given_up().is_some()).await;

    assert!((1..=MAX_OPEN_REQUESTS).contains(&sent.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn what_is_neither_request_nor_answer_ends_a_connection_once_it_is_a_flood() {
    for (what, piece) in noises() {
        let noise = piece.clone();
        let (server, sent) = flooding("GET", move || {
            let noise = noise.clone();
            Box::new(move |_| noise.clone())
        })
        .await;
        let connection = connect(&server.url).await;
        eventually(what, || connection.why_given_up().is_some()).await;
        dries_up(&sent).await;

        let (server, sent) = flooding("POST", move || {
            let piece = piece.clone();
            Box::new(move |_| piece.clone())
        })
        .await;
        let connection = connect(&server.url).await;
        call_tool(&*connection, "x").await.unwrap_err();
        dries_up(&sent).await;
        assert_eq!(answers(&server), 0, "{what}");
    }
}

#[tokio::test]
async fn a_server_of_http_with_sse_is_given_up_as_well() {
    let given = [request("ping")(1), request("roots/list")(1)];
    for piece in given.into_iter().chain(noises().into_iter().map(|(_, piece)| piece)) {
        let flood = piece.clone();
        let server = old("/inbox", move |seen, writer| {
            if seen.method() == "tools/call" {
                // As many as a second of a flood has; requests by different ids.
                for first in (0..60_000).step_by(1_000) {
                    let numbered = |id: u64| flood.replace("\"q1\"", &id.to_string());
                    _ = writer.send((first..first + 1_000).map(numbered).collect());
                }
                // What is no message is a flood by its bytes.
                for _ in 0..160 {
                    _ = writer.send(format!(": {}\n\n", "x".repeat(MIB / 2)));
                }
            }
            status(202)
        })
        .await;
        let endpoint = at(&server.url, HttpKind::Sse);
        let connection = client().connect(&endpoint, Token::named("t0")).await.unwrap();
        let error = call_tool(&*connection, "x").await.unwrap_err();
        assert!(error.to_string().contains("too many unsolicited messages"), "{piece}: {error}");
        assert!(answers(&server) <= 256, "{}", answers(&server));
    }
}

/// A program that floods once it is called.
const PROGRAM: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "serverInfo": {"name": "py", "version": "0"}}}), flush=True)
    elif method == "tools/call":
        number = 0
        while True:
            number += 1
            sys.stdout.write(os.environ["LINE"].replace("NUMBER", str(number)) + "\n")
"#;

#[tokio::test]
async fn a_program_that_floods_is_ended() {
    let ping = r#"{"jsonrpc":"2.0","id":NUMBER,"method":"ping"}"#;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":NUMBER}}"#;
    for line in [ping, progress, "no JSON", " "] {
        let endpoint = program(PROGRAM, &[("LINE", line)]);
        let connection = client().connect(&endpoint, Token::named("t0")).await.unwrap();
        let call = call_tool(&*connection, "x");
        let error = tokio::time::timeout(Duration::from_secs(60), call).await.expect(line).unwrap_err();
        assert!(error.to_string().contains("too many unsolicited messages"), "{line}: {error}");
        assert!(connection.is_closed());
    }
}

#[tokio::test]
async fn a_request_that_is_very_long_is_answered_and_not_read() {
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (count, got) = (Arc::clone(&asked), Arc::clone(&answered));
    let server = Server::calling(move |seen| {
        let (count, got) = (Arc::clone(&count), Arc::clone(&got));
        async move {
            if seen.method() == "tools/call" {
                count.fetch_add(1, Ordering::SeqCst);
                let long = json!({"jsonrpc": "2.0", "id": "a", "method": "elicitation/create",
                    "params": {"message": "x".repeat(200_000), "requestedSchema": {"type": "object", "properties": {}}}});
                let both = event(&long) + &event(&seen.result(&text("done")));
                return ([("content-type", "text/event-stream")], both).into_response();
            }
            got.lock().push(seen.body);
            status(202)
        }
    })
    .await;
    let connection = connect(&server.url).await;

    assert_eq!(says(&call_tool(&*connection, "x").await.unwrap()), "done");

    eventually("it is answered", || !answered.lock().is_empty()).await;
    let answer = answered.lock()[0].clone();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32601)), "{answer}");
}

#[tokio::test]
async fn a_chatty_server_is_no_hostile_one() {
    let server = Server::calling(|seen| async move {
        let token = &seen.body["params"]["_meta"]["progressToken"];
        let progress = event(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1}}));
        let pings: String =
            (0..8).map(|id| event(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))).collect();
        let text = progress.repeat(10_000) + &pings + &event(&seen.result(&text("done")));
        match seen.method() {
            "tools/call" => ([("content-type", "text/event-stream")], text).into_response(),
            _ => status(202),
        }
    })
    .await;
    let connection = connect(&server.url).await;
    for round in 1..=2 {
        assert_eq!(says(&call_tool(&*connection, "x").await.unwrap()), "done");
        eventually("all pings are answered", || answers(&server) == 8 * round).await;
    }
    assert!(!connection.is_closed());
}
