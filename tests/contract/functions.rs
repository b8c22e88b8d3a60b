//! Functions that the client runs: the pause, the ways to resume, choices, and what must be refused.

use antwort::config::ClientActionStatus;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Upstream};

fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!([
        {"type": "function", "name": "get_weather", "description": "Weather", "parameters": parameters},
        {"type": "function", "name": "get_time", "parameters": null},
    ])
}

fn ask(extra: Value) -> Value {
    let mut body = json!({"model": "test-model", "input": "Weather in Oslo?", "tools": tools()});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn weather() -> Reply {
    Reply::Calls(vec![("get_weather", json!({"city": "Oslo"}))])
}

#[tokio::test]
async fn a_call_pauses_the_response_and_its_output_resumes_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for streamed in [false, true] {
        upstream.reply(weather());
        let first = match streamed {
            false => gateway.create(ask(json!({}))).await,
            true => gateway.stream(ask(json!({}))).await.response,
        };
        assert_eq!(first["status"], "requires_action");
        let call = &first["output"][0];
        assert_eq!(call["type"], "function_call");
        assert_eq!(call["arguments"], "{\"city\":\"Oslo\"}");
        upstream.text("4 degrees.");
        let output = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "4 C"}]);
        let second = gateway
            .create(json!({"model": "test-model", "previous_response_id": first["id"], "input": output, "tools": tools()}))
            .await;
        assert_eq!(second["status"], "completed");
        assert_eq!(text_of(&second), "4 degrees.");
        let messages = upstream.last()["messages"].clone();
        assert_eq!(messages[0], json!({"role": "user", "content": "Weather in Oslo?"}));
        assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], "get_weather");
        assert_eq!(messages[2], json!({"role": "tool", "tool_call_id": call["call_id"], "content": "4 C"}));
    }
}

#[tokio::test]
async fn a_full_replay_resumes_as_well() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(weather());
    let first = gateway.create(ask(json!({"store": false}))).await;
    let call = first["output"][0].clone();
    let mut bare = call.clone();
    for key in ["id", "status"] {
        bare.as_object_mut().unwrap().remove(key);
    }
    for call in [call, bare] {
        let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output":
            [{"type": "input_text", "text": "4 C"}]});
        let input = json!([{"role": "user", "content": "Weather in Oslo?"}, call, output]);
        let second = gateway.create(json!({"model": "test-model", "input": input, "store": false})).await;
        assert_eq!(second["status"], "completed");
        assert_eq!(upstream.last()["messages"][2]["content"], "4 C");
    }
}

#[tokio::test]
async fn a_call_that_is_in_the_history_and_replayed_counts_once() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(weather());
    let first = gateway.create(ask(json!({}))).await;
    let call = first["output"][0].clone();
    let input = json!([call, {"type": "function_call_output", "call_id": call["call_id"], "output": "4 C"}]);
    gateway.create(json!({"model": "test-model", "previous_response_id": first["id"], "input": input})).await;
    assert_eq!(upstream.last()["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn every_open_call_must_be_answered_and_only_those() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("get_weather", json!({"city": "Oslo"})), ("get_time", json!({}))]));
    let first = gateway.create(ask(json!({}))).await;
    assert_eq!(first["output"].as_array().unwrap().len(), 2);
    let answer = |ids: &[&Value]| {
        let outputs: Vec<_> = ids
            .iter()
            .map(|id| json!({"type": "function_call_output", "call_id": id, "output": "x"}))
            .collect();
        json!({"model": "test-model", "previous_response_id": first["id"], "input": outputs})
    };
    let (a, b) = (&first["output"][0]["call_id"], &first["output"][1]["call_id"]);
    let error = gateway.refuse(answer(&[a]), 400, "tool_output_not_found").await;
    assert_eq!(error["param"], "input");
    assert!(error["message"].as_str().unwrap().contains(b.as_str().unwrap()));
    let error = gateway.refuse(answer(&[a, b, &json!("call_stranger")]), 400, "tool_call_not_found").await;
    assert_eq!(error["param"], "input[2].call_id");
    assert!(error["message"].as_str().unwrap().starts_with("No tool call found for function call output"));
    let error = gateway.refuse(answer(&[a, b, a]), 400, "invalid_value").await;
    assert_eq!(error["param"], "input[2].call_id");
    gateway.create(answer(&[b, a])).await;
    let messages = upstream.last()["messages"].clone();
    assert_eq!(messages[1]["tool_calls"].as_array().unwrap().len(), 2, "parallel calls are one message");
}

#[tokio::test]
async fn the_status_of_a_pause_is_a_setting() {
    let upstream = Upstream::spawn().await;
    for (status, execution, expected) in [
        (ClientActionStatus::RequiresAction, true, "requires_action"),
        (ClientActionStatus::Completed, true, "completed"),
        (ClientActionStatus::Auto, true, "completed"),
        (ClientActionStatus::RequiresAction, false, "completed"),
    ] {
        let gateway = Gateway::with_upstream(&upstream)
            .set(|s| {
                s.engine.client_action_status = status;
                s.tools.execution_enabled = execution;
            })
            .spawn()
            .await;
        upstream.reply(weather());
        let response = gateway.create(ask(json!({}))).await;
        assert_eq!(response["status"], expected, "{status:?} {execution}");
    }
}

#[tokio::test]
async fn choices_reach_the_provider_in_its_form() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let function = json!({"type": "function", "function": {"name": "get_time"}});
    for (choice, expected) in [
        (json!("auto"), json!("auto")),
        (json!("required"), json!("required")),
        (json!("none"), json!("none")),
        (json!({"type": "function", "name": "get_time"}), function),
    ] {
        let response = gateway.create(ask(json!({"tool_choice": choice}))).await;
        assert_eq!(response["tool_choice"], choice);
        let sent = upstream.last()["tool_choice"].clone();
        assert!(sent == expected || (sent.is_null() && expected == "auto"), "{choice}: {sent}");
    }
}

#[tokio::test]
async fn choices_of_tools_that_are_not_there_are_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let nowhere = json!({"type": "function", "name": "nowhere"});
    let error = gateway.refuse(ask(json!({"tool_choice": nowhere})), 400, "invalid_value").await;
    assert_eq!(error["param"], "tool_choice");
    let error = gateway
        .refuse(
            ask(json!({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [nowhere]}})),
            400,
            "invalid_value",
        )
        .await;
    assert_eq!(error["param"], "tool_choice.tools[0]");
    let error =
        gateway.refuse(ask(json!({"tool_choice": "required", "tools": []})), 400, "invalid_value").await;
    assert_eq!(error["param"], "tool_choice");
}

#[tokio::test]
async fn a_call_outside_the_allowed_tools_never_shows_and_goes_back_to_the_model() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let choice =
        json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]});
    for extra in [json!({"tool_choice": choice}), json!({"allowed_tools": ["get_time"]})] {
        upstream.reply(weather()).text("Then not.");
        let streamed = gateway.stream(ask(extra)).await;
        assert_eq!(text_of(&streamed.response), "Then not.");
        assert!(streamed.events.iter().all(|event| event["item"]["type"] != "function_call"));
        assert_eq!(streamed.response["usage"]["total_tokens"], 16, "usage is summed over the turns");
        let messages = upstream.last()["messages"].clone();
        assert!(
            messages[2]["content"].as_str().unwrap().contains("not among the allowed tools"),
            "{messages}"
        );
        assert_eq!(upstream.last()["tools"].as_array().unwrap().len(), 2, "all tools stay visible");
    }
}

#[tokio::test]
async fn choice_none_is_enforced_where_the_model_does_not_heed_it() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(weather());
    let response = gateway.create(ask(json!({"tool_choice": "none"}))).await;
    assert_eq!(response["status"], "completed");
    assert!(response["output"].as_array().unwrap().iter().all(|item| item["type"] == "message"));
}

#[tokio::test]
async fn a_model_that_only_calls_what_it_must_not_is_stopped() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for _ in 0..6 {
        upstream.reply(weather());
    }
    let response = gateway.stream(ask(json!({"allowed_tools": ["get_time"]}))).await.response;
    assert_eq!(response["status"], "failed");
    assert_eq!(response["error"]["code"], "tool_not_allowed");
}

#[tokio::test]
async fn one_call_a_turn_when_parallel_calls_are_off() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("get_weather", json!({"city": "Oslo"})), ("get_time", json!({}))]));
    let response = gateway.create(ask(json!({"parallel_tool_calls": false}))).await;
    assert_eq!(response["output"].as_array().unwrap().len(), 1);
    assert_eq!(upstream.last()["parallel_tool_calls"], false);
}

#[tokio::test]
async fn a_custom_tool_speaks_raw_text() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let patch = "*** Begin Patch\n\"quoted\"\n";
    let tools = json!([{"type": "custom", "name": "apply_patch", "description": "Edits files",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}]);
    let body = json!({"model": "test-model", "input": "Patch it", "tools": tools});
    for streamed in [false, true] {
        upstream.reply(Reply::Calls(vec![("apply_patch", json!({"input": patch}))]));
        let first = match streamed {
            false => gateway.create(body.clone()).await,
            true => gateway.stream(body.clone()).await.response,
        };
        let call = &first["output"][0];
        assert_eq!((&call["type"], &call["input"]), (&json!("custom_tool_call"), &json!(patch)));
        let function = upstream.last()["tools"][0]["function"].clone();
        assert_eq!(function["parameters"]["required"], json!(["input"]));
        assert!(function["description"].as_str().unwrap().contains("start: /.+/"));
        let output =
            json!([{"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"}]);
        gateway
            .create(json!({"model": "test-model", "previous_response_id": first["id"], "input": output, "tools": tools}))
            .await;
        let arguments = upstream.last()["messages"][1]["tool_calls"][0]["function"]["arguments"].clone();
        assert_eq!(
            serde_json::from_str::<Value>(arguments.as_str().unwrap()).unwrap(),
            json!({"input": patch})
        );
    }
}

#[tokio::test]
async fn namespaces_and_tools_declared_in_the_input_are_functions_upstream() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let namespace = json!({"type": "namespace", "name": "files", "description": "Files", "tools": [
        {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}}]});
    let declared = json!({"type": "additional_tools", "role": "developer", "tools": [namespace]});
    upstream.reply(Reply::Calls(vec![("files__read", json!({}))]));
    let body = json!({"model": "test-model", "input": [declared, {"role": "user", "content": "Read"}]});
    let first = gateway.stream(body).await.response;
    let call = &first["output"][0];
    assert_eq!((&call["name"], &call["namespace"]), (&json!("read"), &json!("files")));
    assert_eq!(upstream.last()["tools"][0]["function"]["name"], "files__read");
    let output =
        json!([declared, {"type": "function_call_output", "call_id": call["call_id"], "output": "text"}]);
    gateway
        .create(json!({"model": "test-model", "previous_response_id": first["id"], "input": output}))
        .await;
    assert_eq!(upstream.last()["messages"][1]["tool_calls"][0]["function"]["name"], "files__read");
}

#[tokio::test]
async fn tools_that_earlier_input_declared_are_offered_to_the_end_of_the_chain() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let function = |name: &str, about: &str| json!({"type": "function", "name": name, "description": about});
    let declare = |tools: Value| json!({"type": "additional_tools", "role": "developer", "tools": tools});
    let user = |text: &str| json!({"role": "user", "content": text});
    let offered = || {
        let last = upstream.last();
        let tools = last["tools"].as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
        let mut names: Vec<_> = tools.iter().map(name).collect();
        names.sort();
        (names, tools.iter().find(|tool| name(tool) == "f").map(|f| f["function"]["description"].clone()))
    };
    let tools = json!([function("f", "old"), function("g", "")]);
    let first = gateway.create(json!({"model": "test-model", "input": [declare(tools), user("One")]})).await;
    let next = json!({"model": "test-model", "input": "Two", "previous_response_id": first["id"]});
    let second = gateway.create(next).await;
    assert_eq!(offered(), (vec!["f".into(), "g".into()], Some(json!("old"))));
    assert_eq!(second["tools"], json!([]), "the echo has what was sent");
    let later = json!([declare(json!([function("f", "new")])), user("Three")]);
    let next = json!({"model": "test-model", "input": later, "previous_response_id": second["id"],
        "tools": [function("h", "")]});
    gateway.create(next).await;
    assert_eq!(offered(), (vec!["f".into(), "g".into(), "h".into()], Some(json!("new"))));
}

#[tokio::test]
async fn tools_that_are_not_served_are_refused_by_name() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for tool in [json!({"type": "web_search"}), json!({"type": "file_search", "vector_store_ids": ["vs_1"]})]
    {
        let error = gateway.refuse(ask(json!({"tools": [tool]})), 400, "unsupported_parameter").await;
        assert_eq!(error["param"], "tools[0].type");
    }
    let error = gateway.refuse(ask(json!({"tools": [{"type": "teleport"}]})), 400, "invalid_value").await;
    assert_eq!(error["param"], "tools[0].type");
    let same = json!({"type": "function", "name": "f"});
    let error = gateway.refuse(ask(json!({"tools": [same, same]})), 400, "invalid_value").await;
    assert_eq!(error["param"], "tools[1].name");
}

#[tokio::test]
async fn a_call_that_was_cut_off_need_not_be_answered() {
    use antwort_test_support::upstream::{chunk, done, finish};
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "get_time", "arguments": "{\"a"}}]});
    upstream.reply(Reply::Stream(vec![chunk(call), finish("length"), done()]));
    let first = gateway.stream(ask(json!({}))).await.response;
    assert_eq!(first["status"], "incomplete");
    assert_eq!(first["output"][0]["status"], "incomplete");
    gateway
        .create(json!({"model": "test-model", "previous_response_id": first["id"], "input": "Go on"}))
        .await;
    assert_eq!(
        upstream.last()["messages"].as_array().unwrap().len(),
        2,
        "the call is no part of the history"
    );
}

#[tokio::test]
async fn a_custom_tool_is_an_extension_in_the_open_responses_dialect() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with_upstream(&upstream).spawn().await.with_header("antwort-dialect", "open_responses");
    let tools = json!([{"type": "custom", "name": "apply_patch"}]);
    upstream.reply(Reply::Calls(vec![("apply_patch", json!({"input": "x"}))]));
    let body = json!({"model": "test-model", "input": "Patch it", "tools": tools});
    let streamed = gateway.stream(body).await;
    let call = &streamed.response["output"][0];
    assert_eq!((&call["type"], &call["input"]), (&json!("antwort:custom_tool_call"), &json!("x")));
    let types: Vec<_> = streamed.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(types.contains(&"antwort:custom_tool_call_input.delta"), "{types:?}");
    assert!(types.contains(&"antwort:custom_tool_call_input.done"), "{types:?}");
    for spelling in ["antwort:custom_tool_call_output", "custom_tool_call_output"] {
        let output = json!([{"type": spelling, "call_id": call["call_id"], "output": "done"}]);
        let id = &streamed.response["id"];
        let body =
            json!({"model": "test-model", "previous_response_id": id, "input": output, "tools": tools});
        gateway.create(body).await;
        assert_eq!(upstream.last()["messages"][2]["content"], "done");
    }
    // Without such tools there are no such items: what the specification knows keeps its names.
    let plain = gateway.stream(json!({"model": "test-model", "input": "Hi"})).await;
    assert!(!json!(plain.events).to_string().contains("antwort:"));
}

/// A body as people write it for curl: its line breaks came back inside of events, which ends an event's data.
#[tokio::test]
async fn a_body_of_several_lines_is_echoed_in_events_of_one() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("{}");
    let body = json!({"model": "test-model", "input": "hi", "stream": true, "metadata": {"a": "b"},
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object", "properties": {}}}}});
    let body = serde_json::to_string_pretty(&body).unwrap().replace('\n', "\r\n");
    let request = reqwest::Client::new().post(format!("{}/v1/responses", gateway.base));
    let answer = request.header("content-type", "application/json").body(body).send().await.unwrap();
    let text = answer.text().await.unwrap();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let data = line.strip_prefix("data: ").filter(|data| *data != "[DONE]");
        assert!(data.is_some() || line.starts_with("event: ") || line == "data: [DONE]", "{line}");
        let read = data.map(serde_json::from_str::<serde_json::Value>);
        assert!(read.is_none_or(|read| read.is_ok()), "{line}");
    }
    assert!(text.contains("response.created"));
}
