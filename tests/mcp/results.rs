//! What the model reads of results, over every way on which they come.

use antwort::config::{McpServerSettings, McpTransport};
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, told};
use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::mcp_server::{Answers, McpServer, content, tools};
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

#[tokio::test]
async fn answers_are_found_wherever_they_come() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for (i, answers) in
        [Answers::Mixed, Answers::Json, Answers::Stream, Answers::SessionStream].into_iter().enumerate()
    {
        server.answers(answers);
        let mut tool = brought(&server);
        // Another session each time.
        tool["authorization"] = json!(format!("token-{i}"));
        upstream.reply(call("add", json!({"a": i, "b": 1}))).text("Done.");
        let response = gateway.create(ask(json!([tool]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], (i + 1).to_string(), "{answers:?}: {response:#}");
    }
    assert_eq!(server.sessions_made(), 4);
}

#[tokio::test]
async fn servers_of_every_kind_are_understood() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway = before(&upstream).spawn().await;
        server.protocol(version);
        upstream.reply(call("echo", json!({"text": version}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], version, "{response:#}");
    }
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.sessionless();
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "hi", "{response:#}");
}

#[tokio::test]
async fn the_older_transport_is_found_out_about_and_remembered() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for token in ["one", "two"] {
        let mut tool = brought(&server);
        tool["server_url"] = json!(server.sse_url());
        tool["authorization"] = json!(token);
        upstream.reply(call("echo", json!({"text": token}))).text("Done.");
        let response = gateway.create(ask(json!([tool]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], token, "{response:#}");
    }
    let posts =
        server.requests().iter().filter(|request| request.method == "POST" && request.path == "/sse").count();
    assert!(posts <= 1, "asked {posts} times how it is spoken to");
}

#[tokio::test]
async fn single_requests_are_enough_for_servers_that_are_configured_so() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let url = Some(server.base.clone());
    let gateway = before(&upstream)
        .set(|settings| {
            let transport = Some(McpTransport::JsonRpc);
            settings
                .mcp
                .servers
                .insert("plain".into(), McpServerSettings { url, transport, ..Default::default() });
        })
        .spawn()
        .await;
    server.per_page(4);
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(ask(json!([{"type": "mcp", "server_label": "plain"}]))).await;
    assert_eq!(item(&response, "mcp_list_tools")["tools"].as_array().unwrap().len(), 11);
    assert_eq!(item(&response, "mcp_call")["output"], "hi", "{response:#}");
    assert!(server.requests().iter().all(|request| request.path == "/rpc"));
}

#[tokio::test]
async fn all_pages_of_a_list_are_read_and_no_more() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.per_page(3);
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_list_tools")["tools"].as_array().unwrap().len(), 11);
    assert_eq!(server.count("tools/list"), 4);

    let endless = McpServer::spawn().await;
    endless.per_page(5).endless_pages();
    let response = gateway.create(ask(json!([brought(&endless)]))).await;
    assert_eq!(item(&response, "mcp_list_tools")["tools"].as_array().unwrap().len(), 11, "{response:#}");
    assert!(endless.count("tools/list") <= 100);
}

#[tokio::test]
async fn more_tools_than_one_server_may_have_are_left_out() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(|settings| settings.mcp.requests.max_tools = 10).spawn().await;
    server.set_tools((0..300).map(|i| tools::tool(&format!("tool_{i}"), json!({}))).collect());
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    let listed = item(&response, "mcp_list_tools")["tools"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 10);
    assert_eq!(listed[0]["name"], "tool_0", "the first ones stay");
}

#[tokio::test]
async fn content_of_every_kind_is_told_in_text() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let all = vec![
        content::text("words"),
        content::image(),
        content::audio(),
        content::resource("a note"),
        content::blob(),
        content::resource_link(),
        content::unknown(),
        json!("no object"),
        json!({"type": "text"}),
    ];
    server
        .says("echo", all)
        .returns("add", json!({"structuredContent": {"sum": 3}}))
        .returns("read", json!({}));
    upstream.reply(call("echo", json!({"text": ""}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    let text = told(&upstream);
    for piece in [
        "words",
        "[image: image/png, ",
        "[audio: audio/wav, ",
        "a note",
        "file:///data.bin",
        "large.csv",
        "hologram",
    ] {
        assert!(text.contains(piece), "{piece} is missing: {text}");
    }
    assert!(!text.contains("iVBORw0KGgo"), "no base64 for the model: {text}");
    assert_eq!(item(&response, "mcp_call")["output"], json!(text));
    for (tool, expected) in [("add", r#"{"sum":3}"#), ("read", "(no content)")] {
        let arguments = if tool == "add" { json!({"a": 1, "b": 2}) } else { json!({}) };
        upstream.reply(call(tool, arguments)).text("Done.");
        gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(told(&upstream), expected);
    }
}

#[tokio::test]
async fn results_that_are_none_are_errors_and_the_session_works_on() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for result in [json!("text"), json!({"content": "text"}), json!(null), json!([1])] {
        server.returns("add", result.clone());
        upstream.reply(call("add", json!({"a": 1, "b": 2}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["status"], "failed", "{result}: {response:#}");
        assert!(told(&upstream).starts_with("Error: "), "{result}");
    }
    upstream.reply(call("echo", json!({"text": "still"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "still");
    assert_eq!(server.count("initialize"), 1);
}

#[tokio::test]
async fn a_result_that_is_too_large_is_an_error_and_the_session_works_on() {
    for answers in [Answers::Stream, Answers::Json, Answers::SessionStream] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        let gateway =
            before(&upstream).set(|settings| settings.mcp.max_message_bytes = 1 << 20).spawn().await;
        server.answers(answers).big(4 << 20);
        upstream.reply(call("big", json!({}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["status"], "failed", "{answers:?}");
        assert!(told(&upstream).contains("larger than 1048576 bytes"), "{answers:?}: {}", told(&upstream));
        upstream.reply(call("echo", json!({"text": "still"}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["output"], "still", "{answers:?}");
        assert_eq!((server.count("initialize"), server.count_calls("big")), (1, 1), "{answers:?}");
    }
}

#[tokio::test]
async fn a_long_result_is_cut_for_the_model_and_can_be_read_on() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.big(2 << 20);
    upstream.reply(call("big", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "completed");
    assert!(told(&upstream).len() < 1 << 20, "{}", told(&upstream).len());
}

#[tokio::test]
async fn a_server_that_asks_where_it_may_work_is_told_that_nobody_knows() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    server.asks("echo", "roots/list");
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["output"], "hi", "{response:#}");
    assert_eq!(server.client_answers()[0]["error"]["code"], -32601);
}

#[tokio::test]
async fn a_list_that_no_model_could_read_is_not_kept() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    // Megabytes of JSON in a build without optimization, on a machine that may have other things to do.
    let patient = |settings: &mut antwort::config::Settings| {
        settings.mcp.list_timeout = std::time::Duration::from_secs(60);
    };
    let gateway = before(&upstream).set(patient).spawn().await;
    let long = |i| {
        json!({"name": format!("tool_{i}"), "description": "x".repeat(200_000),
        "inputSchema": {"type": "object"}})
    };
    server.set_tools((0..30).map(long).collect());
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert!(item(&response, "mcp_list_tools")["error"].as_str().unwrap().contains("larger than"));
    server.per_page(5);
    let mut tool = brought(&server);
    tool["allowed_tools"] = json!(["tool_0", "tool_14", "tool_15"]);
    // A list that failed after more than a second is not asked for again for as long.
    let mut listed = 0;
    let is_listed = async || {
        let response = gateway.create(ask(json!([tool]))).await;
        listed = item(&response, "mcp_list_tools")["tools"].as_array().unwrap().len();
        listed > 0
    };
    assert!(eventually(is_listed).await);
    assert_eq!(listed, 2, "what fits is kept");
    assert_eq!(server.count("tools/list"), 4);
}

#[tokio::test]
async fn a_huge_result_is_not_held_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let environment = [("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let http = reqwest::Client::new();
    let create = async || {
        let request = http.post(format!("{}/v1/responses", gateway.base));
        let text =
            request.json_body(&ask(json!([brought(&server)]))).send().await.unwrap().text().await.unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    upstream.reply(call("echo", json!({"text": "before"}))).text("Done.");
    create().await;
    let before = gateway.peak_memory();
    server.big(100 << 20);
    for answers in [Answers::Stream, Answers::Json, Answers::SessionStream] {
        server.answers(answers);
        upstream.reply(call("big", json!({}))).text("Done.");
        let response = create().await;
        assert_eq!(item(&response, "mcp_call")["status"], "failed", "{answers:?}");
        assert!(told(&upstream).contains("larger than 8388608 bytes"), "{answers:?}: {}", told(&upstream));
    }
    let more = gateway.peak_memory().saturating_sub(before) >> 20;
    // What is read until it is too much, with room for buffers that double; far from what was sent.
    assert!(more < 64, "{more} MiB more");
    upstream.reply(call("echo", json!({"text": "after"}))).text("Done.");
    assert_eq!(item(&create().await, "mcp_call")["output"], "after");
    assert_eq!(server.count("initialize"), 1);
}
