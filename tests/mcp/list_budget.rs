//! What tool lists cost: bytes that are counted over all sessions, and schemas that are compiled once they are used.

use antwort::config::Settings;
use serde_json::{Value, json};

use super::{ask, before, brought, call, item};
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::{McpServer, tools};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

fn with(max_list_bytes: usize) -> impl FnOnce(&mut Settings) {
    move |settings| settings.mcp.sessions.max_list_bytes = max_list_bytes
}

/// The server as a session of its own.
fn session(server: &McpServer, number: usize) -> Value {
    let mut tool = brought(server);
    tool["server_url"] = json!(format!("{}?i={number}", server.url()));
    tool
}

/// Five tools with 50 KiB of descriptions: with what is made of them, some 160 KiB.
fn wordy(name: &str) -> Vec<Value> {
    let tool = |number| {
        let mut tool = tools::tool(&format!("{name}_{number}"), json!({}));
        tool["description"] = json!("x".repeat(10 * KIB));
        tool
    };
    (0..5).map(tool).collect()
}

#[tokio::test]
async fn a_list_that_finds_no_room_fails_and_names_the_setting() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(with(100 * KIB)).spawn().await;
    server.set_tools(wordy("a"));
    let response = gateway.create(ask(json!([session(&server, 1)]))).await;
    let error = item(&response, "mcp_list_tools")["error"].as_str().unwrap_or_default();
    assert!(error.contains("mcp.sessions.max_list_bytes"), "{response:#}");
    assert_eq!(response["status"], "completed");

    server.set_tools(vec![tools::tool("small", json!({}))]);
    let response = gateway.create(ask(json!([session(&server, 2)]))).await;
    assert_eq!(item(&response, "mcp_list_tools")["tools"][0]["name"], "small", "{response:#}");
}

#[tokio::test]
async fn lists_of_idle_sessions_make_way_and_are_had_again() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(with(700 * KIB)).spawn().await;
    for number in 0..12 {
        let name = format!("of{number}");
        server.set_tools(wordy(&name));
        let response = gateway.create(ask(json!([session(&server, number)]))).await;
        let first = &item(&response, "mcp_list_tools")["tools"][0]["name"];
        assert_eq!(first, &json!(format!("{name}_0")), "{response:#}");
    }
    assert_eq!(server.count("tools/list"), 12);
    let response = gateway.create(ask(json!([session(&server, 11)]))).await;
    assert!(item(&response, "mcp_list_tools")["error"].is_null());
    assert_eq!(server.count("tools/list"), 12, "the last is kept");
    server.set_tools(wordy("of0"));
    let response = gateway.create(ask(json!([session(&server, 0)]))).await;
    assert_eq!(item(&response, "mcp_list_tools")["tools"][0]["name"], "of0_0");
    assert_eq!((server.count("tools/list"), server.sessions_made()), (13, 12), "the session itself was kept");
}

#[tokio::test]
async fn equal_lists_are_counted_once() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(with(400 * KIB)).spawn().await;
    server.set_tools(wordy("same"));
    for _ in 0..2 {
        for number in 0..12 {
            upstream.reply(call("same_3", json!({}))).text("Done.");
            let response = gateway.create(ask(json!([session(&server, number)]))).await;
            assert_eq!(item(&response, "mcp_call")["status"], "completed", "{response:#}");
        }
    }
    assert_eq!(server.count("tools/list"), 12, "none had to make way");
}

#[tokio::test]
async fn a_schema_that_cannot_be_compiled_fails_the_calls_of_its_tool() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let odd = tools::tool("odd", json!({"p": {"type": "string", "pattern": "(" }}));
    server.set_tools(vec![odd, tools::tool("good", json!({}))]);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("odd", json!({"p": "x"}))).reply(call("good", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    let error = item(&response, "mcp_call")["error"].to_string();
    assert!(error.contains("the schema of the tool's arguments cannot be compiled"), "{response:#}");
    assert_eq!((server.count_calls("odd"), server.count_calls("good")), (0, 1));
}

/// Thirty tools of 60 KiB, with as many patterns as a schema may have that each take a lot of memory once compiled.
fn heavy(number: usize) -> Vec<Value> {
    let property = |at: usize| {
        let bomb = json!({"type": "string", "pattern": format!("((a{{100}}){{100}}){at}")});
        (format!("p{at}"), if at < 50 { bomb } else { json!({"type": "string"}) })
    };
    let properties: serde_json::Map<String, Value> = (0..1_800).map(property).collect();
    let tool = |at| tools::tool(&format!("t{number}_{at}"), Value::Object(properties.clone()));
    (0..30).map(tool).collect()
}

#[tokio::test]
async fn many_sessions_with_long_lists_take_no_more_than_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let environment = [("ANTWORT_LOG", "error"), ("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let url = format!("{}/v1/responses", gateway.base);
    let create = async |number: usize| {
        server.set_tools(heavy(number));
        let mut body = ask(json!([session(&server, number)]));
        body["store"] = json!(false);
        let answer = reqwest::Client::new().post(&url).json_body(&body).send().await.unwrap();
        let answer = answer.text().await.unwrap();
        assert!(answer.contains(&format!("\"t{number}_29\"")), "{}", &answer[..1000]);
    };
    // What one request takes while it lasts.
    create(0).await;
    let one = gateway.peak_memory();
    for number in 1..32 {
        create(number).await;
    }
    let grown = gateway.peak_memory() - one;
    eprintln!("one request: {} MiB, 31 more: {} MiB (budget: 64 MiB)", one / MIB, grown / MIB);
    assert!(grown <= 128 * MIB, "{} MiB", grown / MIB);
}
