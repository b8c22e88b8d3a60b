//! `kill -9` of the process that makes a background run, at several points: the next one goes on, a call that may have had
//! its effect is not made again, and who follows the stream sees one stream.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use antwort_test_support::gateway::{JsonBody, frames, frames_so_far, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::process::Process;
use antwort_test_support::stream_validator::assert_valid_resumed_stream;
use antwort_test_support::upstream::{Reply, Step, Upstream, call_ids, chunk, done, finish};
use antwort_test_support::{eventually, openapi};

/// The lease of a process is not waited for: the next one has its name.
async fn start(folder: &std::path::Path, upstream: &Upstream, server: &McpServer) -> Process {
    let url = server.url();
    let environment =
        [("ANTWORT__MCP__SERVERS__SHOP__URL", &*url), ("ANTWORT__MCP__SERVERS__SHOP__TRUST", "trusted")];
    Process::start_with_environment(folder, upstream, &environment).await
}

async fn get(gateway: &Process, path: &str) -> String {
    let url = format!("{}/v1/responses/{path}", gateway.base);
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

async fn stored(gateway: &Process, id: &str) -> Value {
    serde_json::from_str(&get(gateway, id).await).unwrap()
}

async fn create(gateway: &Process, body: &Value) -> String {
    let http = reqwest::Client::new();
    let answer = http.post(format!("{}/v1/responses", gateway.base)).json_body(body).send().await.unwrap();
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn ended(gateway: &Process, id: &str) -> Value {
    let is_over = async || super::is_over(&stored(gateway, id).await);
    assert!(eventually(is_over).await, "{:#}", stored(gateway, id).await);
    let response = stored(gateway, id).await;
    openapi::assert_response(&response);
    response
}

/// Follows a stream until it has this text, and returns what was read of whole events.
async fn follow_until(gateway: &Process, id: &str, text: &str) -> String {
    let url = format!("{}/v1/responses/{id}?stream=true", gateway.base);
    let mut stream = reqwest::get(url).await.unwrap();
    let mut seen = String::new();
    let read = async {
        while !seen.contains(text) {
            seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("the text comes");
    seen.truncate(seen.rfind("\n\n").unwrap() + 2);
    seen
}

fn ask() -> Value {
    json!({"model": "test-model", "input": "Go.", "background": true,
        "tools": [{"type": "mcp", "server_label": "shop", "require_approval": "never"}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_survives_kill_9_in_a_call_and_in_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.slow(1000, Duration::from_millis(100));
    let mut gateway = start(folder.path(), &upstream, &server).await;
    // The first turn ends well, the second is killed in a call that may have had its effect.
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "one"}))]));
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2})), ("slow", json!({}))]));
    let id = create(&gateway, &ask()).await;
    assert!(eventually(async || server.calls().iter().any(|call| call.tool == "slow")).await);
    let first = follow_until(&gateway, &id, "slow").await;
    gateway.kill();
    // The third is killed while the model speaks.
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"role": "assistant", "content": "It is half "})),
        chunk(json!({"content": "said"})),
        Step::Hang,
    ]));
    gateway.restart().await;
    let second = follow_until(&gateway, &id, "said").await;
    assert!(second.starts_with(&first), "what was sent stays as it was:\n{first}\n\n{second}");
    gateway.kill();
    upstream.text("Done.");
    gateway.restart().await;
    let response = ended(&gateway, &id).await;
    assert_eq!(response["status"], "completed", "{response:#}");

    let whole = get(&gateway, &format!("{id}?stream=true")).await;
    assert!(whole.starts_with(&second), "what was sent stays as it was:\n{second}\n\n{whole}");
    let events = frames(&whole);
    assert_eq!(assert_valid_resumed_stream(&events).response, response);
    let count = |tool: &str| server.calls().iter().filter(|call| call.tool == tool).count();
    assert_eq!([count("echo"), count("add"), count("slow")], [1, 1, 1], "no call is made twice");
    let output = response["output"].as_array().unwrap();
    let slow = output.iter().find(|item| item["name"] == "slow").unwrap();
    assert!(slow["error"].to_string().contains("may have been executed"), "{slow:#}");
    let cut = output.iter().find(|item| item["status"] == "incomplete").unwrap();
    assert_eq!(
        (&cut["type"], &cut["content"]),
        (&json!("message"), &json!([])),
        "no text stands there twice"
    );
    assert_eq!(text_of(&response), "Done.");
    let conversation = upstream.last()["messages"].to_string();
    assert!(conversation.contains("may have been executed"), "{conversation}");
    assert!(!conversation.contains("half"), "the model does not see what was cut off: {conversation}");

    upstream.text("More.");
    let more = json!({"model": "test-model", "input": "More?", "previous_response_id": id});
    let http = reqwest::Client::new();
    let more = http.post(format!("{}/v1/responses", gateway.base)).json_body(&more).send().await.unwrap();
    let more: Value = serde_json::from_str(&more.text().await.unwrap()).unwrap();
    assert_eq!(text_of(&more), "More.", "{more:#}");
    let conversation = upstream.last()["messages"].to_string();
    assert!(conversation.contains("Done.") && !conversation.contains("half"), "{conversation}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_no_harm_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.slow(1000, Duration::from_millis(100));
    server.redefine("slow", |tool| tool["annotations"] = json!({"readOnlyHint": true}));
    let mut gateway = start(folder.path(), &upstream, &server).await;
    upstream.reply(Reply::Calls(vec![("slow", json!({}))]));
    let id = create(&gateway, &ask()).await;
    assert!(eventually(async || server.calls().iter().any(|call| call.tool == "slow")).await);
    gateway.kill();
    server.slow(0, Duration::ZERO);
    upstream.text("Done.");
    gateway.restart().await;
    let response = ended(&gateway, &id).await;
    let call = response["output"].as_array().unwrap().iter().find(|item| item["name"] == "slow").unwrap();
    assert_eq!((&call["status"], &call["error"]), (&json!("completed"), &Value::Null), "{response:#}");
    assert_eq!(server.calls().len(), 2);
    assert_valid_resumed_stream(&frames(&get(&gateway, &format!("{id}?stream=true")).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_kills_its_process_again_and_again_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let mut gateway = start(folder.path(), &upstream, &server).await;
    let reply =
        |text: &str| Reply::Stream(vec![chunk(json!({"role": "assistant", "content": text})), Step::Hang]);
    upstream.reply(reply("attempt 1"));
    let id = create(&gateway, &ask()).await;
    let mut seen = follow_until(&gateway, &id, "attempt 1").await;
    for attempt in 2..=3 {
        gateway.kill();
        upstream.reply(reply(&format!("attempt {attempt}")));
        gateway.restart().await;
        let more = follow_until(&gateway, &id, &format!("attempt {attempt}")).await;
        assert!(more.starts_with(&seen), "{seen}\n\n{more}");
        seen = more;
    }
    gateway.kill();
    gateway.restart().await;
    let response = ended(&gateway, &id).await;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("run_attempts_exhausted"))
    );
    let whole = get(&gateway, &format!("{id}?stream=true")).await;
    assert!(whole.starts_with(&seen), "{seen}\n\n{whole}");
    assert_eq!(assert_valid_resumed_stream(&frames(&whole)).response, response);
    assert_eq!(upstream.requests().len(), 3);
    let is_list = |item: &&Value| item["type"] == "mcp_list_tools";
    let lists = response["output"].as_array().unwrap().iter().filter(is_list).count();
    assert_eq!(lists, 1, "tools that were listed are not listed again: {response:#}");
}

/// The calls of the turn before were shown again, and what was sent behind them was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_behind_a_turn_without_calls_shows_its_calls_once_and_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let url = server.url();
    let environment = [
        ("ANTWORT__MCP__SERVERS__SHOP__URL", &*url),
        ("ANTWORT__MCP__SERVERS__SHOP__TRUST", "trusted"),
        ("ANTWORT__JOBS__MAX_ATTEMPTS", "1"),
    ];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2}))]));
    upstream.reply(Reply::Calls(vec![("no_such_tool", json!({}))]));
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "It is half "})),
        chunk(json!({"content": "said"})),
        Step::Hang,
    ]));
    let id = create(&gateway, &ask()).await;
    let seen = follow_until(&gateway, &id, "said").await;
    gateway.kill();
    gateway.restart().await;
    let response = ended(&gateway, &id).await;
    assert_eq!(response["error"]["code"], "run_attempts_exhausted", "{response:#}");
    let output = response["output"].as_array().unwrap();
    assert_eq!(output.iter().filter(|item| item["type"] == "mcp_call").count(), 1, "{response:#}");
    assert_eq!(text_of(&response), "It is half said");
    let whole = get(&gateway, &format!("{id}?stream=true")).await;
    assert!(whole.starts_with(&seen), "{seen}\n\n{whole}");
    assert_eq!(assert_valid_resumed_stream(&frames(&whole)).response, response);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_when_their_process_is_killed_are_made_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let few = [("ANTWORT__JOBS__CONCURRENCY", "1")];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &few).await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "first"})), Step::Hang]));
    let body = json!({"model": "test-model", "input": "Go.", "background": true});
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(create(&gateway, &body).await);
    }
    assert!(eventually(async || upstream.open_streams() == 1).await);
    gateway.kill();
    upstream.always(Reply::Stream(vec![chunk(json!({"content": "Done."})), finish("stop"), done()]));
    gateway.restart().await;
    for id in &ids {
        assert_eq!(ended(&gateway, id).await["status"], "completed");
    }
}

/// Those of the turn before are stored beside their items, those of the last one are in the state of the run.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_returns_calls_under_the_ids_of_the_provider() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.slow(1000, Duration::from_millis(100));
    for store in [true, false] {
        let mut gateway = start(folder.path(), &upstream, &server).await;
        let signed = format!("call_2__thought__{}", "s".repeat(200));
        for (id, tool, arguments) in
            [("D681PevKs", "echo", json!({"text": "a"})), (&*signed, "slow", json!({}))]
        {
            let call = json!({"index": 0, "id": id, "type": "function",
                "function": {"name": tool, "arguments": arguments.to_string()}});
            let steps = vec![chunk(json!({"tool_calls": [call]})), finish("tool_calls"), done()];
            upstream.reply(Reply::Stream(steps));
        }
        let made = server.calls().len();
        let mut body = ask();
        body["store"] = store.into();
        let id = create(&gateway, &body).await;
        assert!(eventually(async || server.calls().len() == made + 2).await);
        gateway.kill();
        upstream.text("Done.");
        gateway.restart().await;
        ended(&gateway, &id).await;
        let sent = upstream.last();
        let ids = vec!["D681PevKs", &*signed];
        assert_eq!(call_ids(&sent), (ids.clone(), ids), "store={store}");
        gateway.kill();
    }
}

/// What was sent behind the last commit was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_state_cannot_be_opened_fails_with_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let key = |byte: u8| BASE64_STANDARD.encode([byte; 32]);
    let environment = [("ANTWORT_SEAL_KEYS", &*key(1))];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"role": "assistant", "content": "It is half "})),
        chunk(json!({"content": "said"})),
        Step::Hang,
    ]));
    let id = create(&gateway, &json!({"model": "test-model", "input": "Go.", "background": true})).await;
    let seen = follow_until(&gateway, &id, "said").await;
    gateway.kill();
    gateway.restart_with("ANTWORT_SEAL_KEYS", &key(2)).await;
    let response = ended(&gateway, &id).await;
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("run_unreadable"))
    );
    assert_eq!(response["output"][0]["status"], "incomplete", "{response:#}");
    assert_eq!(text_of(&response), "It is half said");
    let whole = get(&gateway, &format!("{id}?stream=true")).await;
    assert!(whole.starts_with(&seen), "what was sent stays as it was:\n{seen}\n\n{whole}");
    assert_eq!(assert_valid_resumed_stream(&frames(&whole)).response, response);
}

/// The calls of the turn in which the client was asked were shown twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_and_whose_state_cannot_be_opened_shows_its_calls_once() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let (url, key) = (server.url(), |byte: u8| BASE64_STANDARD.encode([byte; 32]));
    let environment = [
        ("ANTWORT__MCP__SERVERS__SHOP__URL", &*url),
        ("ANTWORT__MCP__SERVERS__SHOP__TRUST", "trusted"),
        ("ANTWORT_SEAL_KEYS", &*key(1)),
    ];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2})), ("look_up", json!({}))]));
    let mut body = ask();
    body["antwort"] = json!({"client_tools": "inline"});
    let look_up = json!({"type": "function", "name": "look_up", "parameters": {"type": "object"}});
    body["tools"].as_array_mut().unwrap().push(look_up);
    let id = create(&gateway, &body).await;
    let seen = follow_until(&gateway, &id, "antwort:input_required").await;
    let call_id = frames_so_far(&seen).last().unwrap()["call_id"].clone();
    gateway.kill();
    gateway.restart_with("ANTWORT_SEAL_KEYS", &key(2)).await;
    let answer = json!({"call_id": call_id, "output": "found"});
    let answered = reqwest::Client::new()
        .post(format!("{}/v1/responses/{id}/inputs", gateway.base))
        .json_body(&answer)
        .send();
    assert_eq!(answered.await.unwrap().status(), 202);
    let response = ended(&gateway, &id).await;
    assert_eq!(response["error"]["code"], "run_unreadable", "{response:#}");
    let output = response["output"].as_array().unwrap();
    assert_eq!(output.iter().filter(|item| item["type"] == "mcp_call").count(), 1, "{response:#}");
}
