//! Calls that `tool_choice` demands: asked for once more, and then missed; and how a choice is told to providers.

use antwort::config::OnMissingCall;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Builder, Gateway, text_of};
use antwort_test_support::transcript::transcript;
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish, usage};

fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!([
        {"type": "function", "name": "get_weather", "parameters": parameters},
        {"type": "function", "name": "get_time", "parameters": {"type": "object"}},
        {"type": "custom", "name": "note"},
        {"type": "mcp", "server_label": "antwort", "allowed_tools": ["noop"]},
    ])
}

fn ask(choice: Value, extra: Value) -> Value {
    let mut body = json!({"model": "test-model", "input": "Go.", "tools": tools(), "tool_choice": choice});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name})
}

fn allowed(mode: &str, names: &[&str]) -> Value {
    let tools: Vec<_> = names.iter().map(|name| function(name)).collect();
    json!({"type": "allowed_tools", "mode": mode, "tools": tools})
}

fn call(name: &'static str) -> Reply {
    Reply::Calls(vec![(name, json!({}))])
}

fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

async fn gateway(upstream: &Upstream, change: impl FnOnce(Builder) -> Builder) -> Gateway {
    change(Gateway::with_upstream(upstream)).probe().0.spawn().await
}

fn sent(upstream: &Upstream, back: usize) -> Value {
    let requests = upstream.requests();
    requests[requests.len() - back].body.clone()
}

#[tokio::test]
async fn a_demanded_call_that_is_not_made_is_asked_for_once_more() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    for (choice, made, item, first, second) in [
        (json!("required"), "get_time", "function_call", json!("required"), json!("required")),
        (function("get_time"), "get_time", "function_call", named("get_time"), named("get_time")),
        (json!({"type": "custom", "name": "note"}), "note", "custom_tool_call", named("note"), named("note")),
        (json!({"type": "antwort:noop"}), "noop", "mcp_call", named("noop"), named("noop")),
        (json!({"type": "mcp", "server_label": "antwort"}), "noop", "mcp_call", named("noop"), named("noop")),
        (
            allowed("required", &["get_time"]),
            "get_time",
            "function_call",
            json!("required"),
            named("get_time"),
        ),
        (
            allowed("required", &["get_time", "get_weather"]),
            "get_time",
            "function_call",
            json!("required"),
            json!("required"),
        ),
    ] {
        for streamed in [false, true] {
            upstream.text("I would rather talk.").reply(call(made));
            if item == "mcp_call" {
                upstream.text("Done.");
            }
            let body = ask(choice.clone(), json!({}));
            let response = match streamed {
                false => gateway.create(body).await,
                true => gateway.stream(body).await.response,
            };
            assert_eq!(kinds(&response)[..2], ["message", item], "{choice}: the first answer stays");
            assert!(text_of(&response).starts_with("I would rather talk."));
            let later = usize::from(item == "mcp_call");
            assert_eq!(response["antwort"]["turns"], 2 + later);
            let (one, two) = (sent(&upstream, 2 + later), sent(&upstream, 1 + later));
            assert_eq!((&one["tool_choice"], &two["tool_choice"]), (&first, &second), "{choice}");
            assert_eq!(one["tools"], two["tools"]);
            let messages = two["messages"].as_array().unwrap();
            assert_eq!(messages[1], json!({"role": "assistant", "content": "I would rather talk."}));
            assert_eq!((messages.len(), &messages[2]["role"]), (3, &json!("user")));
            assert_eq!(response["usage"]["total_tokens"], 8 * (2 + later), "both inferences are counted");
        }
    }
}

#[tokio::test]
async fn the_second_answer_follows_the_first_in_a_stream() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    upstream.text("No.").reply(call("get_time"));
    let made = gateway.stream(ask(json!("required"), json!({}))).await;
    insta::assert_snapshot!("demanded_call_made", transcript(&made.events));
    upstream.text("No.").text("Still no.");
    let missed = gateway.stream(ask(json!("required"), json!({}))).await;
    insta::assert_snapshot!("demanded_call_missed", transcript(&missed.events));
}

#[tokio::test]
async fn an_answer_that_lacks_the_demanded_call_twice_fails() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    upstream.always(Reply::Text("No.".into()));
    for choice in [json!("required"), function("get_time"), allowed("required", &["get_time"])] {
        let before = upstream.requests().len();
        for response in gateway.both(ask(choice.clone(), json!({}))).await {
            assert_eq!(response["status"], "failed", "{choice}");
            let error = &response["error"];
            assert_eq!(
                (&error["type"], &error["code"]),
                (&json!("model_error"), &json!("tool_choice_not_satisfied"))
            );
            assert_eq!(
                (kinds(&response), response["antwort"]["turns"].as_u64()),
                (vec!["message"; 2], Some(2))
            );
            let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
            assert_eq!(gateway.get(&path).await.body, response);
        }
        assert_eq!(upstream.requests().len() - before, 4);
    }
}

#[tokio::test]
async fn what_came_is_kept_where_the_configuration_says_so() {
    let upstream = Upstream::spawn().await;
    let keep = |builder: Builder| builder.set(|s| s.engine.on_missing_call = OnMissingCall::Keep);
    let gateway = gateway(&upstream, keep).await;
    upstream.always(Reply::Text("No.".into()));
    for response in gateway.both(ask(json!("required"), json!({}))).await {
        assert_eq!((response["status"].as_str(), text_of(&response)), (Some("completed"), "No.No.".into()));
        assert_eq!((&response["error"], &response["antwort"]["turns"]), (&Value::Null, &json!(2)));
    }
    upstream.always(call("get_weather"));
    let response = gateway.stream(ask(function("get_time"), json!({}))).await.response;
    assert_eq!((response["status"].as_str(), kinds(&response)), (Some("completed"), vec!["message"]));
}

#[tokio::test]
async fn a_call_of_another_tool_is_not_the_one_that_is_demanded() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    for choice in [function("get_time"), allowed("required", &["get_time"])] {
        upstream.reply(call("get_weather")).reply(call("get_time"));
        let streamed = gateway.stream(ask(choice.clone(), json!({}))).await;
        assert_eq!(kinds(&streamed.response), ["function_call"]);
        assert!(!streamed.response["output"].to_string().contains("get_weather"));
        let messages = upstream.last()["messages"].as_array().unwrap().clone();
        let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool"], "the result of the call says what is wrong");
        upstream.reply(call("get_weather")).reply(call("nowhere"));
        let response = gateway.stream(ask(choice, json!({}))).await.response;
        assert_eq!(response["error"]["code"], "tool_choice_not_satisfied");
        assert!(!response["output"].to_string().contains("get_weather"));
    }
}

#[tokio::test]
async fn a_demand_that_was_met_is_over() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    upstream.text("Well.").reply(call("noop")).text("Done.");
    let response = gateway.stream(ask(json!("required"), json!({}))).await.response;
    assert_eq!(
        (response["status"].as_str(), kinds(&response)),
        (Some("completed"), vec!["message", "mcp_call", "message"])
    );
    assert_eq!(upstream.last()["tool_choice"], Value::Null);
    // The call may be any that is allowed once the demanded one was made.
    upstream.reply(call("noop")).reply(call("get_weather"));
    let response = gateway.stream(ask(json!({"type": "antwort:noop"}), json!({}))).await.response;
    assert_eq!(kinds(&response), ["mcp_call", "function_call"]);
}

#[tokio::test]
async fn limits_hold_where_a_call_is_asked_for_again() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    upstream.always(Reply::Text("No.".into()));
    for (limits, reason) in
        [(json!({"max_turns": 1}), "max_turns"), (json!({"max_total_tokens": 1}), "max_total_tokens")]
    {
        let before = upstream.requests().len();
        let limits = json!({"antwort": {"limits": limits}});
        let response = gateway.stream(ask(json!("required"), limits)).await.response;
        assert_eq!(response["incomplete_details"]["reason"], reason);
        assert_eq!((upstream.requests().len() - before, &response["antwort"]["turns"]), (1, &json!(1)));
    }
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "N"})),
        finish("length"),
        usage(1, 1),
        done(),
    ]));
    let response = gateway.stream(ask(json!("required"), json!({}))).await.response;
    assert_eq!(
        response["incomplete_details"]["reason"], "max_output_tokens",
        "what was cut off is not judged"
    );
}

#[tokio::test]
async fn a_single_shot_request_is_not_asked_again() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    let single = json!({"antwort": {"execute_tools": false}});
    let response = gateway.stream(ask(json!("required"), single)).await.response;
    assert_eq!(response["error"]["code"], "tool_choice_not_satisfied");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_first_answer_that_says_nothing_leaves_no_item() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    upstream.reply(Reply::Stream(vec![finish("stop"), usage(1, 1), done()])).reply(call("get_time"));
    let response = gateway.stream(ask(json!("required"), json!({}))).await.response;
    assert_eq!(kinds(&response), ["function_call"]);
}

#[tokio::test]
async fn the_first_answer_stays_in_the_conversation() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    upstream.text("I would rather talk.").reply(call("get_time"));
    let first = gateway.create(ask(json!("required"), json!({}))).await;
    let output =
        json!([{"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "9"}]);
    let again = json!({"model": "test-model", "previous_response_id": first["id"], "input": output, "tools": tools()});
    assert_eq!(gateway.create(again).await["status"], "completed");
    let said = upstream.last()["messages"].to_string();
    assert!(said.contains("I would rather talk.") && !said.contains("You have to call"), "{said}");
}

#[tokio::test]
async fn allowed_tools_are_marked_for_providers_that_know_it_and_all_tools_stay_visible() {
    let upstream = Upstream::spawn().await;
    let knows = |builder: Builder| builder.provider(|provider| provider.supports.allowed_tools = true);
    let gateway = gateway(&upstream, knows).await;
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let marked = |mode: &str, tools: Value| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}});
    let two = || json!([named("get_weather"), named("get_time")]);
    for (body, expected) in [
        (ask(allowed("auto", &["get_time", "get_weather"]), json!({})), marked("auto", two())),
        (
            ask(json!("auto"), json!({"allowed_tools": ["get_time"]})),
            marked("auto", json!([named("get_time")])),
        ),
        (
            ask(
                allowed("auto", &["get_time", "get_weather"]),
                json!({"allowed_tools": ["get_time", "noop"]}),
            ),
            marked("auto", json!([named("get_time")])),
        ),
    ] {
        upstream.text("Done.");
        gateway.create(body).await;
        assert_eq!(upstream.last()["tool_choice"], expected);
        assert_eq!(upstream.last()["tools"].as_array().unwrap().len(), 4);
    }
    upstream.text("No.").reply(call("get_time"));
    gateway.create(ask(allowed("required", &["get_time", "get_weather"]), json!({}))).await;
    let choices = (sent(&upstream, 2)["tool_choice"].clone(), sent(&upstream, 1)["tool_choice"].clone());
    assert_eq!(choices, (marked("required", two()), marked("required", two())));
    // What is allowed is marked in every turn, what is demanded until it was made.
    upstream.reply(call("noop")).text("Done.");
    gateway.create(ask(json!("required"), json!({"allowed_tools": ["get_time", "noop"]}))).await;
    let tools = json!([named("get_time"), named("noop")]);
    let choices = (sent(&upstream, 2)["tool_choice"].clone(), sent(&upstream, 1)["tool_choice"].clone());
    assert_eq!(choices, (marked("required", tools.clone()), marked("auto", tools)));
}

#[tokio::test]
async fn a_choice_of_what_is_not_allowed_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    for choice in [function("get_weather"), allowed("required", &["get_weather"])] {
        let body = ask(choice, json!({"allowed_tools": ["get_time"]}));
        let error = gateway.refuse(body, 400, "invalid_value").await;
        assert_eq!(error["param"], "tool_choice");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_call_is_of_the_kind_that_its_tool_was_declared_as() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, |builder| builder).await;
    let custom = |name: &str, input: &str| json!({"tool_calls": [{"index": 0, "id": "c1", "type": "custom", "custom": {"name": name, "input": input}}]});
    let streamed =
        |delta: Value| Reply::Stream(vec![chunk(delta), finish("tool_calls"), usage(1, 1), done()]);
    let whole = |mut message: Value| {
        message["role"] = "assistant".into();
        Reply::Whole(json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
    };
    let weather = || custom("get_weather", "{\"city\": \"Oslo\"}");
    upstream.reply(whole(weather())).reply(streamed(weather()));
    for response in gateway.both(ask(json!("auto"), json!({}))).await {
        let item = &response["output"][0];
        assert_eq!((&item["type"], &item["name"]), (&json!("function_call"), &json!("get_weather")));
        assert_eq!(item["arguments"], "{\"city\": \"Oslo\"}");
    }
    upstream.reply(whole(custom("note", "a\nb"))).reply(streamed(custom("note", "a\nb")));
    for response in gateway.both(ask(json!("auto"), json!({}))).await {
        let item = &response["output"][0];
        assert_eq!((&item["type"], &item["input"]), (&json!("custom_tool_call"), &json!("a\nb")));
    }
    // The other way round, too.
    upstream.reply(Reply::Calls(vec![("note", json!({"input": "a"}))]));
    let response = gateway.stream(ask(json!("auto"), json!({}))).await.response;
    assert_eq!(
        (&response["output"][0]["type"], &response["output"][0]["input"]),
        (&json!("custom_tool_call"), &json!("a"))
    );
    // And a tool that the gateway runs is run by it.
    upstream.reply(streamed(custom("noop", "{}"))).text("Done.");
    let response = gateway.stream(ask(json!("auto"), json!({}))).await.response;
    assert_eq!(kinds(&response), ["mcp_call", "message"]);
}
