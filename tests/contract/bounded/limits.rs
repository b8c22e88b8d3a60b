//! What a request may hold: lists, schemas and instructions beyond the limits are refused, with the field's path, the
//! limit and its setting, and before anything is made of them.

use antwort_protocol::request::RequestSizeLimits;
use serde_json::{Value, json};

use antwort::config::ContextWindow;

use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// So many times an element, as the text of an array.
fn list(element: &str, count: usize) -> String {
    format!("[{}]", vec![element; count].join(","))
}

/// A list of so many functions, as text.
fn functions(count: usize) -> String {
    let functions = (0..count).map(|n| format!(r#"{{"type":"function","name":"f{n}","parameters":{{}}}}"#));
    format!("[{}]", functions.collect::<Vec<_>>().join(","))
}

/// A schema of so many properties with a pattern each.
fn patterns(count: usize) -> Value {
    let properties = (0..count).map(|n| (format!("p{n}"), json!({"pattern": format!("a{n}")})));
    json!({"type": "object", "properties": properties.collect::<serde_json::Map<_, _>>()})
}

fn body(fields: &str) -> String {
    format!(r#"{{"model":"m",{fields}}}"#)
}

/// Sends a body and expects a 400 with this code and path, which names the setting.
async fn refused(gateway: &Gateway, path: &str, body: String, (code, param, setting): (&str, &str, &str)) {
    let shown = body.chars().take(200).collect::<String>();
    let answer = gateway.post_bytes(path, body, &JSON).await;
    let error = &answer.body["error"];
    assert_eq!(
        (answer.status, error["code"].as_str(), error["param"].as_str()),
        (400, Some(code), Some(param)),
        "{shown}: {error:#}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("server.request_limits.{setting})")), "{shown}: {message}");
}

#[tokio::test]
async fn each_limit_is_refused_beyond_it_with_path_and_setting() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let array = "array_above_max_length";
    let functions = functions(1025);
    let names = list("\"f\"", 1025);
    let parts = list(r#"{"type":"input_text","text":""}"#, 10_001);
    let references: Vec<String> = (0..1001).map(|n| format!(r#"{{"id":"msg_{n}"}}"#)).collect();
    let references = references.join(",");
    let schema = patterns(101);
    let large = json!({"type": "object", "description": "x".repeat(64 << 10)});
    let format = |schema: &Value| {
        body(&format!(
            r#""input":"x","text":{{"format":{{"type":"json_schema","name":"a","schema":{schema}}}}}"#
        ))
    };
    let tool = |schema: &Value| {
        body(&format!(r#""input":"x","tools":[{{"type":"function","name":"f","parameters":{schema}}}]"#))
    };
    for (fields, expected) in [
        (format!(r#""input":"x","tools":{functions}"#), (array, "tools", "max_tools")),
        (
            format!(
                r#""input":"x","tools":[{{"type":"namespace","name":"n","description":"","tools":{functions}}}]"#
            ),
            (array, "tools[0].tools", "max_tools"),
        ),
        (
            format!(r#""input":[{{"type":"additional_tools","role":"developer","tools":{functions}}}]"#),
            (array, "input[0].tools", "max_tools"),
        ),
        (format!(r#""input":"x","allowed_tools":{names}"#), (array, "allowed_tools", "max_allowed_tools")),
        (
            format!(
                r#""input":"x","tools":[{{"type":"mcp","server_label":"a","allowed_tools":{{"tool_names":{names}}}}}]"#
            ),
            (array, "tools[0].allowed_tools.tool_names", "max_allowed_tools"),
        ),
        (
            format!(
                r#""input":"x","tool_choice":{{"type":"allowed_tools","mode":"auto","tools":{}}}"#,
                list(r#"{"type":"function","name":"f"}"#, 1025)
            ),
            (array, "tool_choice.tools", "max_allowed_tools"),
        ),
        (
            format!(r#""input":{}"#, list(r#"{"role":"user","content":""}"#, 10_001)),
            (array, "input", "max_input_items"),
        ),
        (
            format!(r#""input":[{{"role":"user","content":{parts}}}]"#),
            (array, "input[0].content", "max_content_parts"),
        ),
        (
            format!(r#""input":[{{"type":"function_call_output","call_id":"c","output":{parts}}}]"#),
            (array, "input[0].output", "max_content_parts"),
        ),
        (format!(r#""input":[{references}]"#), (array, "input[1000]", "max_item_references")),
        (
            format!(r#""input":"x","instructions":"{}""#, "x".repeat((1 << 20) + 1)),
            ("string_above_max_length", "instructions", "max_instructions_bytes"),
        ),
    ] {
        refused(&gateway, "/v1/responses", body(&fields), expected).await;
    }
    for (body, path) in [(format(&schema), "text.format.schema"), (tool(&schema), "tools[0].parameters")] {
        refused(&gateway, "/v1/responses", body, (array, path, "max_schema_patterns")).await;
    }
    for (body, path) in [(format(&large), "text.format.schema"), (tool(&large), "tools[0].parameters")] {
        let expected = ("string_above_max_length", path, "max_schema_bytes");
        refused(&gateway, "/v1/responses", body, expected).await;
    }
    // Where a conversation is compacted, the same holds.
    let items = list(r#"{"role":"user","content":""}"#, 10_001);
    let compaction = body(&format!(r#""input":{items}"#));
    refused(&gateway, "/v1/responses/compact", compaction, (array, "input", "max_input_items")).await;
    assert!(upstream.requests().is_empty(), "what is refused costs the provider nothing");
}

#[tokio::test]
async fn what_is_within_the_limits_is_served() {
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Text("yes".into()));
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let tools = functions(1024);
    let answer = gateway
        .post_bytes("/v1/responses", body(&format!(r#""store":false,"input":"x","tools":{tools}"#)), &JSON)
        .await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    let items = list(r#"{"role":"user","content":"x"}"#, 10_000);
    let answer =
        gateway.post_bytes("/v1/responses", body(&format!(r#""store":false,"input":{items}"#)), &JSON).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
}

#[tokio::test]
async fn the_limits_are_those_of_the_configuration() {
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Text("yes".into()));
    let limits = RequestSizeLimits { max_tools: 2, max_input_items: 3, ..RequestSizeLimits::default() };
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.request_limits = limits)
        .spawn()
        .await;
    let message = json!({"role": "user", "content": "Hi"});
    let function = |name: &str| json!({"type": "function", "name": name});
    let within = json!({"model": "m", "input": [message, message, message],
        "tools": [function("a"), function("b")]});
    gateway.create(within.clone()).await;
    let mut many = within.clone();
    many["tools"] = json!([function("a"), function("b"), function("c")]);
    let error = gateway.refuse(many, 400, "array_above_max_length").await;
    assert_eq!(error["param"], "tools");
    let mut long = within;
    long["input"] = json!([message, message, message, message]);
    let error = gateway.refuse(long, 400, "array_above_max_length").await;
    assert_eq!(error["param"], "input");
    assert!(error["message"].as_str().unwrap().contains("at most 3 items"), "{error}");
}

/// 30 MiB of items that are nothing used to take 1.26 GiB, and as many references 1.7 GiB.
#[tokio::test]
async fn millions_of_small_parts_are_refused_without_being_read() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let size = 30 << 20;
    for (element, code) in [
        (r#"{"role":"user","content":""}"#, "array_above_max_length"),
        ("{}", "array_above_max_length"),
        (r#"{"id":"x"}"#, "array_above_max_length"),
    ] {
        let items = list(element, size / (element.len() + 1));
        let answer = gateway.post_bytes("/v1/responses", body(&format!(r#""input":{items}"#)), &JSON).await;
        assert_eq!((answer.status, answer.body["error"]["code"].as_str()), (400, Some(code)), "{element}");
        assert_eq!(answer.body["error"]["param"], "input");
    }
    let pairs = vec![r#""a":"""#; size / 7].join(",");
    let metadata = body(&format!(r#""input":"x","metadata":{{{pairs}}}"#));
    let answer = gateway.post_bytes("/v1/responses", metadata, &JSON).await;
    assert_eq!(answer.body["error"]["code"], "object_above_max_properties", "{:#}", answer.body);
    let answer = gateway.post_bytes("/v1/responses", format!("{{{pairs}}}"), &JSON).await;
    assert_eq!(answer.body["error"]["code"], "object_above_max_properties", "{:#}", answer.body);
    let names = list("\"web_search_call.results\"", size / 27);
    let include = body(&format!(r#""input":"x","include":{names}"#));
    let answer = gateway.post_bytes("/v1/responses", include, &JSON).await;
    assert_eq!(answer.body["error"]["code"], "array_above_max_length", "{:#}", answer.body);
}

/// 80,000 functions used to be compared with each other, for a minute and also when their sender had left.
#[tokio::test]
async fn tens_of_thousands_of_tools_are_refused_and_as_many_as_the_operator_allows_are_served() {
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Text("yes".into()));
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let many = body(&format!(r#""input":"x","tools":{}"#, functions(80_000)));
    refused(&gateway, "/v1/responses", many, ("array_above_max_length", "tools", "max_tools")).await;
    let limits =
        RequestSizeLimits { max_tools: 5000, max_allowed_tools: 5000, ..RequestSizeLimits::default() };
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.request_limits = limits)
        .spawn()
        .await;
    let names = (0..5000).map(|n| format!("\"f{n}\"")).collect::<Vec<_>>().join(",");
    let many = format!(r#""store":false,"input":"x","tools":{},"allowed_tools":[{names}]"#, functions(5000));
    let answer = gateway.post_bytes("/v1/responses", body(&many), &JSON).await;
    assert_eq!(answer.status, 200);
    assert_eq!(upstream.last()["tools"].as_array().unwrap().len(), 5000);
}

/// For each call that had to go, the whole conversation was looked through for its output.
#[tokio::test]
async fn a_conversation_of_thousands_of_calls_is_made_to_fit() {
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Text("yes".into()));
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| provider.context_window = ContextWindow::All(2000))
        .spawn()
        .await;
    let call = |n: usize| json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f", "arguments": "{}"});
    let output =
        |n: usize| json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": "x"});
    let mut items: Vec<Value> = (0..4999).map(call).chain((0..4999).map(output)).collect();
    items.push(json!({"role": "user", "content": "Go on."}));
    let body = json!({"model": "m", "store": false, "truncation": "auto", "input": items});
    gateway.create(body).await;
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    assert!((2..2000).contains(&messages.len()), "{} messages", messages.len());
    let ids = |key: &str| messages.iter().filter(|message| message.get(key).is_some()).count();
    assert!(ids("tool_call_id") > 0, "the latest calls stay, with their outputs");
}

/// 41 KiB of them used to take 0.9 GiB for as long as the run lasted.
#[tokio::test]
async fn schemas_whose_patterns_swell_are_refused() {
    let upstream = Upstream::spawn().await;
    upstream.always(Reply::Text(r#"{"p0":"a0"}"#.into()));
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let bombs = |count: usize| {
        let each =
            (0..count).map(|n| (format!("p{n}"), json!({"pattern": format!("((a{{100}}){{100}}){n}")})));
        json!({"type": "object", "properties": each.collect::<serde_json::Map<_, _>>()})
    };
    let ask = |schema: Value| {
        json!({"model": "m", "input": "x", "store": false,
            "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}}})
    };
    let error = gateway.refuse(ask(bombs(1000)), 400, "array_above_max_length").await;
    assert_eq!(error["param"], "text.format.schema");
    let error = gateway.refuse(ask(bombs(100)), 400, "invalid_json_schema").await;
    assert!(error["message"].as_str().unwrap().contains("4096 KiB together"), "{error}");
    assert!(upstream.requests().is_empty(), "what is refused costs the provider nothing");
    gateway.create(ask(patterns(100))).await;
}
