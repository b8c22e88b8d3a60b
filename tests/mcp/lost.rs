//! Sessions that servers lose, in all the ways that servers say so: the next call works, and none is made twice.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ask, before, brought, call, item};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::{Answers, McpServer, UnknownSessionReply};
use antwort_test_support::upstream::Upstream;

/// Whether a call comes through at once, or the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Recovers {
    /// The server refused the call before it ran, so that it is made again.
    AtOnce,
    /// It may have run.
    WithTheNext,
}
use Recovers::{AtOnce, WithTheNext};

async fn echo(gateway: &Gateway, upstream: &Upstream, tool: &Value, text: &str) -> Value {
    upstream.reply(call("echo", json!({"text": text}))).text("Done.");
    let response = gateway.create(ask(json!([tool]))).await;
    assert_eq!(response["status"], "completed");
    item(&response, "mcp_call").clone()
}

fn forms() -> Vec<(UnknownSessionReply, Recovers)> {
    vec![
        // What the protocol has, and the TypeScript and Python SDKs say.
        (UnknownSessionReply::Status(404, ""), AtOnce),
        (
            UnknownSessionReply::Status(
                404,
                r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#,
            ),
            AtOnce,
        ),
        (
            UnknownSessionReply::Status(
                400,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#,
            ),
            AtOnce,
        ),
        (
            UnknownSessionReply::Status(
                400,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#,
            ),
            AtOnce,
        ),
        (UnknownSessionReply::Status(400, "Bad Request: No valid session ID provided"), AtOnce),
        (
            UnknownSessionReply::Status(
                400,
                r#"{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"Invalid session"}}"#,
            ),
            AtOnce,
        ),
        // What others say.
        (UnknownSessionReply::Status(401, "Unauthorized: Session not found"), AtOnce),
        (UnknownSessionReply::Status(403, "Forbidden"), AtOnce),
        (UnknownSessionReply::Status(405, ""), AtOnce),
        (UnknownSessionReply::Status(409, ""), AtOnce),
        (UnknownSessionReply::Status(410, ""), AtOnce),
        (UnknownSessionReply::Status(422, "Unexpected message, expect initialize request"), AtOnce),
        (UnknownSessionReply::Status(500, "Internal Server Error"), WithTheNext),
        (UnknownSessionReply::Status(502, ""), WithTheNext),
        (UnknownSessionReply::Status(503, r#"{"error":"no such backend"}"#), WithTheNext),
        (UnknownSessionReply::Error(-32000, "Server not initialized"), AtOnce),
        (UnknownSessionReply::Error(-32001, "Session not found"), AtOnce),
        (UnknownSessionReply::Error(-32602, "Invalid request parameters"), AtOnce),
        (UnknownSessionReply::Error(-32603, "KeyError: session"), WithTheNext),
        (UnknownSessionReply::EmptyStream, WithTheNext),
        (UnknownSessionReply::Cut, WithTheNext),
    ]
}

#[tokio::test]
async fn a_session_that_was_lost_in_any_form_is_replaced_by_the_next_call_at_the_latest() {
    for (form, recovers) in forms() {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        let tool = brought(&server);
        assert_eq!(echo(&gateway, &upstream, &tool, "one").await["output"], "one");
        server.on_unknown_session(form.clone()).restart();
        let first = echo(&gateway, &upstream, &tool, "two").await;
        assert_eq!(first["output"] == "two", recovers == AtOnce, "{form:?}: {first:#}");
        let second = echo(&gateway, &upstream, &tool, "three").await;
        assert_eq!(second["output"], "three", "{form:?}: {second:#}");
        let calls: Vec<_> = server.calls().iter().map(|call| call.arguments["text"].clone()).collect();
        let expected = match recovers {
            AtOnce => json!(["one", "two", "three"]),
            WithTheNext => json!(["one", "three"]),
        };
        assert_eq!(json!(calls), expected, "{form:?}");
        assert_eq!(server.count("initialize"), 2, "{form:?}");
    }
}

#[tokio::test]
async fn a_session_that_many_calls_find_lost_in_a_strange_form_is_replaced_once() {
    for form in [
        UnknownSessionReply::Status(400, "No valid session"),
        UnknownSessionReply::Error(-32001, "Session not found"),
    ] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        let tool = brought(&server);
        gateway.create(ask(json!([tool]))).await;
        server.on_unknown_session(form.clone()).restart();
        for i in 0..20 {
            upstream.reply(call("echo", json!({"text": i.to_string()})));
        }
        let responses = join_all((0..20).map(|_| gateway.create(ask(json!([tool]))))).await;
        for made in responses.iter().flat_map(|response| response["output"].as_array().unwrap()) {
            assert!(made["type"] != "mcp_call" || made["status"] == "completed", "{form:?}: {made:#}");
        }
        assert_eq!((server.count_calls("echo"), server.count("initialize")), (20, 2), "{form:?}");
    }
}

#[tokio::test]
async fn a_session_that_lives_is_kept_whatever_its_calls_come_to() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let tool = brought(&server);
    assert_eq!(echo(&gateway, &upstream, &tool, "one").await["output"], "one");
    for status in [400, 401, 404, 422, 500, 503] {
        server.status_of("tools/call", 1, (status, &[], "not this one"));
        // A 404 says it all: the protocol has no other meaning for it.
        if status == 404 {
            assert_eq!(echo(&gateway, &upstream, &tool, "x").await["output"], "x");
            continue;
        }
        let made = echo(&gateway, &upstream, &tool, "x").await;
        assert_eq!(made["error"]["code"], status, "{made:#}");
    }
    for code in [-32000, -32602, -32603] {
        server.errors("echo", code, "the browser session crashed");
        let made = echo(&gateway, &upstream, &tool, "x").await;
        assert_eq!(made["error"]["code"], code, "{made:#}");
    }
    assert_eq!(server.count("initialize"), 2, "the one of the beginning, and the one after the 404");
}

#[tokio::test]
async fn a_server_that_answers_nothing_but_errors_is_not_asked_to_begin_again_at_every_call() {
    for status in [400, 500, 503] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        let tool = brought(&server);
        assert_eq!(echo(&gateway, &upstream, &tool, "one").await["output"], "one");
        server.status(status, 1000);
        for _ in 0..12 {
            let made = echo(&gateway, &upstream, &tool, "x").await;
            // After so many statuses above 499 the server is left alone, which is the breaker's work.
            let code = &made["error"]["code"];
            assert!(*code == status || status >= 500 && code == "tool_unavailable", "{made:#}");
        }
        let begun = |method: &str| server.requests().iter().filter(|r| r.body["method"] == method).count();
        assert!((2..=5).contains(&begun("initialize")), "{status}: {} times", begun("initialize"));
        let calls = begun("tools/call");
        assert!(calls == 13 || status >= 500 && calls < 13, "{status}: {calls}: a call was made twice");
        // Where a 400 answers a handshake, the older transport is tried, which knows no sessions.
        assert!(server.take_faults().iter().all(|fault| status == 400 && fault == "no session: null"));
    }
}

#[tokio::test]
async fn a_session_whose_stream_is_refused_is_replaced_before_it_costs_a_call() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let tool = brought(&server);
    server.answers(Answers::SessionStream);
    assert_eq!(echo(&gateway, &upstream, &tool, "one").await["output"], "one");
    let refused = || server.requests().iter().filter(|request| request.method == "GET").count();
    let streams = refused();
    server.restart();
    assert!(eventually(async || refused() > streams).await, "the stream is asked for again");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let made = echo(&gateway, &upstream, &tool, "two").await;
    assert_eq!(made["output"], "two", "{made:#}");
    let calls = server.requests().iter().filter(|request| request.body["method"] == "tools/call").count();
    assert_eq!((calls, server.count("initialize")), (2, 2));
}

#[tokio::test]
async fn tools_of_a_lost_session_are_listed_over_a_new_one() {
    for form in [
        UnknownSessionReply::Status(400, "No valid session"),
        UnknownSessionReply::Status(500, ""),
        UnknownSessionReply::Error(-32001, "Session not found"),
    ] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream)
            .set(|settings| settings.mcp.tool_ttl = std::time::Duration::from_millis(1))
            .spawn()
            .await;
        let tool = brought(&server);
        gateway.create(ask(json!([tool]))).await;
        server.on_unknown_session(form.clone()).restart();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let response = gateway.create(ask(json!([tool]))).await;
        assert_eq!(item(&response, "mcp_list_tools")["error"], Value::Null, "{form:?}: {response:#}");
        assert_eq!((server.count("initialize"), server.count("tools/list")), (2, 2), "{form:?}");
    }
}

#[tokio::test]
async fn a_version_of_the_protocol_that_nobody_knows_ends_the_handshake() {
    for (answers, older) in [(Answers::Json, false), (Answers::Stream, false), (Answers::Json, true)] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        server.answers(answers).protocol("2099-01-01");
        let mut tool = brought(&server);
        if older {
            tool["server_url"] = json!(server.sse_url());
        }
        let response = gateway.create(ask(json!([tool]))).await;
        let error = item(&response, "mcp_list_tools")["error"].as_str().unwrap().to_owned();
        assert!(
            error.contains("2099-01-01") && error.contains("does not support"),
            "{answers:?} {older}: {error}"
        );
        assert_eq!(server.count("notifications/initialized"), 0, "{answers:?} {older}");
        assert_eq!(server.count("tools/list"), 0);
    }
}

#[tokio::test]
async fn an_old_server_that_wants_credentials_is_said_to_and_not_to_take_no_posts() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.only_sse_guarded();
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    let error = item(&response, "mcp_list_tools")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("refused the credentials") && !error.contains("status 405"), "{error}");
}
