//! What the result of a tool leads to that comes behind its call.

use antwort::config::AgentSettings;
use antwort::tools::{
    Callback, LocalExecutor, Progress, ToolCall, ToolContext, ToolDefinition, ToolError, ToolExecutor,
    ToolKind, ToolOutcome, ToolOutput,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;

use super::{ask, callback, follow_up, gateway, made, report};
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::{eventually, openapi};

#[tokio::test]
async fn a_result_becomes_the_input_of_a_response_that_follows() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let response = gateway.create(ask(&upstream)).await;
    openapi::assert_response(&response);
    let id = response["id"].as_str().unwrap();
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "It was started."));
    let call = made(&gateway, id).await;
    assert_eq!((&call["status"], &call["output"]), (&json!("in_progress"), &json!("Started.")));
    let told = upstream.last()["messages"].to_string();
    assert!(told.contains("Started."), "the model goes on meanwhile: {told}");

    upstream.text("The sum is three.");
    let reported = report(&gateway, &callback(&server), &json!({"output": "three"})).await;
    assert_eq!(reported.status, 200, "{}", reported.body);
    let next = follow_up(&gateway, id).await;
    assert_eq!(text_of(&next), "The sum is three.");
    assert_eq!((&next["background"], &next["metadata"]), (&json!(true), &json!({"k": "v"})));
    let messages = upstream.last()["messages"].clone();
    let last = messages.as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(last.contains("The tool add") && last.contains("three"), "{last}");
    assert!(messages.to_string().contains("Started."), "what the model has seen stays: {messages}");
    let call = made(&gateway, id).await;
    assert_eq!((&call["status"], &call["output"]), (&json!("completed"), &json!("three")));
    openapi::assert_response(&gateway.get(&format!("/v1/responses/{id}")).await.body);
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn a_result_that_is_only_stored_is_seen_by_whoever_continues() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "store").spawn().await;
    for dialect in ["openai", "open_responses"] {
        let body = ask(&upstream);
        let http = reqwest::Client::new();
        use antwort_test_support::gateway::JsonBody;
        let create = http.post(format!("{}/v1/responses", gateway.base)).header("antwort-dialect", dialect);
        let response = gateway.send(create.json_body(&body)).await.body;
        let id = response["id"].as_str().unwrap();
        assert_eq!(report(&gateway, &callback(&server), &json!({"output": {"sum": 3}})).await.status, 200);
        assert!(eventually(async || made(&gateway, id).await["status"] == "completed").await);
        assert_eq!(made(&gateway, id).await["output"], r#"{"sum":3}"#);
        upstream.text("Three.");
        gateway.create(json!({"model": "test-model", "input": "And?", "previous_response_id": id})).await;
        let messages = upstream.last()["messages"].to_string();
        assert!(messages.contains("sum") && !messages.contains("Started."), "{messages}");
    }
    assert_eq!(upstream.requests().len(), 6, "nothing follows by itself");
}

#[tokio::test]
async fn a_result_of_a_call_that_shows_none_is_seen_by_whoever_continues() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "store").spawn().await;
    let mut body = ask(&upstream);
    body["antwort"] = json!({"stream_visibility": "hidden"});
    let id = gateway.create(body).await["id"].as_str().unwrap().to_owned();
    let shown = gateway.get(&format!("/v1/responses/{id}")).await.body;
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let continues = async || {
        upstream.text("Three.");
        gateway.create(json!({"model": "test-model", "input": "And?", "previous_response_id": id})).await;
        let messages = upstream.last()["messages"].to_string();
        messages.contains(r#""content":"three""#) && !messages.contains("Started.")
    };
    assert!(eventually(continues).await, "{:#}", upstream.last()["messages"]);
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.body, shown, "its client sees what it saw");
}

#[tokio::test]
async fn a_failure_is_a_result_too() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let id = gateway.create(ask(&upstream)).await["id"].as_str().unwrap().to_owned();
    upstream.text("What a pity.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"error": "no more numbers"})).await.status, 200);
    assert_eq!(text_of(&follow_up(&gateway, &id).await), "What a pity.");
    let call = made(&gateway, &id).await;
    assert_eq!((&call["status"], &call["output"]), (&json!("failed"), &Value::Null));
    assert!(call["error"].to_string().contains("no more numbers"), "{call}");
}

#[tokio::test]
async fn a_response_of_a_conversation_is_followed_in_it() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let conversation = gateway.post("/v1/conversations", &json!({})).await.body["id"].clone();
    let mut body = ask(&upstream);
    body["conversation"] = conversation.clone();
    gateway.create(body).await;
    upstream.text("The sum is three.");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let items = format!("/v1/conversations/{}/items?order=asc", conversation.as_str().unwrap());
    let kinds = async || -> Vec<Value> {
        let list = gateway.get(&items).await.body;
        list["data"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect()
    };
    let expected = ["message", "mcp_list_tools", "mcp_call", "message", "message", "message"];
    assert!(eventually(async || kinds().await == expected).await, "{:?}", kinds().await);
    let is_done = async || {
        let list = gateway.get(&items).await.body;
        list["data"][2]["status"] == "completed" && list["data"][2]["output"] == "three"
    };
    assert!(eventually(is_done).await, "{:#}", gateway.get(&items).await.body);
}

#[tokio::test]
async fn a_tool_that_may_not_go_on_is_given_no_callback_and_an_agent_decides_what_follows() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "store")
        .set(|settings| {
            settings.tools.overrides.clear();
            let agent: AgentSettings = serde_json::from_value(json!({"on_complete": "store"})).unwrap();
            settings.agents.insert("quiet".to_owned(), agent);
        })
        .spawn()
        .await;
    let response = gateway.create(ask(&upstream)).await;
    let call = made(&gateway, response["id"].as_str().unwrap()).await;
    assert_eq!(call["status"], "failed", "{call}");
    assert!(call["error"].to_string().contains("nothing waits for its result"), "{call}");
    assert_eq!(server.calls()[0].meta.get("antwort/callback"), None);
}

/// A tool of the program, which keeps its callbacks.
struct Slow(Arc<Mutex<Vec<Callback>>>);

#[async_trait]
impl ToolExecutor for Slow {
    fn id(&self) -> &str {
        "slow"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Custom
    }

    async fn list(&self) -> Result<Vec<ToolDefinition>, ToolError> {
        let definition = ToolDefinition::new("research", "Takes its time.", &json!({"type": "object"}));
        Ok(vec![ToolDefinition { executor: "slow".into(), ..definition.with_async() }])
    }

    async fn execute(
        &self,
        call: &ToolCall,
        _: &ToolContext,
        _: &Progress,
    ) -> Result<ToolOutcome, ToolError> {
        self.0.lock().push(call.callback.clone().expect("its work may go on"));
        let say = ToolOutput::started("Task started, will report back");
        Ok(ToolOutcome::Async { handle: "job-1".to_owned(), say })
    }
}

#[tokio::test]
async fn a_tool_of_the_program_reports_in_the_process_and_its_first_word_counts() {
    let upstream = Upstream::spawn().await;
    let callbacks = Arc::new(Mutex::new(Vec::new()));
    let gateway =
        Gateway::with_upstream(&upstream).executor(Arc::new(Slow(Arc::clone(&callbacks)))).spawn().await;
    let shown = gateway.get("/v1/tools/research").await.body;
    assert_eq!(shown["async"], "allow", "{shown}");
    upstream.reply(Reply::Calls(vec![("research", json!({}))])).text("Started.");
    let body =
        json!({"model": "test-model", "input": "Go.", "tools": [{"type": "mcp", "server_label": "antwort"}]});
    let streamed = gateway.stream(body).await;
    let id = streamed.response["id"].as_str().unwrap().to_owned();
    assert_eq!(made(&gateway, &id).await["status"], "in_progress");
    let callback = callbacks.lock().pop().unwrap();
    assert_eq!(callback.address(), None, "the gateway has no public URL");
    upstream.text("Found it.");
    assert!(callback.complete(Ok(ToolOutput::text("found"))).await.unwrap());
    assert!(!callback.complete(Err(ToolError::failed("lost"))).await.unwrap());
    assert_eq!(text_of(&follow_up(&gateway, &id).await), "Found it.");
    assert_eq!(made(&gateway, &id).await["output"], "found");
    // Outside of a response nobody waits.
    let direct = gateway.post("/v1/tools/research/execute", &json!({"arguments": {}})).await;
    assert_eq!(direct.body["is_error"], true, "{}", direct.body);
    _ = LocalExecutor::new("x", ToolKind::Custom, []);
}
