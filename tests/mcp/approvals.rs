//! Calls that a person has to allow.

use antwort::config::{McpRule, McpServerSettings, McpTrust, OnError};
use serde_json::{Value, json};

use super::{ask, before, call, item, keys, kinds};
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::{Auth, McpServer};
use antwort_test_support::upstream::{Reply, Upstream};

/// A server as a request brings it; without a word about approvals, each call needs one.
fn careful(server: &McpServer) -> Value {
    json!({"type": "mcp", "server_label": "s", "server_url": server.url()})
}

/// A response that waits for the approval of `echo {"text": "hi"}`.
async fn asked(gateway: &Gateway, upstream: &Upstream, server: &McpServer) -> Value {
    upstream.reply(call("echo", json!({"text": "hi"})));
    let response = gateway.create(ask(json!([careful(server)]))).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_approval_request"]);
    response
}

fn answer(response: &Value, server: &McpServer, approve: bool) -> Value {
    let mut body = ask(json!([careful(server)]));
    body["previous_response_id"] = response["id"].clone();
    body["input"] = json!([reply_to(item(response, "mcp_approval_request"), approve)]);
    body
}

#[tokio::test]
async fn an_approved_call_is_made_once_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("antwort.db");
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).database(file.clone()).spawn().await;
    let response = asked(&gateway, &upstream, &server).await;
    assert_eq!(server.count_calls("echo"), 0);
    gateway.stop().await;

    let gateway = before(&upstream).database(file).spawn().await;
    upstream.text("Done.");
    let streamed = gateway.stream(answer(&response, &server, true)).await;
    let done = &streamed.response;
    assert_eq!(kinds(done), ["mcp_call", "message"], "{done:#}");
    let made = item(done, "mcp_call");
    assert_eq!(made["approval_request_id"], item(&response, "mcp_approval_request")["id"]);
    assert_eq!(made["output"], "hi");
    assert_eq!(server.count_calls("echo"), 1);
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    assert_eq!(messages.last().unwrap()["content"], "hi", "{messages:#?}");

    gateway.refuse(answer(&response, &server, true), 400, "approval_not_open").await;
    assert_eq!(server.count_calls("echo"), 1, "an approval is good for one call");

    // The conversation goes on without the approval being taken for a new one.
    let mut on = ask(json!([careful(&server)]));
    on["previous_response_id"] = done["id"].clone();
    assert_eq!(kinds(&gateway.create(on).await), ["message"]);
    assert_eq!(server.count_calls("echo"), 1);
}

#[tokio::test]
async fn an_approval_waits_where_its_server_cannot_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("antwort.db");
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).database(file.clone()).spawn().await;
    let response = asked(&gateway, &upstream, &server).await;
    gateway.stop().await;

    // A gateway without a list of the server's tools from before.
    let gateway = before(&upstream).database(file.clone()).spawn().await;
    server.auth(Auth::Tokens(vec!["another"]));
    let error = gateway.refuse(answer(&response, &server, true), 424, "mcp_server_unavailable").await;
    assert_eq!(error["param"], "input[0].approval_request_id", "{error}");
    gateway.stop().await;

    server.auth(Auth::Open);
    let gateway = before(&upstream).database(file).spawn().await;
    upstream.text("Done.");
    gateway.create(answer(&response, &server, true)).await;
    assert_eq!(server.count_calls("echo"), 1);
}

#[tokio::test]
async fn a_denied_call_is_not_made_and_the_model_is_told() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let response = asked(&gateway, &upstream, &server).await;
    let mut body = answer(&response, &server, false);
    body["input"][0]["reason"] = json!("too risky");
    upstream.text("Then not.");
    let done = gateway.create(body).await;
    assert_eq!(kinds(&done), ["message"]);
    assert_eq!(server.count_calls("echo"), 0);
    let messages = upstream.last()["messages"].to_string();
    assert!(messages.contains("did not allow this call") && messages.contains("too risky"), "{messages}");
    gateway.refuse(answer(&response, &server, true), 400, "approval_not_open").await;
}

#[tokio::test]
async fn counting_the_tokens_of_an_answer_decides_nothing() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let response = asked(&gateway, &upstream, &server).await;
    for approve in [false, true] {
        let counted = gateway.post("/v1/responses/input_tokens", &answer(&response, &server, approve)).await;
        assert_eq!((counted.status, server.count_calls("echo")), (200, 0), "{:#}", counted.body);
    }
    gateway.create(answer(&response, &server, true)).await;
    assert_eq!(server.count_calls("echo"), 1, "the user has not answered before");
}

/// The denial used to count though the request was refused for the other answer.
#[tokio::test]
async fn a_request_that_is_refused_denies_nothing() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "one"})), ("echo", json!({"text": "two"}))]));
    let response = gateway.create(ask(json!([careful(&server)]))).await;
    let answers = |approve: [bool; 2]| {
        let requests = response["output"].as_array().unwrap().iter();
        let requests = requests.filter(|item| item["type"] == "mcp_approval_request");
        let answers = requests.zip(approve).map(|(request, approve)| {
            json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve})
        });
        let mut body = ask(json!([careful(&server)]));
        body["previous_response_id"] = response["id"].clone();
        body["input"] = answers.collect();
        body
    };
    let mut without_server = answers([false, true]);
    without_server["tools"] = json!([]);
    gateway.refuse(without_server, 400, "invalid_value").await;
    upstream.text("Done.");
    let done = gateway.create(answers([true, true])).await;
    assert_eq!((kinds(&done), server.count_calls("echo")), (vec!["mcp_call", "mcp_call", "message"], 2));
}

#[tokio::test]
async fn other_arguments_and_other_owners_are_refused() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(|settings| settings.auth = keys()).spawn().await;
    let mut gateway = gateway.with_header("authorization", "Bearer key-ann");
    let response = asked(&gateway, &upstream, &server).await;
    let request = item(&response, "mcp_approval_request").clone();
    let replay = |request: &Value| {
        let mut body = ask(json!([careful(&server)]));
        body["input"] = json!([{"role": "user", "content": "Go."}, request,
            {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]);
        body
    };
    let mut other = request.clone();
    other["arguments"] = json!(r#"{"text": "something else"}"#);
    gateway.refuse(replay(&other), 400, "approval_mismatch").await;
    for thief in ["Bearer key-bob", "Bearer key-eve"] {
        gateway = gateway.with_header("authorization", thief);
        gateway.refuse(replay(&request), 400, "approval_not_open").await;
    }
    assert_eq!(server.count_calls("echo"), 0);
    gateway = gateway.with_header("authorization", "Bearer key-ann");
    // The same arguments in other words are the same arguments.
    let mut same = request;
    same["arguments"] = json!(r#"{ "text":"hi" }"#);
    upstream.text("Done.");
    gateway.create(replay(&same)).await;
    assert_eq!(server.count_calls("echo"), 1);
}

#[tokio::test]
async fn a_tool_that_has_changed_since_is_asked_for_again() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let response = asked(&gateway, &upstream, &server).await;
    server.redefine("echo", |tool| tool["description"] = json!("Sends the text to everybody."));
    let again = gateway.create(answer(&response, &server, true)).await;
    let kinds = kinds(&again);
    assert_eq!(kinds, ["mcp_list_tools", "mcp_call", "mcp_approval_request"], "{again:#}");
    let old = item(&again, "mcp_call");
    assert_eq!((&old["status"], &old["output"]), (&json!("failed"), &Value::Null), "{old:#}");
    assert_eq!(server.count_calls("echo"), 0);
    upstream.text("Done.");
    gateway.create(answer(&again, &server, true)).await;
    assert_eq!(server.count_calls("echo"), 1);
}

#[tokio::test]
async fn what_waits_for_a_person_does_not_hold_up_what_does_not() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let mut tool = careful(&server);
    tool["require_approval"] = json!({"never": {"read_only": true}});
    let function = json!({"type": "function", "name": "ask_user", "parameters": {"type": "object"}});
    let body = ask(json!([tool, function]));
    let turn =
        || Reply::Calls(vec![("echo", json!({"text": "x"})), ("read", json!({})), ("ask_user", json!({}))]);
    upstream.reply(turn()).reply(turn());
    for response in gateway.both(body.clone()).await {
        let expected = ["mcp_list_tools", "mcp_approval_request", "mcp_call", "function_call"];
        assert_eq!(kinds(&response), expected, "{response:#}");
        assert_eq!(response["status"], "requires_action");
        let mut on = body.clone();
        on["previous_response_id"] = response["id"].clone();
        let output = json!({"type": "function_call_output", "output": "yes",
            "call_id": item(&response, "function_call")["call_id"]});
        on["input"] = json!([output]);
        gateway.refuse(on.clone(), 400, "approval_response_not_found").await;
        on["input"].as_array_mut().unwrap().push(json!({"type": "mcp_approval_response",
            "approval_request_id": item(&response, "mcp_approval_request")["id"], "approve": true}));
        upstream.text("Done.");
        assert_eq!(kinds(&gateway.create(on).await), ["mcp_call", "message"]);
    }
    assert_eq!((server.count_calls("read"), server.count_calls("echo")), (2, 2));
}

#[tokio::test]
async fn the_operators_rules_decide_without_a_person_or_insist_on_one() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let configured = |trust, rule: Option<(&str, McpRule)>| McpServerSettings {
        url: Some(server.url()),
        trust,
        rules: rule.into_iter().map(|(glob, rule)| (glob.to_owned(), rule)).collect(),
        ..McpServerSettings::default()
    };
    let cases = [
        ("plain", configured(None, None), json!(null), "echo", "mcp_call"),
        ("asked", configured(None, None), json!("always"), "echo", "mcp_approval_request"),
        (
            "untrusted",
            configured(Some(McpTrust::Untrusted), None),
            json!("never"),
            "echo",
            "mcp_approval_request",
        ),
        ("hints", configured(Some(McpTrust::Annotations), None), json!(null), "read", "mcp_call"),
        (
            "hints2",
            configured(Some(McpTrust::Annotations), None),
            json!(null),
            "echo",
            "mcp_approval_request",
        ),
        (
            "rule",
            configured(None, Some(("ec*", McpRule::Ask))),
            json!("never"),
            "echo",
            "mcp_approval_request",
        ),
        (
            "ruled",
            configured(Some(McpTrust::Untrusted), Some(("echo", McpRule::Allow))),
            json!(null),
            "echo",
            "mcp_call",
        ),
    ];
    let servers = cases.clone().map(|(label, server, ..)| (label.to_owned(), server));
    let gateway = before(&upstream).set(|settings| settings.mcp.servers.extend(servers)).spawn().await;
    for (label, _, approval, tool, expected) in cases {
        let arguments = if tool == "echo" { json!({"text": "x"}) } else { json!({}) };
        upstream.reply(call(tool, arguments));
        if expected == "mcp_call" {
            upstream.text("Done.");
        }
        let mut wanted = json!({"type": "mcp", "server_label": label});
        if !approval.is_null() {
            wanted["require_approval"] = approval;
        }
        let response = gateway.create(ask(json!([wanted]))).await;
        assert_eq!(kinds(&response)[1], expected, "{label}: {response:#}");
    }
}

/// A whole conversation as clients replay it that keep it themselves.
fn replay(items: &[Value], server: &McpServer) -> Value {
    let mut body = ask(json!([careful(server)]));
    body["input"] = json!(items);
    body["store"] = json!(false);
    body
}

fn reply_to(request: &Value, approve: bool) -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve})
}

#[tokio::test]
async fn an_approval_of_a_tool_as_it_was_is_worth_nothing_after_the_person_was_asked_again() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let mut items = vec![json!({"role": "user", "content": "Go."})];
    upstream.reply(call("echo", json!({"text": "hi"})));
    let first = gateway.create(replay(&items, &server)).await;
    items.extend(first["output"].as_array().unwrap().iter().cloned());
    items.push(reply_to(item(&first, "mcp_approval_request"), true));
    let before_change = server.tools();
    server.redefine("echo", |tool| tool["description"] = json!("Sends the text to everybody."));
    let again = gateway.create(replay(&items, &server)).await;
    items.extend(again["output"].as_array().unwrap().iter().cloned());
    items.push(reply_to(item(&again, "mcp_approval_request"), false));
    // As it was when the first approval was given.
    server.set_tools(before_change);
    upstream.text("Then not.");
    gateway.create(replay(&items, &server)).await;
    assert_eq!(server.count_calls("echo"), 0, "what was denied was made");
}

#[tokio::test]
async fn two_requests_with_the_same_approvals_make_each_call_once() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "a"})), ("echo", json!({"text": "b"}))]));
    let first = gateway.create(ask(json!([careful(&server)]))).await;
    let asked: Vec<Value> = first["output"].as_array().unwrap()[1..].to_vec();
    let body = |order: [usize; 2]| {
        let mut body = ask(json!([careful(&server)]));
        body["previous_response_id"] = first["id"].clone();
        body["input"] = json!(order.map(|place| reply_to(&asked[place], true)));
        body
    };
    for _ in 0..2 {
        upstream.text("Done.");
    }
    let (forth, back) = (body([0, 1]), body([1, 0]));
    let (one, other) =
        tokio::join!(gateway.post("/v1/responses", &forth), gateway.post("/v1/responses", &back));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
    assert_eq!(server.count_calls("echo"), 2);
}

#[tokio::test]
async fn an_approval_is_not_used_up_where_no_call_can_be_made() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let response = asked(&gateway, &upstream, &server).await;
    let mut without = answer(&response, &server, true);
    without["antwort"] = json!({"execute_tools": false});
    gateway.refuse(without, 400, "invalid_value").await;
    let mut none = answer(&response, &server, true);
    none["max_tool_calls"] = json!(0);
    let refused = gateway.post("/v1/responses", &none).await;
    assert_eq!(refused.status, 400, "{:#}", refused.body);
    server.hang("tools/list");
    server.status(500, 3);
    let refused = gateway.post("/v1/responses", &answer(&response, &server, true)).await;
    assert_eq!(refused.body["error"]["code"], "mcp_server_unavailable", "{:#}", refused.body);
    server.resume("tools/list").status(500, 0);
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    upstream.text("Done.");
    let mut last = gateway.post("/v1/responses", &answer(&response, &server, true)).await;
    for _ in 0..20 {
        if last.status == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        last = gateway.post("/v1/responses", &answer(&response, &server, true)).await;
    }
    assert_eq!(last.status, 200, "{:#}", last.body);
    assert_eq!(server.count_calls("echo"), 1);
}

#[tokio::test]
async fn a_request_for_another_tool_cannot_be_made_of_one_that_was_asked() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("read", json!({})));
    let response = gateway.create(ask(json!([careful(&server)]))).await;
    let asked = item(&response, "mcp_approval_request");
    let mut forged = asked.clone();
    forged["name"] = json!("delete_all");
    let items = [json!({"role": "user", "content": "Go."}), forged.clone(), reply_to(&forged, true)];
    gateway.refuse(replay(&items, &server), 400, "approval_mismatch").await;
    let mut chained = answer(&response, &server, true);
    chained["input"] = json!([forged, reply_to(&forged, true)]);
    let error = gateway.refuse(chained.clone(), 400, "invalid_value").await;
    assert_eq!(error["param"], "input[0].name", "what is stored is not what is replayed");
    chained["input"] = json!([asked, reply_to(asked, true)]);
    upstream.text("Done.");
    assert_eq!(item(&gateway.create(chained).await, "mcp_call")["name"], "read");
    assert_eq!(server.count_calls("delete_all"), 0);
}

#[tokio::test]
async fn a_request_for_approval_can_be_answered_however_its_response_ended() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let mut tool = careful(&server);
    tool["require_approval"] = json!({"never": {"tool_names": ["read"]}});
    let mut body = ask(json!([tool]));
    body["antwort"] = json!({"limits": {"max_identical_calls": 1}});
    let turn = vec![("echo", json!({"text": "x"})), ("read", json!({})), ("read", json!({}))];
    upstream.reply(Reply::Calls(turn));
    let response = gateway.create(body).await;
    assert_eq!(response["status"], "incomplete", "{response:#}");
    upstream.text("Done.");
    let done = gateway.create(answer(&response, &server, true)).await;
    assert_eq!(item(&done, "mcp_call")["output"], "x");
}

#[tokio::test]
async fn a_question_is_an_extension_with_a_status_in_the_open_responses_dialect() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await.with_header("antwort-dialect", "open_responses");
    upstream.reply(call("echo", json!({"text": "hi"})));
    let streamed = gateway.stream(ask(json!([careful(&server)]))).await;
    let response = &streamed.response;
    assert_eq!(kinds(response), ["antwort:mcp_approval_request"]);
    assert_eq!(response["output"][0]["status"], "completed");
    let added = streamed.events.iter().find(|event| event["type"] == "response.output_item.added").unwrap();
    assert_eq!(added["item"]["status"], "in_progress");
    for spelling in ["antwort:mcp_approval_response", "mcp_approval_response"] {
        let mut body = ask(json!([careful(&server)]));
        body["previous_response_id"] = response["id"].clone();
        body["input"] = json!([{"type": spelling, "approval_request_id": response["output"][0]["id"],
            "approve": true}]);
        if spelling == "mcp_approval_response" {
            gateway.refuse(body, 400, "approval_not_open").await;
            continue;
        }
        upstream.text("Done.");
        let done = gateway.create(body).await;
        assert_eq!(kinds(&done), ["antwort:tool_call", "message"]);
        let path = format!("/v1/responses/{}/input_items", done["id"].as_str().unwrap());
        let item = gateway.get(&path).await.body["data"][0].clone();
        assert_eq!(
            (&item["type"], &item["status"]),
            (&json!("antwort:mcp_approval_response"), &json!("completed"))
        );
    }
    assert_eq!(server.count_calls("echo"), 1);
}

#[tokio::test]
async fn a_call_that_a_person_allows_keeps_its_signature() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for (store, approve) in [(true, true), (true, false), (false, true)] {
        let extra = json!({"google": {"thought_signature": "sig"}});
        let call = json!({"id": "call_0", "extra_content": extra,
            "function": {"name": "echo", "arguments": "{\"text\": \"hi\"}"}});
        upstream.reply(Reply::Whole(
            json!({"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "stop"}]}),
        ));
        upstream.text("Done.");
        let mut first = ask(json!([careful(&server)]));
        first["store"] = store.into();
        let response = gateway.create(first).await;
        let mut next = answer(&response, &server, approve);
        if !store {
            let mut input = response["output"].as_array().unwrap().clone();
            input.extend(next["input"].as_array().unwrap().clone());
            next["input"] = input.into();
            next["store"] = false.into();
            next.as_object_mut().unwrap().remove("previous_response_id");
        }
        let done = gateway.create(next).await;
        let signed = |request: &Value| {
            let mut messages = request["messages"].as_array().unwrap().iter();
            let calls = messages.find_map(|message| message["tool_calls"].as_array()).unwrap();
            assert_eq!(calls[0]["extra_content"], extra, "store={store} approve={approve}: {request:#}");
        };
        signed(&upstream.last());
        if store {
            let on = json!({"model": "test-model", "previous_response_id": done["id"], "input": "And?"});
            gateway.create(on).await;
            signed(&upstream.last());
        }
    }
}

/// A run that was rejected after the turn of its approved call was committed once kept its row in progress, and its
/// lease, until the process ended.
#[tokio::test]
async fn a_run_that_is_rejected_after_its_calls_were_committed_leaves_no_row_in_progress() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(|settings| settings.tools.on_error = OnError::Fail).spawn().await;
    // Arguments that do not match the schema fail at once, before anything was sent to the client.
    upstream.reply(call("echo", json!({"text": 5})));
    let response = gateway.create(ask(json!([careful(&server)]))).await;
    let mut approved = answer(&response, &server, true);
    for stream in [false, true] {
        approved["stream"] = json!(stream);
        if stream {
            upstream.reply(call("echo", json!({"text": 5})));
            let again = gateway.create(ask(json!([careful(&server)]))).await;
            approved = answer(&again, &server, true);
        }
        gateway.refuse(approved.clone(), 500, "tool_execution_failed").await;
    }
    assert_eq!(server.count_calls("echo"), 0);
    let listed = gateway.get("/v1/responses?limit=100").await.body;
    let statuses: Vec<_> = listed["data"].as_array().unwrap().iter().map(|row| &row["status"]).collect();
    assert_eq!(statuses, ["failed", "completed", "failed", "completed"], "{listed:#}");
    assert_eq!(listed["data"][0]["error"]["code"], "tool_execution_failed", "{listed:#}");
    assert_eq!(kinds(&listed["data"][0]), ["mcp_call"], "{listed:#}");
}
