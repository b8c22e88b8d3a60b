//! Requests that are JSON and still wrong: each with its status, code and parameter.

use antwort::config::UnknownFields;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::upstream::Upstream;

/// A request that is right, with these fields changed.
fn with(fields: Value) -> Value {
    let mut body = json!({"model": "test-model", "input": "Hi"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

/// Checks rows of request, code and parameter; nothing of it may reach the provider.
async fn check(rows: Vec<(Value, &str, Option<&str>)>) {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (body, code, param) in rows {
        for streamed in [false, true] {
            let mut body = body.clone();
            if streamed && body.is_object() && body.get("stream").is_none() {
                body["stream"] = true.into();
            }
            let error = gateway.refuse(body.clone(), 400, code).await;
            assert_eq!(error["type"], "invalid_request_error", "{body}");
            assert_eq!(error["param"].as_str(), param, "{body}: {error}");
            assert!(error["message"].as_str().unwrap().len() > 20, "a sentence that helps: {error}");
        }
    }
    assert!(upstream.requests().is_empty(), "what is refused costs the provider nothing");
}

#[tokio::test]
async fn bodies_that_are_no_json_object_are_named_as_such() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (body, part) in [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("{", "ends too early"),
        (r#"{"model": "m", "input": "x""#, "ends too early"),
        (r#"{"model": "m" "input": "x"}"#, "column"),
        (r#"{"model": "m", "input": "x"} trailing"#, "column"),
        (r#"{'model': 'm'}"#, "column"),
        ("[]", "an object"),
        ("null", "an object"),
        ("\"Hi\"", "an object"),
        ("7", "an object"),
        ("model=m&input=x", "column"),
    ] {
        let json = [("content-type", "application/json")];
        let answer = gateway.post_bytes("/v1/responses", body, &json).await;
        let error = &answer.body["error"];
        assert_eq!((answer.status, &error["code"]), (400, &json!("invalid_json")), "{body:?}");
        assert_eq!(
            (&error["type"], &error["param"]),
            (&json!("invalid_request_error"), &Value::Null),
            "{body:?}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{body:?}: {error}");
    }
    let answer = gateway.post_bytes("/v1/responses", b"{\"model\": \"\xff\"}".to_vec(), &[]).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!("invalid_json")));
    let bom = format!("\u{feff}{}", with(json!({})));
    assert_eq!(
        gateway.post_bytes("/v1/responses", bom, &[]).await.status,
        200,
        "a byte order mark is no mistake"
    );
}

#[tokio::test]
async fn missing_and_mistyped_fields_are_named() {
    check(vec![
        (json!({}), "missing_required_parameter", Some("input")),
        (json!({"input": "x"}), "missing_required_parameter", Some("model")),
        (json!({"model": "m"}), "missing_required_parameter", Some("input")),
        (json!({"model": "m", "input": null}), "missing_required_parameter", Some("input")),
        (with(json!({"model": ""})), "string_below_min_length", Some("model")),
        (with(json!({"model": 5})), "invalid_type", Some("model")),
        (with(json!({"input": 5})), "invalid_type", Some("input")),
        (with(json!({"instructions": ["x"]})), "invalid_type", Some("instructions")),
        (with(json!({"stream": "yes"})), "invalid_type", Some("stream")),
        (with(json!({"store": 1})), "invalid_type", Some("store")),
        (with(json!({"parallel_tool_calls": "no"})), "invalid_type", Some("parallel_tool_calls")),
        (with(json!({"temperature": "hot"})), "invalid_type", Some("temperature")),
        (with(json!({"max_output_tokens": 1.5})), "invalid_type", Some("max_output_tokens")),
        (with(json!({"metadata": {"a": 1}})), "invalid_type", Some("metadata.a")),
        (with(json!({"tools": {}})), "invalid_type", Some("tools")),
        (with(json!({"include": "x"})), "invalid_type", Some("include")),
        (with(json!({"previous_response_id": ""})), "string_below_min_length", Some("previous_response_id")),
        (with(json!({"stream": false, "stream_options": {}})), "invalid_value", Some("stream_options")),
    ])
    .await;
}

#[tokio::test]
async fn messages_without_input_are_told_what_to_use() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let error =
        gateway.refuse(json!({"model": "m", "messages": messages}), 400, "missing_required_parameter").await;
    assert_eq!(error["param"], "input");
    assert_eq!(
        error["message"],
        "Missing required parameter 'input'. Use 'input' in place of 'messages': a text, or the list of messages."
    );
}

#[tokio::test]
async fn every_range_has_both_its_ends() {
    let long = "x".repeat(513);
    let pairs: serde_json::Map<String, Value> = (0..17).map(|n| (n.to_string(), json!("v"))).collect();
    let mut rows = vec![
        (with(json!({"metadata": pairs})), "object_above_max_properties", Some("metadata")),
        (with(json!({"metadata": {"key": long}})), "string_above_max_length", Some("metadata.key")),
        (with(json!({"safety_identifier": long})), "string_above_max_length", Some("safety_identifier")),
        (with(json!({"prompt_cache_key": long})), "string_above_max_length", Some("prompt_cache_key")),
        (with(json!({"truncation": "maybe"})), "invalid_value", Some("truncation")),
        (with(json!({"service_tier": "first"})), "invalid_value", Some("service_tier")),
        (with(json!({"prompt_cache_retention": "1h"})), "invalid_value", Some("prompt_cache_retention")),
        (with(json!({"reasoning": {"effort": "heroic"}})), "invalid_value", Some("reasoning.effort")),
        (with(json!({"text": {"verbosity": "none"}})), "invalid_value", Some("text.verbosity")),
        (with(json!({"text": {"format": {"type": "xml"}}})), "invalid_value", Some("text.format.type")),
        (with(json!({"include": ["everything"]})), "invalid_value", Some("include[0]")),
        (with(json!({"tool_choice": "maybe"})), "invalid_value", Some("tool_choice")),
    ];
    for (field, least, most) in [
        ("temperature", 0.0, 2.0),
        ("top_p", 0.0, 1.0),
        ("presence_penalty", -2.0, 2.0),
        ("frequency_penalty", -2.0, 2.0),
    ] {
        rows.push((with(json!({field: least - 0.1})), "decimal_below_min_value", Some(field)));
        rows.push((with(json!({field: most + 0.1})), "decimal_above_max_value", Some(field)));
    }
    for (field, low) in [("top_logprobs", -1), ("max_output_tokens", 0), ("max_tool_calls", 0)] {
        rows.push((with(json!({field: low})), "integer_below_min_value", Some(field)));
        rows.push((with(json!({field: 5_000_000_000_u64})), "integer_above_max_value", Some(field)));
    }
    rows.push((with(json!({"top_logprobs": 21})), "integer_above_max_value", Some("top_logprobs")));
    check(rows).await;

    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for right in [
        json!({"temperature": 0, "top_p": 0, "presence_penalty": -2, "frequency_penalty": -2, "top_logprobs": 0}),
        json!({"temperature": 2, "top_p": 1, "presence_penalty": 2, "frequency_penalty": 2, "top_logprobs": 20}),
        json!({"max_output_tokens": 1, "max_tool_calls": 1, "safety_identifier": "x".repeat(64)}),
    ] {
        gateway.create(with(right)).await;
    }
}

#[tokio::test]
async fn a_mistake_deep_in_the_input_has_its_path() {
    let user = json!({"role": "user", "content": "Hi"});
    let image = json!({"role": "user", "content": [{"type": "input_image", "image_url": 5}]});
    check(vec![
        (with(json!({"input": [user, user, image]})), "invalid_type", Some("input[2].content[0].image_url")),
        (with(json!({"input": [{"type": "wish"}]})), "invalid_value", Some("input[0].type")),
        (with(json!({"input": [{"role": "king", "content": "x"}]})), "invalid_value", Some("input[0].role")),
        (
            with(json!({"input": [user, {"type": "function_call", "name": "f"}]})),
            "missing_required_parameter",
            Some("input[1].call_id"),
        ),
        (with(json!({"tools": [{"type": "function"}]})), "missing_required_parameter", Some("tools[0].name")),
        (
            with(json!({"tools": [{"type": "function", "name": "a b"}]})),
            "invalid_value",
            Some("tools[0].name"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_unknown_field_is_refused_with_what_was_probably_meant() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (field, meant) in [
        ("max_tokens", Some("max_output_tokens")),
        ("messages", Some("input")),
        ("response_format", Some("text.format")),
        ("temprature", Some("temperature")),
        ("flux_capacitor", None),
    ] {
        let error = gateway.refuse(with(json!({field: 1})), 400, "unknown_parameter").await;
        assert_eq!(error["param"], field);
        let message = error["message"].as_str().unwrap();
        assert!(meant.is_none_or(|meant| message.contains(&format!("'{meant}'"))), "{message}");
        assert_eq!(meant.is_some(), message.contains("Did you mean"), "{message}");
    }
}

#[tokio::test]
async fn what_waits_for_a_later_capability_is_refused_not_dropped() {
    check(vec![
        (with(json!({"prompt": {"id": "pmpt_1", "version": "1"}})), "unsupported_parameter", Some("prompt.version")),
        (with(json!({"moderation": {}})), "unsupported_parameter", Some("moderation")),
        (with(json!({"n": 2})), "unsupported_parameter", Some("n")),
        (with(json!({"reasoning": {"mode": "pro"}})), "unsupported_parameter", Some("reasoning.mode")),
        (
            with(json!({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]}]})),
            "unsupported_parameter",
            Some("input[0].content[0].file_id"),
        ),
        (
            with(json!({"input": [{"role": "user", "content": "a"}, {"role": "user", "content": [
                {"type": "input_text", "text": "a"}, {"type": "input_file", "file_url": "https://x/y.pdf"}]}]})),
            "unsupported_parameter",
            Some("input[1].content[1].file_url"),
        ),
        (
            with(json!({"previous_response_id": "resp_1", "conversation": "conv_1"})),
            "mutually_exclusive_parameters",
            Some("previous_response_id"),
        ),
    ])
    .await;
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    gateway
        .create(with(json!({"background": false, "n": 1, "conversation": null, "client_metadata": {"a": 1}})))
        .await;
}

#[tokio::test]
async fn fields_for_the_provider_reach_it_byte_for_byte() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let kwargs = r#"{"enable_thinking" : false,"budget":1.50,"deep":{"b":1,"a":[1e3]}}"#;
    let body = format!(r#"{{"model":"m","input":"x","seed":42,"top_k":7,"chat_template_kwargs":{kwargs}}}"#);
    let answer = gateway.post_bytes("/v1/responses", body, &[]).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    let sent = upstream.requests()[0].raw.clone();
    assert!(sent.contains(&format!(r#""chat_template_kwargs":{kwargs}"#)), "{sent}");
    assert!(sent.contains(r#""seed":42"#) && sent.contains(r#""top_k":7"#), "{sent}");
}

#[tokio::test]
async fn ignored_fields_are_named_in_a_header() {
    let upstream = Upstream::spawn().await;
    let ignore =
        |settings: &mut antwort::config::Settings| settings.compat.unknown_fields = UnknownFields::Ignore;
    let gateway = Gateway::with_upstream(&upstream).set(ignore).spawn().await;
    let ignored = async |body: Value| {
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.headers().get("antwort-ignored-fields").map(|value| value.to_str().unwrap().to_owned())
    };
    for stream in [false, true] {
        let named = ignored(with(json!({"stream": stream, "flux": 1, "seed": 2, "max_tokens": 3}))).await;
        assert_eq!(named.as_deref(), Some("flux, max_tokens"));
        assert_eq!(ignored(with(json!({"stream": stream}))).await, None);
    }
    let sent = upstream.requests()[0].body.clone();
    assert_eq!((sent.get("flux"), sent.get("max_tokens"), &sent["seed"]), (None, None, &json!(2)));
    // Names that no header can hold are not dropped in silence.
    let named = ignored(with(json!({"naïve\r\nx-evil: 1": 1, "plain": 2}))).await.expect("named");
    assert!(named.contains("plain") && named.contains("na"), "{named}");
    let name = |n| format!("a_field_of_a_client_that_gives_its_fields_long_names_{n}");
    let many: serde_json::Map<String, Value> = (0..200).map(|n| (name(n), json!(1))).collect();
    assert!(ignored(with(Value::Object(many))).await.expect("named").len() <= 4096);
}
