//! What providers are sent: one row a rule.

mod calls;
mod state;

use serde_json::{Value, json};

use super::super::{ChatOptions, encode};
use super::*;
use antwort_config::provider::is_translated_field;
use antwort_config::{
    DeveloperRole, ForwardedField, MaxTokensField, Preset, ProviderSettings, ReasoningField, SystemPlacement,
};
use antwort_protocol::item::Item;
use antwort_protocol::request::{
    JsonSchemaFormat, Metadata, ReasoningEffort, ReasoningRequest, ServiceTier, TextFormat, Verbosity,
};
use antwort_response::turn::{
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
        result_format: antwort_config::ResultFormat::Text,
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

fn wire_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
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
fn roles_and_system_messages() {
    let items = json!([
        {"role": "developer", "content": "d"}, user("q"),
        {"role": "system", "content": [{"type": "input_text", "text": "s"}]}, said("a"),
    ]);
    let request = ModelRequest { instructions: Some("i".to_owned()), ..asked(items) };
    let roles = |developer, system| {
        let mut options = generic();
        options.roles.all.developer = developer;
        options.roles.all.system = system;
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
    assert!(
        is_translated_field("messages") && is_translated_field("max_tokens") && !is_translated_field("top_k")
    );
}
