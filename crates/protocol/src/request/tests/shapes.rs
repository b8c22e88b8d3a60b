//! An object is an object and a name is a string, wherever in a request they stand; integers are integers
//! however they are written.

use serde_json::{Map, Value, json};

use super::items::output_items;
use super::{parsed, refused, with};
use crate::request::CreateResponse;

/// What is behind these is the user's own, or was not read yet.
const FREE: &[&str] = &[
    "any",
    "arguments",
    "attributes",
    "input_schema",
    "annotations",
    "parameters",
    "prompt_cache_options",
    "schema",
    "output_schema",
    "value",
];

/// Bodies that between them have every field whose value is an object.
fn bodies() -> Vec<Value> {
    let mut bodies = vec![
        json!({"model": "m", "input": "hi", "stream": true, "stream_options": {"include_obfuscation": true},
            "antwort": {"limits": {"max_turns": 3, "max_total_tokens": 5, "max_identical_calls": 2, "max_seconds": 1.5},
                "stream_visibility": "full", "tool_cache": "allow"},
            "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}, "strict": true},
                "verbosity": "low"},
            "reasoning": {"effort": "high", "summary": "auto"}, "metadata": {"a": "b"},
            "prompt": {"id": "p", "variables": {"a": "b", "c": {"type": "input_text", "text": "t"}}},
            "prompt_cache_options": {"mode": "x"}, "truncation": "auto", "service_tier": "flex", "n": 1,
            "max_output_tokens": 100, "max_tool_calls": 4, "top_logprobs": 2, "prompt_cache_retention": "24h",
            "include": ["reasoning.encrypted_content"], "allowed_tools": ["f"]}),
        json!({"model": "m", "input": "hi", "text": {"format": {"type": "json_schema",
            "json_schema": {"name": "a", "schema": {"type": "object"}}}},
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
                "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "mcp", "server_label": "l"},
                    {"type": "custom", "name": "c"}, {"type": "web_search"}]}}}),
        json!({"model": "m", "input": "hi", "tool_choice": {"type": "function", "name": "f"}, "tools": tools()}),
        json!({"model": "m", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "t"},
                {"type": "input_image", "image_url": "https://x/y", "detail": "low"},
                {"type": "input_file", "file_data": "AA"},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]},
            {"role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "t", "annotations": [],
                "logprobs": [{"token": "t", "logprob": -0.5, "bytes": [1],
                    "top_logprobs": [{"token": "t", "logprob": -0.5, "bytes": [1]}]}]}]},
            {"type": "item_reference", "id": "x"}, {"id": "y"}]}),
    ];
    bodies.extend(output_items().into_iter().map(|item| json!({"model": "m", "input": [item]})));
    bodies
}

fn tools() -> Value {
    json!([
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "allowed_callers": ["direct"]},
        {"type": "function", "function": {"name": "g", "parameters": {}}},
        {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}},
        {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c", "format": {"type": "text"}}]},
        {"type": "mcp", "server_label": "l", "server_url": "https://x", "headers": {"a": "b"},
            "allowed_tools": {"tool_names": ["a"]},
            "require_approval": {"never": {"read_only": true}, "always": {"tool_names": ["t"]}}},
        {"type": "web_search", "filters": {"allowed_domains": ["x"]}, "search_context_size": "low",
            "user_location": {"type": "approximate", "country": "DE"}},
        {"type": "web_search_preview", "user_location": {"city": "Köln"}},
        {"type": "file_search", "vector_store_ids": ["v"], "max_num_results": 3,
            "ranking_options": {"ranker": "auto", "hybrid_search": {"embedding_weight": 0.5, "text_weight": 0.5}},
            "filters": {"type": "or", "filters": [{"type": "eq", "key": "k", "value": 1}]}},
        {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "1g", "network_policy":
            {"type": "allowlist", "allowed_domains": ["x"],
                "domain_secrets": [{"domain": "x", "name": "n", "value": "v"}]}}},
        {"type": "image_generation", "quality": "low", "partial_images": 2, "input_image_mask": {"image_url": "u"}},
        {"type": "computer_use_preview", "environment": "linux", "display_width": 9, "display_height": 9},
        {"type": "shell", "environment": {"type": "container_auto", "skills": [
            {"type": "inline", "name": "n", "description": "d", "source": {"type": "base64", "media_type": "m", "data": "d"}},
            {"type": "skill_reference", "skill_id": "s"}]}},
        {"type": "shell", "environment": {"type": "local",
            "skills": [{"name": "n", "description": "d", "path": "p"}]}},
        {"type": "apply_patch", "allowed_callers": ["programmatic"]},
        {"type": "tool_search", "execution": "client", "parameters": {}}
    ])
}

/// Sees a value, its path, and how the body is with another value in its place.
type Visit<'a> = dyn FnMut(&str, &Value, &dyn Fn(Value) -> Value) + 'a;

/// Calls back with each value of a body, its path, and the body with another value in its place.
fn each_value(body: &Value, visit: &mut Visit<'_>) {
    fn walk(value: &Value, path: &str, visit: &mut Visit<'_>, rebuild: &dyn Fn(Value) -> Value) {
        visit(path, value, rebuild);
        match value {
            Value::Object(fields) => {
                for (key, inner) in fields.iter().filter(|(key, _)| !FREE.contains(&key.as_str())) {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(inner, &path, visit, &|other| {
                        let mut fields: Map<String, Value> = fields.clone();
                        fields.insert(key.clone(), other);
                        rebuild(Value::Object(fields))
                    });
                }
            }
            Value::Array(list) => {
                for (i, inner) in list.iter().enumerate() {
                    walk(inner, &format!("{path}[{i}]"), visit, &|other| {
                        let mut list = list.clone();
                        list[i] = other;
                        rebuild(Value::Array(list))
                    });
                }
            }
            _ => {}
        }
    }
    walk(body, "", visit, &|whole| whole);
}

#[test]
fn an_array_where_an_object_is_expected_is_refused_at_every_path() {
    let mut seen = 0;
    for body in bodies() {
        parsed(&body.to_string());
        each_value(&body, &mut |path, value, rebuild| {
            let Value::Object(fields) = value else { return };
            // What an MCP tool said when it failed is any JSON.
            if path.is_empty() || path.contains(".error.content") {
                return;
            }
            for array in [fields.values().cloned().collect(), Vec::new()] {
                // A list of names is another form of this one.
                if path.ends_with("].allowed_tools") && array.is_empty() {
                    continue;
                }
                let changed = rebuild(Value::Array(array)).to_string();
                let (code, param) = refused(&changed);
                assert_eq!(code, "invalid_type", "{path}: {changed}");
                let inner =
                    param.strip_prefix(path).unwrap_or_else(|| panic!("{param} is not {path}: {changed}"));
                assert!(inner.is_empty() || inner == "[0]", "{param} is not {path}: {changed}");
                seen += 1;
            }
        });
    }
    assert!(seen > 200, "{seen} places were tried");
}

#[test]
fn an_object_where_a_string_is_expected_is_refused_at_every_path() {
    for body in bodies() {
        each_value(&body, &mut |path, value, rebuild| {
            let Value::String(text) = value else { return };
            // Where there is only one shape, its `type` is not looked at.
            if path.ends_with(".type") {
                return;
            }
            let changed = rebuild(json!({text: null})).to_string();
            let (_, param) = refused(&changed);
            assert!(param.starts_with(path), "{param} is not {path}: {changed}");
        });
    }
}

#[test]
fn a_number_without_a_fraction_is_an_integer_at_every_path() {
    let mut seen = 0;
    for body in bodies() {
        each_value(&body, &mut |path, value, rebuild| {
            let Some(number) = value.as_i64() else { return };
            for same in [format!("{number}.0"), format!("{number}e0")] {
                let same: Value = serde_json::from_str(&same).unwrap();
                assert!(same.is_f64());
                parsed(&rebuild(same).to_string());
            }
            let changed = rebuild(json!(number as f64 + 0.5)).to_string();
            assert_eq!(refused(&changed), ("invalid_type".to_owned(), path.to_owned()), "{changed}");
            seen += 1;
        });
    }
    assert!(seen > 20, "{seen} places were tried");
    for (text, tokens) in [("100.0", 100), ("1e2", 100), ("1.5e1", 15), ("7", 7)] {
        assert_eq!(parsed(&with(&format!(r#""max_output_tokens":{text}"#))).max_output_tokens, Some(tokens));
    }
}

#[test]
fn what_an_array_in_place_of_an_object_would_have_meant_does_not_happen() {
    for field in
        [r#""reasoning":["high","auto"]"#, r#""text":[{"type":"text"},"low"]"#, r#""antwort":[{},false]"#]
    {
        assert!(CreateResponse::parse(with(field).as_bytes()).is_err(), "{field}");
    }
    let error = CreateResponse::parse(with(r#""reasoning":["high","auto"]"#).as_bytes()).unwrap_err();
    assert_eq!(error.body.message, "Invalid type for 'reasoning': expected an object, got an array.");
}
