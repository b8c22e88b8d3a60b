//! Fields of the API inside tools, options and items: each has its effect, is documented to have none, or is refused.

use antwort::config::UnknownFields;
use antwort_protocol::request::{DefaultValue, REQUEST_OBJECTS, RequestObject};
use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::websocket::WebSocket;

const COMPATIBILITY: &str = include_str!("../../docs/compatibility.md");

fn is_of(object: &RequestObject, start: &str) -> bool {
    object.name.starts_with(start) && !object.refused.is_empty()
}

/// A request that has this object, and the path at which it stands.
fn request_with(object: &RequestObject, field: &str, value: Value) -> (Value, String) {
    let mut body = json!({"model": "test-model", "input": "Hi"});
    let (inner, path) = match object.name {
        "request" => (json!({}), String::new()),
        "prompt" => (json!({"id": "helper"}), "prompt".to_owned()),
        "prompt_cache_options" => (json!({}), "prompt_cache_options".to_owned()),
        "tools[] function" => (json!({"type": "function", "name": "f"}), "tools[0]".to_owned()),
        "tools[] custom" => (json!({"type": "custom", "name": "f"}), "tools[0]".to_owned()),
        "tools[] mcp" => (json!({"type": "mcp", "server_label": "antwort"}), "tools[0]".to_owned()),
        "content[] input_image" => (json!({"type": "input_image"}), "input[0].content[0]".to_owned()),
        "content[] input_file" => (json!({"type": "input_file"}), "input[0].content[0]".to_owned()),
        other => panic!("how is '{other}' sent?"),
    };
    let mut inner = inner;
    inner[field] = value;
    match object.name.split(['[', ' ']).next().unwrap() {
        "request" => body[field] = inner[field].take(),
        "tools" => body["tools"] = json!([inner]),
        "content" => body["input"] = json!([{"role": "user", "content": [inner]}]),
        name => body[name] = inner,
    }
    let path = if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    (body, path)
}

#[tokio::test]
async fn each_field_that_the_table_refuses_is_a_400_with_its_path_and_its_default_is_none() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut refused = 0;
    for object in REQUEST_OBJECTS {
        for field in object.refused {
            let (body, path) = request_with(object, field.name, serde_json::from_str(field.example).unwrap());
            let error = gateway.refuse(body.clone(), 400, "unsupported_parameter").await;
            assert_eq!(error["param"], path, "{body}");
            refused += 1;
            let default = match field.default {
                DefaultValue::Nothing => Value::Null,
                DefaultValue::Value(json) => serde_json::from_str(json).unwrap(),
                DefaultValue::ListWith(text) => json!([text]),
            };
            if is_of(object, "tools") || is_of(object, "prompt_cache") {
                for default in [default, Value::Null] {
                    gateway.create(request_with(object, field.name, default).0).await;
                }
            }
        }
    }
    assert!(refused >= 16, "{refused}");
}

#[tokio::test]
async fn fields_inside_tools_were_accepted_and_ignored_without_a_word() {
    let upstream = Upstream::spawn().await;
    let body = json!({"model": "test-model", "input": "Hi", "prompt_cache_options": {"prewarm": true}, "tools": [
        {"type": "function", "name": "f", "async": true, "cost": 1},
        {"type": "mcp", "server_label": "antwort", "defer_loading": true}]});
    let paths = "prompt_cache_options.prewarm, tools[0].async, tools[0].cost, tools[1].defer_loading";
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let error = gateway.refuse(body.clone(), 400, "unsupported_parameter").await;
    assert!(error["message"].as_str().unwrap().contains("compat.unknown_fields"), "{error}");
    WebSocket::connect(&gateway).await.refuse(body.clone(), 400, "unsupported_parameter").await;
    let mut queued = body.clone();
    queued["background"] = true.into();
    gateway.refuse(queued.clone(), 400, "unsupported_parameter").await;
    let error = gateway.post("/v1/responses/input_tokens", &body).await;
    assert_eq!(error.status, 400);
    assert!(upstream.requests().is_empty());

    // Listed if the operator or the client's profile says so: also when another process makes the run.
    let ignoring = Gateway::with_upstream(&upstream)
        .set(|settings| settings.compat.unknown_fields = UnknownFields::Ignore)
        .spawn()
        .await;
    let codex = gateway.with_header("originator", "codex_exec");
    for gateway in [&ignoring, &codex] {
        for body in [&body, &queued] {
            let answer = gateway.post("/v1/responses", body).await;
            assert_eq!(answer.status, 200, "{:#}", answer.body);
            assert_eq!(answer.headers["antwort-ignored-fields"], paths);
            let path = format!("/v1/responses/{}", answer.body["id"].as_str().unwrap());
            let is_over = async || gateway.get(&path).await.body["status"] == "completed";
            assert!(antwort_test_support::eventually(is_over).await, "{:#}", gateway.get(&path).await.body);
        }
    }
}

#[tokio::test]
async fn a_conversation_is_not_given_tools_with_fields_that_nobody_heeds() {
    let upstream = Upstream::spawn().await;
    let tool = json!({"type": "function", "name": "f", "defer_loading": true});
    let declared = json!({"antwort": {"tools": [tool]}});
    let items = json!({"items": [{"type": "additional_tools", "role": "developer", "tools": [tool]}]});
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (body, path) in
        [(&declared, "antwort.tools[0].defer_loading"), (&items, "items[0].tools[0].defer_loading")]
    {
        let answer = gateway.post("/v1/conversations", body).await;
        assert_eq!((answer.status, &answer.body["error"]["param"]), (400, &json!(path)), "{:#}", answer.body);
    }
    let ignoring = Gateway::with_upstream(&upstream)
        .set(|settings| settings.compat.unknown_fields = UnknownFields::Ignore)
        .spawn()
        .await;
    let created = ignoring.post("/v1/conversations", &declared).await;
    assert_eq!(created.headers["antwort-ignored-fields"], "antwort.tools[0].defer_loading");
    let path = format!("/v1/conversations/{}/items", created.body["id"].as_str().unwrap());
    let added = ignoring.post(&path, &items).await;
    assert_eq!(added.headers["antwort-ignored-fields"], "items[0].tools[0].defer_loading");
}

#[tokio::test]
async fn an_output_may_name_its_function_in_place_of_its_call() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let tools = json!([{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]);
    let output =
        |name: &str| json!({"type": "function_call_output", "call_id": null, "name": name, "output": "x"});
    let next = |previous: &Value, input: Value| json!({"model": "test-model", "tools": tools, "previous_response_id": previous["id"], "input": input});
    upstream.reply(Reply::Calls(vec![("f", json!({})), ("g", json!({}))]));
    let paused = gateway.create(json!({"model": "test-model", "input": "Hi", "tools": tools})).await;
    let continued = gateway.create(next(&paused, json!([output("g"), output("f")]))).await;
    let call = |place: usize| paused["output"][place]["call_id"].clone();
    let sent = upstream.last();
    let ids: Vec<_> = sent["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool").collect();
    assert_eq!(ids.len(), 2, "{sent:#}");
    let path = format!("/v1/responses/{}/input_items?order=asc", continued["id"].as_str().unwrap());
    let stored = gateway.get(&path).await.body;
    let stored: Vec<_> =
        stored["data"].as_array().unwrap().iter().map(|item| item["call_id"].clone()).collect();
    assert!(stored.contains(&call(0)) && stored.contains(&call(1)), "{stored:?}");

    upstream.reply(Reply::Calls(vec![("f", json!({"n": 1})), ("f", json!({"n": 2}))]));
    let twice = gateway.create(json!({"model": "test-model", "input": "Hi", "tools": tools})).await;
    let error = gateway.refuse(next(&twice, json!([output("f")])), 400, "invalid_value").await;
    assert_eq!(error["param"], "input[0].call_id");
    let error = gateway.refuse(next(&twice, json!([output("h")])), 400, "tool_call_not_found").await;
    assert_eq!(error["param"], "input[0].name");
    let nameless = json!([{"type": "function_call_output", "call_id": null, "output": "x"}]);
    let error = gateway.refuse(next(&twice, nameless.clone()), 400, "missing_required_parameter").await;
    assert_eq!(error["param"], "input[0].call_id");
    // A conversation keeps items as they are, and no call is looked for.
    let stored = json!({"items": [output("f")]});
    let answer = gateway.post("/v1/conversations", &stored).await;
    assert_eq!((answer.status, &answer.body["error"]["param"]), (400, &json!("items[0].call_id")));
}

#[tokio::test]
async fn history_of_a_later_version_of_the_api_was_refused_for_its_values() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let image = json!({"type": "image_generation", "output_format": "svg", "quality": "xhigh", "complexity": "high",
        "frame_count": 2, "frame_duration_ms": 40, "svg": {"precision": 1}, "background": "checkered"});
    let search = json!({"type": "web_search", "search_context_size": "vast"});
    let found = json!({"type": "function", "name": "found", "defer_loading": true, "allowed_callers": ["direct", "robots"]});
    let input = json!([
        {"role": "user", "content": "Hi"},
        {"type": "tool_search_call", "id": "tsc_1", "call_id": null, "execution": "server", "arguments": {}, "status": "napping"},
        {"type": "tool_search_output", "id": "tso_1", "call_id": null, "execution": "server",
         "tools": [image, search, found], "status": "napping"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "async": true, "status": "napping"},
        {"type": "function_call_output", "call_id": "c", "output": "x", "status": "napping"},
        {"type": "image_generation_call", "id": "ig_1", "result": null, "status": "napping", "output_format": "gif"},
        {"role": "user", "content": "Go on."},
    ]);
    let response = gateway.create(json!({"model": "test-model", "input": input})).await;
    let path = format!("/v1/responses/{}/input_items?order=asc", response["id"].as_str().unwrap());
    let stored = gateway.get(&path).await.body;
    assert_eq!(stored["data"][2]["tools"], json!([image, search, found]), "as it was sent: {stored:#}");
    assert_eq!(stored["data"][5]["status"], "napping");
    assert_eq!(stored["data"][3]["status"], "completed");

    // What is offered beside others is left out, whatever its options are.
    let tools = json!([{"type": "function", "name": "f"}, image]);
    let added = json!([{"type": "additional_tools", "role": "developer", "tools": tools}, {"role": "user", "content": "Hi"}]);
    for body in [
        json!({"model": "test-model", "input": "Hi", "tools": tools}),
        json!({"model": "test-model", "input": added}),
    ] {
        let response = gateway.create(body).await;
        assert_eq!(response["antwort"]["omitted_tools"], json!(["image_generation"]));
    }
    // What never was an item of a conversation here is told as such.
    for kind in ["configuration_update", "agent_message", "multi_agent_call", "multi_agent_call_output"] {
        let body =
            json!({"model": "test-model", "input": [{"type": kind}, {"role": "user", "content": "Hi"}]});
        let error = gateway.refuse(body, 400, "unsupported_parameter").await;
        assert_eq!(error["param"], "input[0].type");
    }
}

/// The table as the page has it.
fn rendered() -> String {
    let names = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let mut table = "| object | implemented | no effect | refused |\n|---|---|---|---|\n".to_owned();
    for object in REQUEST_OBJECTS {
        let refused: Vec<&str> = object.refused.iter().map(|field| field.name).collect();
        let name = match object.name.split_once(' ') {
            Some((place, types)) => format!("`{place}` {}", names(&types.split(", ").collect::<Vec<_>>())),
            None => format!("`{}`", object.name),
        };
        let cells = [
            object.whole.map_or_else(|| names(object.honoured), str::to_owned),
            names(object.no_ops),
            names(&refused),
        ];
        table.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
    }
    table
}

#[test]
fn the_page_on_compatibility_has_the_table_of_fields_as_it_is() {
    let (_, rest) = COMPATIBILITY
        .split_once("<!-- fields: made from crates/protocol/src/request/field_table.rs -->\n\n")
        .unwrap();
    let (shown, _) = rest.split_once("\n<!-- end of fields -->").unwrap();
    let table = rendered();
    assert!(shown == table, "docs/compatibility.md has another table than this one:\n\n{table}");
}
