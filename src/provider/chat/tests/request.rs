//! What providers are sent: one row a rule.

use serde_json::{Value, json};

use super::super::{ChatOptions, encode, is_reserved};
use super::*;
use crate::config::{
    DeveloperRole, ForwardedField, MaxTokensField, Preset, ProviderSettings, ReasoningField, SystemPlacement,
};
use crate::protocol::item::Item;
use crate::protocol::request::{
    JsonSchemaFormat, Metadata, ReasoningEffort, ReasoningRequest, ServiceTier, TextFormat, Verbosity,
};
use crate::response::turn::{
    CallChoice, HistoryItem, ModelRequest, ProviderHints, ProviderState, SamplingParams, StatePosition,
};

pub(super) fn asked(items: Value) -> ModelRequest {
    let Value::Array(items) = items else { panic!("a list of items") };
    ModelRequest {
        model: "m".to_owned(),
        instructions: None,
        conversation: items
            .into_iter()
            .map(|item| HistoryItem::from(serde_json::from_value::<Item>(item).unwrap()))
            .collect(),
        tools: Arc::new([]),
        tool_choice: CallChoice::Auto,
        result_format: crate::config::ResultFormat::Text,
        parallel_tool_calls: true,
        max_output_tokens: None,
        format: TextFormat::Text,
        verbosity: None,
        reasoning: ReasoningRequest::default(),
        sampling: SamplingParams::default(),
        hints: ProviderHints::default(),
        extra: Vec::new(),
        stream: false,
    }
}

fn hello() -> ModelRequest {
    asked(json!([user("hi")]))
}

/// A server that knows the least, whatever the defaults are.
fn generic() -> ChatOptions {
    let mut options = ChatOptions::from(&ProviderSettings::default());
    (options.supports.files, options.supports.strict) = (false, false);
    ChatOptions { reasoning_field: ReasoningField::None, forward: Vec::new(), ..options }
}

fn openai() -> ChatOptions {
    ChatOptions::from(&ProviderSettings::new(Preset::OpenAi, ""))
}

fn sent(request: &ModelRequest, options: &ChatOptions) -> Value {
    serde_json::from_slice(&encode(request, options, true).unwrap()).unwrap()
}

fn messages(items: Value, options: &ChatOptions) -> Value {
    sent(&ModelRequest { tools: tools(), ..asked(items) }, options)["messages"].take()
}

fn refused(request: &ModelRequest, options: &ChatOptions) -> &'static str {
    match encode(request, options, true).unwrap_err().kind {
        ProviderErrorKind::Unsupported { param } => param,
        other => panic!("{other:?}"),
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn said(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
}

fn output(id: &str, output: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output})
}

fn thought(text: &str) -> Value {
    json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]})
}

fn wire_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

#[test]
fn the_smallest_request_is_small() {
    let body = encode(&hello(), &generic(), true).unwrap();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#
    );
}

#[test]
fn calls_and_their_outputs() {
    let (f, g) = (wire_call("1", "f", "{}"), wire_call("2", "get_weather", "{}"));
    let calls =
        |content: Value, calls: Value| json!({"role": "assistant", "content": content, "tool_calls": calls});
    let plain = |text: &str| json!({"role": "assistant", "content": text});
    let rows = [
        (
            "parallel calls are one message, with the text before them",
            json!([
                user("q"),
                said("t"),
                call("1", "f", "{}"),
                call("2", "get_weather", "{}"),
                output("1", "x"),
                output("2", "y"),
                said("z")
            ]),
            json!([user("q"), calls(json!("t"), json!([f, g])), tool("1", "x"), tool("2", "y"), plain("z")]),
        ),
        (
            "turns stay apart",
            json!([
                user("q"),
                call("1", "f", "{}"),
                output("1", "x"),
                call("2", "get_weather", "{}"),
                output("2", "y")
            ]),
            json!([
                user("q"),
                calls(Value::Null, json!([f])),
                tool("1", "x"),
                calls(Value::Null, json!([g])),
                tool("2", "y")
            ]),
        ),
        (
            "text between a call and its output",
            json!([call("1", "f", "{}"), said("t"), output("1", "x")]),
            json!([calls(json!("t"), json!([f])), tool("1", "x")]),
        ),
        (
            "text before and between",
            json!([said("s"), call("1", "f", "{}"), said("t"), output("1", "x")]),
            json!([calls(json!("s\n\nt"), json!([f])), tool("1", "x")]),
        ),
        (
            "a user between a call and its output",
            json!([call("1", "f", "{}"), user("well?"), output("1", "x")]),
            json!([calls(Value::Null, json!([f])), tool("1", "x"), user("well?")]),
        ),
        (
            "outputs in another order than their calls",
            json!([call("1", "f", "{}"), call("2", "get_weather", "{}"), output("2", "y"), output("1", "x")]),
            json!([calls(Value::Null, json!([f, g])), tool("1", "x"), tool("2", "y")]),
        ),
        (
            "an id that was used twice",
            json!([call("1", "f", "{}"), output("1", "x"), call("1", "f", "{}"), output("1", "y")]),
            json!([
                calls(Value::Null, json!([f])),
                tool("1", "x"),
                calls(Value::Null, json!([f])),
                tool("1", "y")
            ]),
        ),
        (
            "an output without its call",
            json!([user("q"), output("9", "x")]),
            json!([user("q"), tool("9", "x")]),
        ),
        (
            "no arguments, and arguments that are no JSON",
            json!([call("1", "f", ""), call("2", "get_weather", "oops"), output("1", ""), output("2", "y")]),
            json!([
                calls(Value::Null, json!([f, wire_call("2", "get_weather", r#"{"input":"oops"}"#)])),
                tool("1", ""),
                tool("2", "y")
            ]),
        ),
        (
            "namespaces, and tools that are gone",
            json!([
                {"type": "function_call", "call_id": "1", "namespace": "ns", "name": "js", "arguments": "{}"},
                {"type": "function_call", "call_id": "2", "namespace": "old", "name": "js", "arguments": "{}"},
                output("1", "x"), output("2", "y"),
            ]),
            json!([
                calls(Value::Null, json!([wire_call("1", "ns__js", "{}"), wire_call("2", "old__js", "{}")])),
                tool("1", "x"),
                tool("2", "y")
            ]),
        ),
        (
            "custom tools",
            json!([
                {"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "a\"b"},
                {"type": "custom_tool_call_output", "call_id": "1", "output": "x"},
            ]),
            json!([
                calls(Value::Null, json!([wire_call("1", "patch", r#"{"input":"a\"b"}"#)])),
                tool("1", "x")
            ]),
        ),
        (
            "calls of MCP servers hold their output",
            json!([
                {"type": "mcp_call", "id": "mcp_1", "server_label": "ns", "name": "js", "arguments": "{}", "output": "x"},
                {"type": "mcp_call", "id": "mcp_2", "server_label": "s", "name": "n", "arguments": "", "error": "no"},
                said("t"),
            ]),
            json!([
                calls(
                    Value::Null,
                    json!([wire_call("mcp_1", "ns__js", "{}"), wire_call("mcp_2", "s__n", "{}")])
                ),
                tool("mcp_1", "x"),
                tool("mcp_2", "Error: no"),
                plain("t")
            ]),
        ),
        (
            "hosted items without a form in Chat",
            json!([user("q"), {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}}, said("t")]),
            json!([user("q"), plain("t")]),
        ),
    ];
    for (name, items, expected) in rows {
        assert_eq!(messages(items, &generic()), expected, "{name}");
    }
    let mut native = generic();
    native.supports.custom_tools = true;
    let items = json!([{"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "p"}]);
    let expected = json!([{"id": "1", "type": "custom", "custom": {"name": "patch", "input": "p"}}]);
    assert_eq!(messages(items, &native)[0]["tool_calls"], expected);
}

#[test]
fn roles_and_system_messages() {
    let items = json!([
        {"role": "developer", "content": "d"}, user("q"),
        {"role": "system", "content": [{"type": "input_text", "text": "s"}]}, said("a"),
    ]);
    let request = ModelRequest { instructions: Some("i".to_owned()), ..asked(items) };
    let roles = |developer, system| {
        let mut options = generic();
        options.roles.developer = developer;
        options.roles.system = system;
        let sent = sent(&request, &options)["messages"].take();
        let sent = sent
            .as_array()
            .unwrap()
            .iter()
            .map(|m| format!("{} {}", m["role"], m["content"]).replace('"', ""));
        sent.collect::<Vec<_>>()
    };
    use DeveloperRole::{Developer, System, User};
    use SystemPlacement::{Keep, Merge};
    assert_eq!(roles(System, Merge), ["system i\\n\\nd\\n\\ns", "user q", "assistant a"]);
    assert_eq!(roles(System, Keep), ["system i", "system d", "user q", "system s", "assistant a"]);
    assert_eq!(roles(Developer, Keep), ["developer i", "developer d", "user q", "system s", "assistant a"]);
    assert_eq!(roles(User, Keep), ["user i", "user d", "user q", "user s", "assistant a"]);
}

#[test]
fn content_of_all_kinds() {
    let image =
        |detail: &str| json!({"type": "input_image", "image_url": "https://x/y.png", "detail": detail});
    let wire_image = |detail: Value| match detail {
        Value::Null => json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}}),
        detail => json!({"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": detail}}),
    };
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let wire_text = |text: &str| json!({"type": "text", "text": text});
    let file =
        json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"});
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}});
    let rows = [
        (json!([text("a"), text("b")]), json!("a\nb")),
        (json!([]), json!("")),
        (json!([text("a"), image("auto")]), json!([wire_text("a"), wire_image(Value::Null)])),
        (
            json!([image("original"), image("low")]),
            json!([wire_image(json!("high")), wire_image(json!("low"))]),
        ),
        (
            json!([file]),
            json!([{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}]),
        ),
        (json!([audio]), json!([audio])),
    ];
    for (content, expected) in rows {
        let items = json!([{"role": "user", "content": content}]);
        assert_eq!(messages(items, &openai())[0], json!({"role": "user", "content": expected}));
    }
    let notes =
        json!({"type": "input_file", "filename": "n.md", "file_data": "data:text/markdown;base64,aGk="});
    assert_eq!(
        messages(json!([{"role": "user", "content": [notes]}]), &generic())[0]["content"],
        json!([wire_text("n.md:\n\nhi")])
    );
    let refusal = json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]});
    assert_eq!(messages(json!([refusal, user("why?")]), &generic())[0]["content"], "no");
    let empty = json!({"role": "assistant", "content": []});
    assert_eq!(messages(json!([user("q"), empty, user("r")]), &generic()), json!([user("q"), user("r")]));
    let pictured = json!([{"role": "developer", "content": [text("a"), image("auto")]}]);
    assert_eq!(messages(pictured, &generic())[0]["role"], "user");

    let mut blind = generic();
    (blind.supports.images, blind.supports.audio) = (false, false);
    for part in [image("auto"), audio, file] {
        assert_eq!(refused(&asked(json!([{"role": "user", "content": [part]}])), &blind), "input");
    }
    assert_eq!(refused(&asked(json!([])), &generic()), "input");
}

#[test]
fn outputs_with_pictures() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,A"});
    let parts = |parts: Value| json!({"type": "function_call_output", "call_id": "1", "output": parts});
    let items = |parts: Value| {
        json!([call("1", "f", "{}"), call("2", "f", "{}"), parts, output("2", "y"), user("q")])
    };
    let wire_image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}});
    let follow = json!({"role": "user", "content": [{"type": "text", "text": "Output of the tool call 1:"}, wire_image]});
    let text = json!({"type": "input_text", "text": "a"});
    let sent = messages(items(parts(json!([text, image]))), &generic());
    assert_eq!(sent.as_array().unwrap()[1..], [tool("1", "a"), tool("2", "y"), follow, user("q")]);
    let sent = messages(items(parts(json!([image]))), &generic());
    assert_eq!(
        sent.as_array().unwrap()[1..3],
        [tool("1", "The output follows in the next message."), tool("2", "y")]
    );
    let output_text = json!({"type": "output_text", "text": "b"});
    let sent = messages(items(parts(json!([text, output_text]))), &generic());
    assert_eq!(sent[1], tool("1", "a\nb"));
}

#[test]
fn reasoning_goes_back_with_its_turn() {
    let with = |field| ChatOptions { reasoning_field: field, ..generic() };
    let shown = |items: Value, options: &ChatOptions| {
        let sent = messages(items, options);
        let list = sent.as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        list.map(|message| {
            format!("{} {}", message["content"], message["reasoning_content"]).replace('"', "")
        })
        .collect::<Vec<_>>()
    };
    let content = with(ReasoningField::ReasoningContent);
    let called = || call("1", "f", "{}");
    let rows = [
        (json!([thought("r"), said("a"), user("q")]), vec!["a r"]),
        (json!([thought("r"), called(), output("1", "x"), thought("s"), said("a")]), vec!["null r", "a s"]),
        (json!([thought("r"), said("a"), called(), output("1", "x")]), vec!["a r"]),
        (json!([thought("r"), said("a"), thought("s"), called(), output("1", "x")]), vec!["a r", "null s"]),
        (
            json!([
                thought("r"),
                called(),
                thought("s"),
                call("2", "f", "{}"),
                output("1", "x"),
                output("2", "y")
            ]),
            vec!["null r\\n\\ns"],
        ),
        (json!([said("a"), thought("r"), user("q")]), vec!["a r"]),
        (json!([thought("r"), user("q"), said("a")]), vec!["a null"]),
    ];
    for (items, expected) in rows {
        assert_eq!(shown(items.clone(), &content), expected, "{items}");
    }
    assert_eq!(
        messages(json!([thought("r"), said("a")]), &with(ReasoningField::Reasoning))[0]["reasoning"],
        "r"
    );
    assert_eq!(
        messages(json!([thought("r"), said("a")]), &generic())[0],
        json!({"role": "assistant", "content": "a"})
    );
}

#[test]
fn provider_state_goes_back_word_for_word() {
    let state = |fields: Value| ProviderState {
        text: "hidden".to_owned(),
        fields: serde_json::from_value(fields).unwrap(),
        ..ProviderState::default()
    };
    let mut request = asked(json!([
        thought("r"),
        thought("s"),
        call("1", "f", "{}"),
        call("2", "f", "{}"),
        output("1", "x"),
        output("2", "y")
    ]));
    request.conversation[0].state =
        Some(state(json!({"reasoning_details": [{"signature": "1"}], "role": "evil"})));
    request.conversation[1].state =
        Some(state(json!({"reasoning_details": [{"signature": "2"}], "tool_calls": "evil"})));
    let extra = json!({"google": {"thought_signature": "g"}});
    request.conversation[3].call_fields =
        Some(serde_json::from_value(json!({"extra_content": extra, "function": "evil"})).unwrap());
    let mut second = wire_call("2", "f", "{}");
    second["extra_content"] = extra;
    let expected = json!({
        "role": "assistant", "content": null, "reasoning_details": [{"signature": "1"}, {"signature": "2"}],
        "tool_calls": [wire_call("1", "f", "{}"), second],
    });
    assert_eq!(sent(&request, &generic())["messages"][0], expected);
    // What has a form of its own does not go twice.
    let reasoning = ChatOptions { reasoning_field: ReasoningField::Reasoning, ..generic() };
    assert_eq!(sent(&request, &reasoning)["messages"][0], expected);
    for context in &mut request.conversation {
        context.state =
            context.state.take().map(|state| ProviderState { fields: serde_json::Map::new(), ..state });
    }
    assert_eq!(sent(&request, &reasoning)["messages"][0]["reasoning"], "hidden\n\nhidden");
}

#[test]
fn state_goes_back_with_the_answer_that_it_came_with() {
    let state = |mark: &str, place: StatePosition| ProviderState {
        fields: serde_json::from_value(json!({"reasoning_details": [mark]})).unwrap(),
        place,
        ..ProviderState::default()
    };
    let ran = |id: &str| json!({"type": "mcp_call", "id": id, "server_label": "s", "name": "n", "arguments": "{}", "output": "x"});
    let shown = |items: Value, states: &[(usize, StatePosition)]| {
        let mut request = asked(items);
        for (at, place) in states {
            request.conversation[*at].state = Some(state(&at.to_string(), *place));
        }
        let sent = sent(&request, &generic())["messages"].clone();
        let answers = sent.as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        let shown = answers.map(|message| {
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            format!("{} {calls} {}", message["content"], message["reasoning_details"]).replace('"', "")
        });
        shown.collect::<Vec<_>>()
    };
    let (leads, within, trails) = (StatePosition::Leads, StatePosition::Within, StatePosition::Trails);
    /// Items, where state stands among them, and the answers with it.
    type Row<'a> = (Value, &'a [(usize, StatePosition)], &'a [&'a str]);
    let rows: [Row<'_>; 8] = [
        // State alone, before the calls of two answers.
        (
            json!([thought(""), ran("1"), thought(""), ran("2")]),
            &[(0, leads), (2, leads)],
            &["null 1 [0]", "null 1 [2]"],
        ),
        // Amid one answer.
        (json!([said("a"), thought(""), ran("1"), ran("2")]), &[(1, within)], &["a 2 [1]"]),
        (json!([ran("1"), thought(""), ran("2"), user("q")]), &[(1, within)], &["null 2 [1]"]),
        (json!([said("a"), thought(""), user("q")]), &[(1, trails)], &["a 0 [1]"]),
        // Kept with the first call of an answer, and with a text.
        (
            json!([said("a"), ran("1"), ran("2"), ran("3")]),
            &[(1, leads), (3, leads)],
            &["a 2 [1]", "null 1 [3]"],
        ),
        (json!([said("a"), user("q")]), &[(0, leads)], &["a 0 [0]"]),
        (json!([said(""), call("1", "f", "{}"), output("1", "x")]), &[(0, leads)], &["null 1 [0]"]),
        (json!([ran("1"), thought("r"), ran("2")]), &[(2, leads)], &["null 1 null", "null 1 [2]"]),
    ];
    for (items, states, expected) in rows {
        assert_eq!(shown(items.clone(), states), expected, "{items}");
    }
}

#[test]
fn tools_are_the_same_bytes_in_every_turn() {
    let schema = r#"{ "type":"object", "x-b":1.0, "properties":{"z":{},"a":{}} }"#;
    let mut tools: Vec<ModelTool> = tools().iter().map(|tool| ModelTool::clone(tool)).collect();
    tools[0].input =
        ToolInput::Json { schema: Some(serde_json::from_str(schema).unwrap()), strict: Some(true) };
    tools[0].description = Some("does f".to_owned());
    tools[3].input = ToolInput::Text { grammar: Some("Lark:\nstart: \"x\"".to_owned()) };
    tools[3].description = Some("patches".to_owned());
    let request = ModelRequest { tools: tools.into_iter().map(Into::into).collect(), ..hello() };
    let body = String::from_utf8(encode(&request, &generic(), true).unwrap()).unwrap();
    assert!(
        body.contains(&format!(
            r#"{{"type":"function","function":{{"name":"f","description":"does f","parameters":{schema}}}}}"#
        )),
        "{body}"
    );
    assert!(
        body.contains(r#"{"name":"get_weather","parameters":{"type":"object","properties":{}}}"#),
        "{body}"
    );
    let list = |body: &str| body[body.find("\"tools\"").unwrap()..].to_owned();
    let later =
        ModelRequest { conversation: asked(json!([user("another")])).conversation, ..request.clone() };
    assert_eq!(list(&body), list(&String::from_utf8(encode(&later, &generic(), true).unwrap()).unwrap()));

    let sent = sent(&request, &openai());
    assert_eq!(sent["tools"][0]["function"]["strict"], true);
    let custom = &sent["tools"][3]["function"];
    assert_eq!(custom["description"], "patches\n\nLark:\nstart: \"x\"");
    assert_eq!(custom["parameters"]["required"], json!(["input"]));
    let mut native = openai();
    native.supports.custom_tools = true;
    assert_eq!(super::request::sent(&request, &native)["tools"][3]["custom"]["name"], "patch");
}

#[test]
fn choices() {
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let place = |name: &str| tools().iter().position(|tool| tool.wire_name == name).unwrap();
    let among = |places: Vec<usize>, required| CallChoice::Among { places, required };
    let two = || vec![place("ns__js"), place("patch")];
    let rows = [
        (CallChoice::Auto, Value::Null),
        (CallChoice::None, json!("none")),
        (CallChoice::Required, json!("required")),
        (CallChoice::One(place("ns__js")), function("ns__js")),
        (CallChoice::One(place("patch")), function("patch")),
        (among(two(), false), Value::Null),
        (among(two(), true), json!("required")),
        (among(Vec::new(), false), Value::Null),
    ];
    for (tool_choice, expected) in rows {
        let request = ModelRequest { tools: tools(), tool_choice: tool_choice.clone(), ..hello() };
        let sent = sent(&request, &generic());
        assert_eq!(sent["tool_choice"], expected, "{tool_choice:?}");
        assert_eq!(sent["tools"].as_array().unwrap().len(), 4);
        assert_eq!(sent["parallel_tool_calls"], true);
    }
    let mut native = openai();
    native.supports.custom_tools = true;
    for (required, mode) in [(false, "auto"), (true, "required")] {
        let request = ModelRequest { tools: tools(), tool_choice: among(two(), required), ..hello() };
        let named = json!([function("ns__js"), {"type": "custom", "custom": {"name": "patch"}}]);
        let expected = json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}});
        assert_eq!(super::request::sent(&request, &native)["tool_choice"], expected);
    }
    let none_left = ModelRequest { tools: tools(), tool_choice: among(Vec::new(), false), ..hello() };
    assert_eq!(super::request::sent(&none_left, &native)["tool_choice"], Value::Null);
    let without_tools = ModelRequest { tool_choice: CallChoice::None, ..hello() };
    let sent = sent(&without_tools, &generic());
    assert!(sent.get("tool_choice").is_none() && sent.get("parallel_tool_calls").is_none());
}

#[test]
fn options_of_the_request() {
    let format = TextFormat::JsonSchema(JsonSchemaFormat {
        name: "n".to_owned(),
        description: Some("d".to_owned()),
        schema: serde_json::from_str(r#"{"type":"object"}"#).unwrap(),
        strict: Some(true),
    });
    let request = ModelRequest {
        format,
        verbosity: Some(Verbosity::Low),
        max_output_tokens: Some(7),
        reasoning: ReasoningRequest { effort: Some(ReasoningEffort::XHigh), summary: None },
        sampling: SamplingParams {
            temperature: Some(0.5),
            top_p: Some(0.9),
            presence_penalty: Some(1.0),
            frequency_penalty: Some(-1.0),
            logprobs: Some(2),
        },
        stream: true,
        ..hello()
    };
    let mut expected = json!({
        "model": "m", "messages": [user("hi")],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "description": "d", "schema": {"type": "object"}, "strict": true}},
        "verbosity": "low", "max_completion_tokens": 7, "reasoning_effort": "xhigh",
        "temperature": 0.5, "top_p": 0.9, "presence_penalty": 1.0, "frequency_penalty": -1.0,
        "logprobs": true, "top_logprobs": 2, "stream": true, "stream_options": {"include_usage": true},
    });
    assert_eq!(sent(&request, &openai()), expected);
    expected.as_object_mut().unwrap().remove("stream_options");
    let body: Value = serde_json::from_slice(&encode(&request, &openai(), false).unwrap()).unwrap();
    assert_eq!(body, expected);

    let old = ChatOptions { max_tokens_field: MaxTokensField::MaxTokens, ..generic() };
    let sent_to_old = sent(&request, &old);
    assert_eq!((&sent_to_old["max_tokens"], sent_to_old.get("max_completion_tokens")), (&json!(7), None));
    assert!(sent_to_old["response_format"]["json_schema"].get("strict").is_none());
    let any = ModelRequest {
        format: TextFormat::JsonObject,
        sampling: SamplingParams { logprobs: Some(0), ..SamplingParams::default() },
        ..hello()
    };
    let sent_any = sent(&any, &generic());
    assert_eq!(sent_any["response_format"], json!({"type": "json_object"}));
    assert_eq!((&sent_any["logprobs"], sent_any.get("top_logprobs")), (&json!(true), None));
    let mut formless = generic();
    formless.supports.response_format = false;
    assert_eq!(refused(&any, &formless), "text.format");
}

#[test]
fn hints_and_other_fields() {
    let raw = |json: &str| serde_json::from_str(json).unwrap();
    let request = ModelRequest {
        hints: ProviderHints {
            user: Some("u".to_owned()),
            safety_identifier: Some("s".to_owned()),
            prompt_cache_key: Some("k".to_owned()),
            prompt_cache_retention: Some("24h".to_owned()),
            service_tier: Some(ServiceTier::Flex),
            metadata: Metadata(vec![("a".to_owned(), "b".to_owned())]),
        },
        extra: vec![
            ("top_k".to_owned(), raw("1.50")),
            ("stream".to_owned(), raw("false")),
            ("model".to_owned(), raw("0")),
        ],
        ..hello()
    };
    let body = String::from_utf8(encode(&request, &generic(), true).unwrap()).unwrap();
    assert!(body.ends_with(r#","top_k":1.50}"#), "{body}");
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"model": "m", "messages": [user("hi")], "top_k": 1.5})
    );
    let all = ChatOptions {
        forward: vec![
            ForwardedField::User,
            ForwardedField::SafetyIdentifier,
            ForwardedField::PromptCacheKey,
            ForwardedField::PromptCacheRetention,
            ForwardedField::ServiceTier,
            ForwardedField::Metadata,
        ],
        ..generic()
    };
    assert_eq!(
        sent(&request, &all),
        json!({
            "model": "m", "messages": [user("hi")], "user": "u", "safety_identifier": "s", "prompt_cache_key": "k",
            "prompt_cache_retention": "24h", "service_tier": "flex", "metadata": {"a": "b"}, "top_k": 1.5,
        })
    );
    assert!(is_reserved("messages") && is_reserved("max_tokens") && !is_reserved("top_k"));
}
