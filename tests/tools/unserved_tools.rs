//! Hosted tools that nobody here runs, in requests of clients that no list knows: left out beside others, and said so.

use std::time::Duration;

use antwort::config::UnservedTools;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, JsonBody, frames_so_far};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::websocket::WebSocket;
use antwort_test_support::{eventually, openapi};

/// Cline's tools by default: two hosted ones and 25 functions.
fn clines_tools() -> Value {
    let mut tools = vec![json!({"type": "web_search"}), json!({"type": "image_generation"})];
    let functions = (0..25).map(|n| {
        json!({"type": "function", "name": format!("tool_{n}"), "description": "Does something.", "strict": true,
            "parameters": {"type": "object", "properties": {}, "additionalProperties": false}})
    });
    tools.extend(functions);
    tools.into()
}

fn ask() -> Value {
    json!({"model": "test-model", "input": "Mend it.", "tools": clines_tools(), "tool_choice": "auto"})
}

async fn gateway(upstream: &Upstream) -> Gateway {
    Gateway::with_upstream(upstream)
        .spawn()
        .await
        .with_header("user-agent", "ai-sdk/openai/3.0.141 runtime/node.js/20")
}

fn omitted() -> Value {
    json!(["web_search", "image_generation"])
}

#[tokio::test]
async fn clines_default_request_was_a_400() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    let answer = gateway.post("/v1/responses", &ask()).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    assert_eq!(answer.headers["antwort-omitted-tools"], "web_search, image_generation");
    assert_eq!(answer.body["antwort"]["omitted_tools"], omitted());
    assert_eq!(answer.body["tools"].as_array().unwrap().len(), 27, "the request is echoed as it was sent");
    assert_eq!(upstream.last()["tools"].as_array().unwrap().len(), 25);
    let id = answer.body["id"].as_str().unwrap();
    let stored = gateway.get(&format!("/v1/responses/{id}")).await.body;
    assert_eq!(stored["antwort"]["omitted_tools"], omitted());
    let listed = gateway.get("/v1/responses").await.body;
    assert_eq!(listed["data"][0]["antwort"]["omitted_tools"], omitted());

    // In all snapshots of the stream, also of one that goes on.
    let mut next = ask();
    next["previous_response_id"] = id.into();
    let streamed = gateway.stream(next).await;
    let snapshots: Vec<_> = streamed.events.iter().filter_map(|event| event.get("response")).collect();
    assert_eq!(snapshots.len(), 3);
    for snapshot in snapshots {
        assert_eq!(snapshot["antwort"]["omitted_tools"], omitted(), "{snapshot:#}");
    }
    // Where nothing was left out there is nothing to tell.
    let plain = gateway.create(json!({"model": "test-model", "input": "Hi"})).await;
    assert_eq!(plain["antwort"], json!({"turns": 1}));
}

#[tokio::test]
async fn what_was_left_out_is_told_beside_the_options_of_a_run_over_a_socket_and_in_the_background() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    let mut body = ask();
    body["antwort"] = json!({"limits": {"max_turns": 3}, "structured": {"on_mismatch": "keep"}});
    let turn = WebSocket::connect(&gateway).await.turn(body.clone()).await;
    assert_eq!(turn.messages[0]["response"]["antwort"]["omitted_tools"], omitted());
    assert_eq!(turn.end["antwort"]["omitted_tools"], omitted());
    assert_eq!(turn.end["antwort"]["limits"]["max_turns"], 3);

    body["background"] = true.into();
    let answer = gateway.post("/v1/responses", &body).await;
    assert_eq!(answer.headers["antwort-omitted-tools"], "web_search, image_generation");
    assert_eq!(answer.body["antwort"]["omitted_tools"], omitted());
    let path = format!("/v1/responses/{}", answer.body["id"].as_str().unwrap());
    assert!(eventually(async || gateway.get(&path).await.body["status"] == "completed").await);
    let ended = gateway.get(&path).await.body;
    assert_eq!(ended["antwort"]["omitted_tools"], omitted());
    assert_eq!(
        (&ended["antwort"]["limits"]["max_turns"], &ended["antwort"]["turns"]),
        (&json!(3), &json!(1))
    );
    let counted = gateway.post("/v1/responses/input_tokens", &ask()).await;
    assert_eq!(counted.headers["antwort-omitted-tools"], "web_search, image_generation");
}

#[tokio::test]
async fn a_tool_that_is_alone_or_demanded_is_refused_and_the_refusal_names_the_setting() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    let alone =
        json!({"model": "test-model", "input": "Hi", "tools": [{"type": "web_search"}, {"type": "shell"}]});
    let mut demanded = ask();
    demanded["tool_choice"] = json!({"type": "web_search"});
    let mut listed = ask();
    listed["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "image_generation"}]});
    for (body, param) in
        [(alone, "tools[0].type"), (demanded, "tool_choice.type"), (listed, "tool_choice.tools[0].type")]
    {
        let error = gateway.refuse(body, 400, "unsupported_parameter").await;
        assert_eq!(error["param"], param);
        assert!(error["message"].as_str().unwrap().contains("compat.unserved_tools"), "{error}");
    }
    assert!(upstream.requests().is_empty());
    // Any other tool is reason enough, whoever runs it; so is a choice that another tool can meet.
    let own = json!([{"type": "web_search"}, {"type": "mcp", "server_label": "antwort"}]);
    let mut required = ask();
    required["tool_choice"] = "required".into();
    upstream.reply(Reply::Calls(vec![("tool_1", json!({}))]));
    let mut allowed = ask();
    allowed["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "function", "name": "tool_1"}, {"type": "image_generation"}]});
    for body in [required, allowed, json!({"model": "test-model", "input": "Hi", "tools": own})] {
        let response = gateway.create(body).await;
        assert_eq!(response["antwort"]["omitted_tools"][0], "web_search");
    }
    let refusing = Gateway::with_upstream(&upstream)
        .set(|settings| settings.compat.unserved_tools = UnservedTools::Refuse)
        .spawn()
        .await;
    let error = refusing.refuse(ask(), 400, "unsupported_parameter").await;
    assert!(error["message"].as_str().unwrap().contains("compat.unserved_tools"), "{error}");
}

/// The database outlives its process.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_out_is_told_by_the_process_that_takes_a_run_over() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.slow(1000, Duration::from_millis(100));
    let url = server.url();
    let environment =
        [("ANTWORT__MCP__SERVERS__SHOP__URL", &*url), ("ANTWORT__MCP__SERVERS__SHOP__TRUST", "trusted")];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let http = reqwest::Client::builder().user_agent("ai-sdk/openai/3.0.141").build().unwrap();
    let tools =
        json!([{"type": "web_search"}, {"type": "mcp", "server_label": "shop", "require_approval": "never"}]);

    // One that is ended by the next process, and one that goes on there.
    for background in [false, true] {
        upstream.reply(Reply::Calls(vec![("slow", json!({}))]));
        let body = json!({"model": "test-model", "input": "Go.", "tools": tools, "stream": true,
            "background": background, "antwort": {"limits": {"max_turns": 5}}});
        let (url, begun) = (format!("{}/v1/responses", gateway.base), server.calls().len());
        let mut stream = http.post(url).json_body(&body).send().await.unwrap();
        let mut text = String::new();
        while !text.contains("response.in_progress") {
            text.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
        }
        assert!(eventually(async || server.calls().len() > begun).await);
        text.truncate(text.rfind("\n\n").unwrap() + 2);
        let id = frames_so_far(&text)[0]["response"]["id"].as_str().unwrap().to_owned();
        gateway.kill();
        if background {
            upstream.text("Done.");
        }
        gateway.restart().await;
        let get = async || {
            let answer = http.get(format!("{}/v1/responses/{id}", gateway.base)).send().await.unwrap();
            serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap()
        };
        let expected = if background { "completed" } else { "failed" };
        assert!(eventually(async || get().await["status"] == expected).await, "{:#}", get().await);
        let response = get().await;
        openapi::assert_response(&response);
        assert_eq!(response["antwort"]["omitted_tools"], json!(["web_search"]), "{response:#}");
        assert_eq!(response["antwort"]["limits"]["max_turns"], 5);
    }
}
