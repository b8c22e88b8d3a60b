//! Approvals and calls: a yes is for the credentials that it was asked with, and a model has only so many calls.

use antwort::config::{McpAuth, McpServerSettings};
use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::{Auth, McpServer};
use antwort_test_support::upstream::{Reply, Upstream};

fn brought(server: &McpServer, authorization: &str) -> Value {
    json!([{"type": "mcp", "server_label": "s", "server_url": server.url(), "authorization": authorization}])
}

fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

fn item<'a>(response: &'a Value, kind: &str) -> &'a Value {
    let mut output = response["output"].as_array().unwrap().iter();
    output.find(|item| item["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {response:#}"))
}

fn yes(response: &Value, tools: Value) -> Value {
    let id = &item(response, "mcp_approval_request")["id"];
    json!({"model": "test-model", "previous_response_id": response["id"], "tools": tools,
        "input": [{"type": "mcp_approval_response", "approval_request_id": id, "approve": true}]})
}

fn tokens_of_calls(server: &McpServer) -> Vec<Option<String>> {
    server.calls().iter().filter(|call| call.tool == "echo").map(|call| call.token.clone()).collect()
}

#[tokio::test]
async fn a_yes_to_a_call_with_one_token_is_none_to_a_call_with_another() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.auth(Auth::Tokens(vec!["alice", "mallory"]));
    let reachable =
        |settings: &mut antwort::config::Settings| settings.egress.allow = vec!["127.0.0.1".into()];
    for store in [true, false] {
        let gateway = Gateway::with_upstream(&upstream).set(reachable).spawn().await;
        let made = tokens_of_calls(&server).len();
        upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
        let ask = json!({"model": "test-model", "input": "Go.", "tools": brought(&server, "alice"), "store": store});
        let asked = gateway.create(ask).await;
        let answer = |response: &Value, token: &str, history: &[Value]| {
            let mut body = yes(response, brought(&server, token));
            if !store {
                let mut input = history.to_vec();
                input.extend(response["output"].as_array().unwrap().iter().cloned());
                input.extend(body["input"].as_array().unwrap().iter().cloned());
                body.as_object_mut().unwrap().remove("previous_response_id");
                (body["input"], body["store"]) = (json!(input), json!(false));
            }
            body
        };
        let with_other = answer(&asked, "mallory", &[]);
        let again = gateway.create(with_other.clone()).await;
        assert_eq!(again["status"], "completed", "no error: tokens are refreshed while people think");
        assert_eq!(kinds(&again), ["mcp_call", "mcp_approval_request"], "{again:#}");
        assert_eq!(item(&again, "mcp_call")["status"], "failed");
        assert!(again.to_string().contains("credentials"), "{again:#}");
        assert_eq!(tokens_of_calls(&server).len(), made, "no call");
        // The old yes is used up, also for whom it was asked for.
        gateway.refuse(answer(&asked, "alice", &[]), 400, "approval_not_open").await;
        upstream.text("Done.");
        let history = with_other["input"].as_array().unwrap().clone();
        let done = gateway.create(answer(&again, "mallory", &history)).await;
        assert_eq!(item(&done, "mcp_call")["output"], "hi", "{done:#}");
        assert_eq!(tokens_of_calls(&server).last().unwrap().as_deref(), Some("mallory"));
    }
}

#[tokio::test]
async fn a_yes_for_a_server_that_is_shown_the_callers_token_is_for_that_token() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.auth(Auth::Tokens(vec!["old", "refreshed"]));
    let forwarding =
        McpServerSettings { url: Some(server.url()), auth: McpAuth::Forward, ..McpServerSettings::default() };
    let with = |settings: &mut antwort::config::Settings| {
        settings.mcp.servers.insert("s".into(), forwarding);
    };
    let gateway = Gateway::with_upstream(&upstream).set(with).spawn().await;
    let gateway = gateway.with_header("authorization", "Bearer old");
    let tools = json!([{"type": "mcp", "server_label": "s", "require_approval": "always"}]);
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    let asked = gateway.create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
    let gateway = gateway.with_header("authorization", "Bearer refreshed");
    let again = gateway.create(yes(&asked, tools.clone())).await;
    assert_eq!(kinds(&again), ["mcp_call", "mcp_approval_request"], "{again:#}");
    upstream.text("Done.");
    let done = gateway.create(yes(&again, tools)).await;
    assert_eq!(item(&done, "mcp_call")["output"], "hi", "{done:#}");
    assert_eq!(tokens_of_calls(&server), [Some("refreshed".to_owned())]);
}

#[tokio::test]
async fn a_model_makes_128_calls_in_a_run_unless_somebody_says_otherwise() {
    let turn = |first: usize| Reply::Calls((first..first + 100).map(|n| ("noop", json!({"n": n}))).collect());
    for (asked, echoed, made) in
        [(None, Value::Null, 128), (Some(3), json!(3), 3), (Some(1000), json!(1000), 128)]
    {
        let upstream = Upstream::spawn().await;
        let (gateway, seen) = Gateway::with_upstream(&upstream).probe();
        let gateway = gateway.spawn().await;
        for begun in (0..made).step_by(100) {
            upstream.reply(turn(begun));
        }
        upstream.text("That is all.");
        let mut body = json!({"model": "test-model", "input": "Go.", "tools": [{"type": "mcp", "server_label": "antwort"}]});
        if let Some(asked) = asked {
            body["max_tool_calls"] = asked.into();
        }
        let response = gateway.create(body).await;
        assert_eq!(response["max_tool_calls"], echoed, "the gateway's limit is not the client's");
        assert_eq!(response["status"], "completed", "{}", response["error"]);
        let calls = kinds(&response).iter().filter(|kind| **kind == "mcp_call").count();
        assert_eq!((calls, seen.count("noop")), (made, made), "{asked:?}");
        assert_eq!(upstream.last()["tool_choice"], "none");
    }
}
