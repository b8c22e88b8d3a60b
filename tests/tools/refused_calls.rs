//! Calls that the gateway refuses (of no tool, or of one that the request does not allow) beside calls that pause a response:
//! whoever goes on tells the model of them, in the order in which it made its calls.

use serde_json::{Value, json};

use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Upstream};

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {"type": "object"}})
}

/// A request whose model calls a tool that does not exist, one of the client's, one that is not allowed, and another one of
/// the client's.
fn ask(upstream: &Upstream) -> Value {
    let names = ["fly", "first", "secret", "second"];
    upstream.reply(Reply::Calls(names.map(|name| (name, json!({}))).to_vec()));
    json!({"model": "test-model", "input": "Do it.", "allowed_tools": ["first", "second"],
        "tools": [function("first"), function("secret"), function("second")]})
}

/// What the client answers.
fn answers(response: &Value) -> Vec<Value> {
    let calls = response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "function_call");
    let answer = |call: &Value| json!({"type": "function_call_output", "call_id": call["call_id"], "output": format!("{} is done", call["name"])});
    calls.map(answer).collect()
}

/// The names of the calls of the only assistant message with calls, and what the model reads of each.
fn told(messages: &Value) -> Vec<(String, String)> {
    let messages = messages.as_array().unwrap();
    let has_calls =
        |message: &&Value| message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
    let with_calls: Vec<_> = messages.iter().filter(has_calls).collect();
    assert_eq!(with_calls.len(), 1, "one turn is one message: {messages:#?}");
    let result = |call: &Value| {
        let mut of = messages.iter().filter(|it| it["role"] == "tool" && it["tool_call_id"] == call["id"]);
        let text =
            of.next().unwrap_or_else(|| panic!("no result of {call} in {messages:#?}"))["content"].clone();
        assert!(of.next().is_none(), "one result a call: {messages:#?}");
        (call["function"]["name"].as_str().unwrap().to_owned(), text.as_str().unwrap().to_owned())
    };
    with_calls[0]["tool_calls"].as_array().unwrap().iter().map(result).collect()
}

#[track_caller]
fn assert_told(messages: &Value) {
    let told = told(messages);
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fly", "first", "secret", "second"], "{told:#?}");
    assert_eq!(told[0].1, "Error: there is no tool 'fly'");
    assert!(told[1].1.contains("is done") && told[3].1.contains("is done"), "{told:#?}");
    assert!(told[2].1.contains("not among the allowed tools"), "{told:#?}");
}

#[tokio::test]
async fn refused_calls_beside_a_pause_are_told_to_the_model_in_its_order() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for streamed in [false, true] {
        let body = ask(&upstream);
        let first = if streamed { gateway.stream(body).await.response } else { gateway.create(body).await };
        assert_eq!(first["status"], "requires_action", "{first:#}");
        let kinds: Vec<_> = first["output"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
        assert_eq!(kinds, ["first", "second"], "no item shows a refused call");
        upstream.text("Done.");
        let body =
            json!({"model": "test-model", "previous_response_id": first["id"], "input": answers(&first)});
        let second = gateway.create(body).await;
        assert_told(&upstream.last()["messages"]);
        upstream.text("Yes.");
        let body = json!({"model": "test-model", "previous_response_id": second["id"], "input": "Sure?"});
        gateway.create(body).await;
        assert_told(&upstream.last()["messages"]);
        let id = first["id"].as_str().unwrap();
        let trace = gateway.get(&format!("/v1/responses/{id}/trace")).await.body;
        openapi::assert_is("ResponseTrace", &trace);
        let calls = trace["turns"][0]["calls"].as_array().unwrap();
        let noted: Vec<_> = calls.iter().map(|call| (&call["name"], &call["error"])).collect();
        let expected = [(json!("fly"), json!("tool_not_found")), (json!("secret"), json!("access_denied"))];
        assert_eq!(noted, expected.each_ref().map(|(name, code)| (name, code)), "{trace:#}");
    }
    let metrics = reqwest::get(format!("{}/metrics", gateway.base)).await.unwrap().text().await.unwrap();
    for code in ["tool_not_found", "access_denied"] {
        let line =
            format!("antwort_tool_calls_total{{tool=\"other\",outcome=\"{code}\",executor=\"none\"}} 2\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test]
async fn refused_calls_beside_a_pause_are_known_without_a_store_and_in_a_conversation() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    // Who stores nothing replays what it was given.
    let mut body = ask(&upstream);
    body["store"] = json!(false);
    body["include"] = json!(["reasoning.encrypted_content"]);
    let first = gateway.create(body.clone()).await;
    let mut input = vec![json!({"role": "user", "content": "Do it."})];
    input.extend(first["output"].as_array().unwrap().iter().cloned());
    input.extend(answers(&first));
    upstream.text("Done.");
    body["input"] = json!(input);
    gateway.create(body).await;
    assert_told(&upstream.last()["messages"]);

    let conversation = gateway.post("/v1/conversations", &json!({})).await.body["id"].clone();
    let mut body = ask(&upstream);
    body["conversation"] = conversation.clone();
    let first = gateway.create(body).await;
    upstream.text("Done.");
    let body = json!({"model": "test-model", "conversation": conversation, "input": answers(&first)});
    gateway.create(body).await;
    assert_told(&upstream.last()["messages"]);
}

#[tokio::test]
async fn a_refused_call_in_a_turn_that_goes_on_keeps_its_place() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = Gateway::with_upstream(&upstream).set(|settings| {
        settings.egress.allow = vec!["127.0.0.1".into()];
    });
    let gateway = gateway.spawn().await;
    let call = |name: &'static str, number: i32| (name, json!({"a": number, "b": 1}));
    upstream.reply(Reply::Calls(vec![call("add", 1), call("fly", 0), call("add", 2)])).text("Two and three.");
    let tools = json!([{"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "never"}]);
    let first = gateway.create(json!({"model": "test-model", "input": "Add.", "tools": tools})).await;
    assert_eq!(text_of(&first), "Two and three.");
    let names = |messages: &Value| told(messages).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let seen = names(&upstream.last()["messages"]);
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[1], "fly");
    upstream.text("Yes.");
    gateway
        .create(json!({"model": "test-model", "input": "Sure?", "previous_response_id": first["id"]}))
        .await;
    let again = told(&upstream.last()["messages"]);
    assert_eq!((again.len(), again[1].0.as_str()), (3, "fly"), "{again:?}");
}

/// The message with the calls was two: the refused call was kept beside one of the client, as if that had begun an answer.
#[tokio::test]
async fn a_refused_call_behind_calls_of_the_gateway_and_of_the_client_is_told_in_their_message() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.egress.allow = vec!["127.0.0.1".into()])
        .spawn()
        .await;
    let calls = vec![("add", json!({"a": 1, "b": 1})), ("first", json!({})), ("fly", json!({}))];
    upstream.reply(Reply::Calls(calls));
    let brought =
        json!({"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "never"});
    let tools = json!([brought, function("first")]);
    let first =
        gateway.create(json!({"model": "test-model", "input": "Do it.", "tools": tools.clone()})).await;
    assert_eq!(first["status"], "requires_action", "{first:#}");
    upstream.text("Done.");
    let body = json!({"model": "test-model", "previous_response_id": first["id"], "input": answers(&first), "tools": tools});
    gateway.create(body).await;
    let told = told(&upstream.last()["messages"]);
    assert_eq!((told.len(), told[2].0.as_str()), (3, "fly"), "{told:?}");
    assert!(told[1].1.contains("is done"), "{told:?}");
}

#[tokio::test]
async fn a_refused_call_beside_one_that_needs_approval_is_told() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.egress.allow = vec!["127.0.0.1".into()])
        .spawn()
        .await;
    let tools = json!([{"type": "mcp", "server_label": "s", "server_url": server.url(), "require_approval": "always"}]);
    for approve in [true, false] {
        upstream.reply(Reply::Calls(vec![("fly", json!({})), ("add", json!({"a": 1, "b": 2}))]));
        let first = gateway.create(json!({"model": "test-model", "input": "Add.", "tools": tools})).await;
        let output = first["output"].as_array().unwrap();
        let request = output.iter().find(|item| item["type"] == "mcp_approval_request");
        let request = request.unwrap_or_else(|| panic!("{first:#}"));
        upstream.text("Done.");
        let given = json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}]);
        let body = json!({"model": "test-model", "input": given, "previous_response_id": first["id"], "tools": tools});
        gateway.create(body).await;
        let told = upstream.last()["messages"].to_string();
        let (fly, add) = (told.find(r#""name":"fly""#), told.find(r#"add""#));
        assert!(fly.is_some() && add.is_some() && fly < add, "{told}");
        assert!(told.contains("there is no tool 'fly'"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_asks_its_client_tells_of_refused_calls_at_any_replica() {
    let fleet = Fleet::new().await;
    let (first, second) = (fleet.builder().spawn().await, fleet.builder().spawn().await);
    let mut body = ask(&fleet.upstream);
    fleet.upstream.text("Done.");
    body["background"] = json!(true);
    body["antwort"] = json!({"client_tools": "inline"});
    let id = first.create(body).await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/responses/{id}");
    for (call_id, name) in [("call_1", "first"), ("call_3", "second")] {
        let given = json!({"call_id": call_id, "output": format!("{name} is done")});
        let is_taken = async || second.post(&format!("{path}/inputs"), &given).await.status < 300;
        assert!(eventually(is_taken).await, "{call_id}");
    }
    assert!(eventually(async || second.get(&path).await.body["status"] == "completed").await);
    assert_told(&fleet.upstream.last()["messages"]);
}
