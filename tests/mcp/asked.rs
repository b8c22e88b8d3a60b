//! What servers may ask of the gateway in the middle of a call.

use antwort::config::{ElicitationPolicy, McpServerSettings};
use serde_json::{Value, json};

use super::{ask, before, brought, call, item};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::Upstream;

fn answer(server: &McpServer) -> Value {
    server.client_answers().last().cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_server_that_asks_the_user_for_something_is_told_by_policy() {
    for (policy, action) in [(ElicitationPolicy::Decline, "decline"), (ElicitationPolicy::Cancel, "cancel")] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        server.asks("echo", "elicitation/create");
        let gateway = before(&upstream).set(|settings| settings.mcp.elicitation = policy).spawn().await;
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        assert_eq!(item(&response, "mcp_call")["status"], "completed", "{response:#}");
        assert_eq!(answer(&server)["result"]["action"], action);
    }
}

#[tokio::test]
async fn a_server_does_not_use_the_model_unless_the_operator_says_so() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("echo", "sampling/createMessage");
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    gateway.create(ask(json!([brought(&server)]))).await;
    assert!(answer(&server)["error"].is_object(), "{}", answer(&server));
    assert_eq!(upstream.requests().len(), 2);
}

/// A gateway whose server `known` may use the model, or not.
async fn sampling(upstream: &Upstream, server: &McpServer, sampling: bool) -> Gateway {
    let known = McpServerSettings { url: Some(server.url()), sampling, ..McpServerSettings::default() };
    before(upstream)
        .set(|settings| {
            settings.mcp.servers.insert("known".into(), known);
            settings.mcp.sampling.enabled = true;
            settings.mcp.sampling.model = Some("small-model".into());
            settings.mcp.sampling.max_requests = 1;
            settings.mcp.sampling.max_tokens = 7;
        })
        .spawn()
        .await
}

fn known() -> Value {
    json!({"type": "mcp", "server_label": "known"})
}

#[tokio::test]
async fn a_server_that_a_request_brings_or_that_is_not_named_for_it_never_uses_the_model() {
    for brings in [true, false] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        server.asks("echo", "sampling/createMessage");
        let gateway = sampling(&upstream, &server, brings).await;
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        let tool = if brings { brought(&server) } else { known() };
        gateway.create(ask(json!([tool]))).await;
        assert!(answer(&server)["error"].is_object(), "{brings}: {}", answer(&server));
        assert_eq!(upstream.requests().len(), 2, "{brings}");
    }
}

#[tokio::test]
async fn a_server_that_may_use_the_model_does_so_within_its_budget() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("echo", "sampling/createMessage");
    let gateway = sampling(&upstream, &server, true).await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("From the model.").text("Done.");
    gateway.create(ask(json!([known()]))).await;
    assert_eq!(answer(&server)["result"]["content"]["text"], "From the model.", "{}", answer(&server));
    let asked = &upstream.requests()[1].body;
    assert_eq!(asked["model"], "small-model");
    assert!(asked["tools"].is_null(), "{asked}");
    assert_eq!(asked["max_tokens"], 7, "{asked}");

    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    gateway.create(ask(json!([known()]))).await;
    assert!(
        answer(&server)["error"]["message"].as_str().unwrap().contains("rate limit"),
        "{}",
        answer(&server)
    );
    assert_eq!(
        gateway.get("/v1/responses").await.body["data"].as_array().unwrap().len(),
        2,
        "it is not kept"
    );
}
