//! Results of tools whose work goes on beside calls that wait for the client: no response can follow them, so that whoever
//! continues reads them in place of what the tool has said first.

use serde_json::{Value, json};

use super::{allow, answer, ask_both, callback, callbacks, gateway, made, report, started};
use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Upstream};

async fn continued(gateway: &Gateway, upstream: &Upstream, id: &Value, input: Value) -> (Value, Value) {
    upstream.text("Three.");
    let body = json!({"model": "test-model", "input": input, "previous_response_id": id});
    let response = gateway.create(body).await;
    (response, upstream.last()["messages"].clone())
}

async fn metrics(gateway: &Gateway) -> String {
    reqwest::get(format!("{}/metrics", gateway.base)).await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn a_result_beside_a_call_of_the_client_is_read_by_whoever_continues() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let first = gateway.create(ask_both(&upstream)).await;
    assert_eq!(first["status"], "requires_action", "{first:#}");
    let id = first["id"].as_str().unwrap();
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    // At once, whatever was done of the result until then.
    let (_, messages) = continued(&gateway, &upstream, &first["id"], answer(&first)).await;
    let told = messages.to_string();
    assert!(told.contains(r#""content":"three""#) && !told.contains("Started."), "{messages:#}");
    assert!(told.contains(r#""content":"found""#), "{messages:#}");
    assert!(eventually(async || made(&gateway, id).await["output"] == "three").await);
    let counted =
        async || metrics(&gateway).await.contains("antwort_follow_ups_total{outcome=\"stored\"} 1\n");
    assert!(eventually(counted).await, "{}", metrics(&gateway).await);
    let trace = gateway.get(&format!("/v1/responses/{id}/trace")).await.body;
    openapi::assert_is("ResponseTrace", &trace);
    assert_eq!(trace["turns"][0]["calls"][0]["follow_up_error"], "response_awaits_client", "{trace:#}");
    let (_, again) = continued(&gateway, &upstream, &first["id"], answer(&first)).await;
    assert_eq!(again, messages, "and later");
    assert_eq!(upstream.requests().len(), 3, "nothing follows by itself");
}

#[tokio::test]
async fn a_result_behind_the_answer_of_the_client_is_read_by_the_next() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    let first = gateway.create(ask_both(&upstream)).await;
    let (second, messages) = continued(&gateway, &upstream, &first["id"], answer(&first)).await;
    assert!(messages.to_string().contains("Started."), "{messages:#}");
    assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let (_, messages) = continued(&gateway, &upstream, &second["id"], json!("And?")).await;
    let told = messages.to_string();
    assert!(told.contains(r#""content":"three""#) && !told.contains("Started."), "{messages:#}");
}

#[tokio::test]
async fn a_result_beside_a_call_that_needs_approval_is_read_by_whoever_approves() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    for approve in [true, false] {
        upstream
            .reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2})), ("echo", json!({"text": "hello"}))]));
        let tools = json!([{"type": "mcp", "server_label": "shop",
            "require_approval": {"never": {"tool_names": ["add"]}}}]);
        let first = gateway.create(json!({"model": "test-model", "input": "Add.", "tools": tools})).await;
        let output = first["output"].as_array().unwrap();
        let request = output.iter().find(|item| item["type"] == "mcp_approval_request");
        let request = request.unwrap_or_else(|| panic!("{first:#}"));
        assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
        let given = json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}]);
        upstream.text("Three.");
        let body = json!({"model": "test-model", "input": given, "previous_response_id": first["id"], "tools": tools});
        gateway.create(body).await;
        let told = upstream.last()["messages"].to_string();
        assert!(told.contains(r#""content":"three""#) && !told.contains("Started."), "{told}");
        let id = first["id"].as_str().unwrap();
        assert!(eventually(async || made(&gateway, id).await["output"] == "three").await);
    }
    assert_eq!(upstream.requests().len(), 4, "nothing follows by itself");
}

#[tokio::test]
async fn a_result_in_a_conversation_is_followed_once_its_client_has_answered() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    for has_answered in [false, true] {
        let conversation = gateway.post("/v1/conversations", &json!({})).await.body["id"].clone();
        let mut body = ask_both(&upstream);
        body["conversation"] = conversation.clone();
        let first = gateway.create(body).await;
        let answered = json!({"model": "test-model", "input": answer(&first), "conversation": conversation});
        if has_answered {
            upstream.text("I wait.").text("The sum is three.");
            gateway.create(answered.clone()).await;
        }
        assert_eq!(report(&gateway, &callback(&server), &json!({"output": "three"})).await.status, 200);
        let id = first["id"].as_str().unwrap();
        assert!(eventually(async || made(&gateway, id).await["output"] == "three").await);
        if !has_answered {
            upstream.text("Three.");
            gateway.create(answered).await;
        }
        let told = async || upstream.last()["messages"].to_string().contains("three");
        assert!(eventually(told).await, "{has_answered}: {:#}", upstream.last()["messages"]);
        let messages = upstream.last()["messages"].to_string();
        assert_eq!(messages.contains("The tool add"), has_answered, "{messages}");
    }
}

#[tokio::test]
async fn two_responses_that_follow_one_know_the_results_of_both() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway(&upstream, &server, "follow_up").spawn().await;
    upstream.reply(Reply::Calls(vec![("add", json!({"a": 1, "b": 2})), ("add", json!({"a": 3, "b": 4}))]));
    upstream.text("Both were started.");
    let tools = json!([{"type": "mcp", "server_label": "shop", "require_approval": "never"}]);
    let id =
        gateway.create(json!({"model": "test-model", "input": "Add.", "tools": tools})).await["id"].clone();
    let paths = callbacks(&server);
    let following = async || {
        let list = gateway.get("/v1/responses").await.body;
        let data = list["data"].as_array().unwrap().clone();
        let is_done = |it: &&Value| it["previous_response_id"] == id && it["status"] == "completed";
        data.iter().filter(is_done).count()
    };
    upstream.text("The first is three.");
    assert_eq!(report(&gateway, &paths[0], &json!({"output": "three"})).await.status, 200);
    assert!(eventually(async || following().await == 1).await);
    let told = upstream.last()["messages"].to_string();
    assert!(told.contains("three") && !told.contains("seven"), "{told}");
    upstream.text("The second is seven.");
    assert_eq!(report(&gateway, &paths[1], &json!({"output": "seven"})).await.status, 200);
    assert!(eventually(async || following().await == 2).await);
    let messages = upstream.last()["messages"].clone();
    let last = messages.as_array().unwrap().last().unwrap()["content"].to_string();
    let (three, seven) = (last.find("three").expect("the first"), last.find("seven").expect("its own"));
    assert!(three < seven, "{last}");
    assert_eq!(
        messages.to_string().matches("Started.").count(),
        2,
        "what the model has seen stays: {messages}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_beside_a_call_of_the_client_is_read_at_any_replica() {
    let fleet = Fleet::new().await;
    let server = McpServer::spawn().await;
    server.returns("add", started());
    let replica =
        async || fleet.builder().set(|settings| allow(settings, &server, "follow_up")).spawn().await;
    let (first, second) = (replica().await, replica().await);
    let paused = first.create(ask_both(&fleet.upstream)).await;
    assert_eq!(report(&second, &callback(&server), &json!({"output": "three"})).await.status, 200);
    let (response, messages) = continued(&second, &fleet.upstream, &paused["id"], answer(&paused)).await;
    let told = messages.to_string();
    assert!(told.contains(r#""content":"three""#) && !told.contains("Started."), "{messages:#}");
    assert_eq!(text_of(&response), "Three.");
    let id = paused["id"].as_str().unwrap();
    assert!(eventually(async || made(&first, id).await["output"] == "three").await);
    let trace = async || first.get(&format!("/v1/responses/{id}/trace")).await.body.to_string();
    assert!(eventually(async || trace().await.contains("response_awaits_client")).await);
    assert_eq!(first.delete(&format!("/v1/responses/{id}")).await.status, 200);
    assert_eq!(report(&second, &callback(&server), &json!({"output": "four"})).await.status, 404);
}
