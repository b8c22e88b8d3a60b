//! What a response repeats of its request.

use serde_json::{Value, json};

use super::{parsed, with};
use crate::dialect::Dialect;
use crate::json::to_raw;
use crate::tool::Tool;
use crate::tool_choice::{AllowedMode, ToolChoice, ToolRef};

#[test]
fn tools_are_echoed_in_their_normal_form() {
    let request = parsed(&with(
        r#""tools":[
            {"type":"function","name":"f"},
            {"type":"function","function":{"name":"g","description":"d","parameters":{"z": 1, "a":  2},"strict":true},"cache_control":{}},
            {"type":"custom","name":"c"},
            {"type":"namespace","name":"f","tools":[{"type":"function","name":"f"}]},
            {"type":"mcp","server_label":"f","server_url":"https://x/mcp","authorization":"hush","headers":{"X-Key":"hush"},"allowed_tools":["a"]},
            {"type":"mcp","server_label":"s","connector_id":"connector_gmail","require_approval":{"never":{"tool_names":["a"],"read_only":true}},"allowed_tools":{"read_only":true}},
            {"type":"web_search_2025_08_26","user_location":{"type":"approximate","country":"DE"},"filters":{"allowed_domains":["a"]}},
            {"type":"web_search_preview","search_context_size":"low"},
            {"type":"file_search","vector_store_ids":["v"],"max_num_results":50,"filters":{"type":"and","filters":[{"type":"in","key":"k","value":["a",1]},{"type":"gte","key":"k","value":2.5}]},"ranking_options":{"ranker":"auto","hybrid_search":{"embedding_weight":0.5,"text_weight":0.5}}},
            {"type":"code_interpreter","container":{"type":"auto","memory_limit":"4g","network_policy":{"type":"allowlist","allowed_domains":["a"],"domain_secrets":[{"domain":"a","name":"n","value":"hush"}]}}},
            {"type":"code_interpreter","container":"cntr_1"},
            {"type":"computer"},{"type":"computer_use_preview","environment":"mac","display_width":1,"display_height":2},
            {"type":"shell","environment":{"type":"container_auto","skills":[{"type":"skill_reference","skill_id":"s"}]}},
            {"type":"apply_patch"},{"type":"programmatic_tool_calling"}]"#,
    ));
    let echo = to_raw(&request.tools);
    assert!(!echo.get().contains("hush") && !format!("{request:?}").contains("hush"));
    assert!(echo.get().contains(r#""parameters":{"z": 1, "a":  2}"#), "kept byte for byte");
    let bare = |name: &str| json!({"type": "function", "name": name, "description": null, "parameters": null, "strict": null});
    assert_eq!(
        serde_json::from_str::<Value>(echo.get()).unwrap(),
        json!([
            bare("f"),
            {"type": "function", "name": "g", "description": "d", "parameters": {"z": 1, "a": 2}, "strict": true},
            {"type": "custom", "name": "c", "format": {"type": "text"}},
            {"type": "namespace", "name": "f", "description": "", "tools": [bare("f")]},
            {"type": "mcp", "server_label": "f", "server_url": "https://x/mcp", "server_description": null,
             "headers": null, "allowed_tools": ["a"], "require_approval": "always"},
            {"type": "mcp", "server_label": "s", "connector_id": "connector_gmail", "server_description": null,
             "headers": null, "allowed_tools": {"read_only": true},
             "require_approval": {"never": {"tool_names": ["a"], "read_only": true}}},
            {"type": "web_search_2025_08_26", "filters": {"allowed_domains": ["a"]},
             "user_location": {"type": "approximate", "country": "DE", "region": null, "city": null, "timezone": null}},
            {"type": "web_search_preview", "search_context_size": "low"},
            {"type": "file_search", "vector_store_ids": ["v"], "max_num_results": 50,
             "ranking_options": {"ranker": "auto", "hybrid_search": {"embedding_weight": 0.5, "text_weight": 0.5}},
             "filters": {"type": "and", "filters": [
                {"type": "in", "key": "k", "value": ["a", 1]}, {"type": "gte", "key": "k", "value": 2.5}]}},
            {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "4g",
             "network_policy": {"type": "allowlist", "allowed_domains": ["a"]}}},
            {"type": "code_interpreter", "container": "cntr_1"},
            {"type": "computer"},
            {"type": "computer_use_preview", "environment": "mac", "display_width": 1, "display_height": 2},
            {"type": "shell", "environment": {"type": "container_auto", "skills": [{"type": "skill_reference", "skill_id": "s"}]}},
            {"type": "apply_patch"},
            {"type": "programmatic_tool_calling"},
        ])
    );
    let again: Vec<Tool> = serde_json::from_str(echo.get()).unwrap();
    assert_eq!(to_raw(&again).get(), echo.get(), "an echo can be sent back");
}

/// `@ai-sdk/openai` insists on an address, also of a server that the configuration knows.
#[test]
fn an_empty_address_of_a_server_is_none() {
    for place in ["server_url", "connector_id", "tunnel_id"] {
        let request =
            parsed(&with(&format!(r#""tools":[{{"type":"mcp","server_label":"s","{place}":""}}]"#)));
        let Tool::Mcp(server) = &request.tools[0] else { panic!("not a server: {:?}", request.tools) };
        assert!(server.is_configured());
        let echo: Value = serde_json::from_str(to_raw(&request.tools).get()).unwrap();
        assert_eq!((&echo[0]["server_url"], &echo[0]["require_approval"]), (&Value::Null, &json!("never")));
    }
}

#[test]
fn every_form_of_tool_choice() {
    let rows = [
        (json!("none"), ToolChoice::None),
        (json!("required"), ToolChoice::Required),
        (json!({"type": "function", "name": "f"}), ToolChoice::Function { name: "f".into() }),
        (json!({"type": "custom", "name": "c"}), ToolChoice::Custom { name: "c".into() }),
        (
            json!({"type": "mcp", "server_label": "s"}),
            ToolChoice::Mcp { server_label: "s".into(), name: None },
        ),
        (json!({"type": "web_search"}), ToolChoice::Hosted { kind: "web_search".into() }),
        (
            json!({"type": "allowed_tools", "mode": "required", "tools": [
                {"type": "function", "name": "f"}, {"type": "mcp", "server_label": "s", "name": "t"},
                {"type": "image_generation"}]}),
            ToolChoice::Allowed {
                mode: AllowedMode::Required,
                tools: vec![
                    ToolRef::Function { name: "f".into() },
                    ToolRef::Mcp { server_label: "s".into(), name: Some("t".into()) },
                    ToolRef::Hosted { kind: "image_generation".into() },
                ],
            },
        ),
    ];
    for (sent, expected) in rows {
        let choice = parsed(&with(&format!(r#""tool_choice":{sent}"#))).tool_choice;
        assert_eq!(choice, expected);
        assert_eq!(json!(choice), sent);
    }
    let lenient = [
        (r#"{"type":"function","function":{"name":"f"}}"#, json!({"type": "function", "name": "f"})),
        (
            r#"{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}"#,
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}),
        ),
        (
            r#"{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[{"type":"function","function":{"name":"f"}}]}}"#,
            json!({"type": "allowed_tools", "mode": "none", "tools": [{"type": "function", "name": "f"}]}),
        ),
    ];
    for (sent, echo) in lenient {
        assert_eq!(json!(parsed(&with(&format!(r#""tool_choice":{sent}"#))).tool_choice), echo);
    }
}

#[test]
fn a_schema_comes_flat_or_as_chat_has_it() {
    let flat = r#"{"type":"json_schema","name":"a","schema":{"type": "object"},"strict":true}"#;
    let chat =
        r#"{"type":"json_schema","json_schema":{"name":"a","schema":{"type": "object"},"strict":true}}"#;
    for form in [flat, chat] {
        let text = parsed(&with(&format!(r#""text":{{"format":{form},"verbosity":"high"}}"#))).text;
        let echo = |dialect| json!(text.echo(dialect));
        let expected = |schema: Value| {
            json!({"format": {"type": "json_schema", "name": "a", "description": null, "schema": schema, "strict": true},
                "verbosity": "high"})
        };
        assert_eq!(echo(Dialect::OpenAi), expected(json!({"type": "object"})));
        assert_eq!(echo(Dialect::OpenResponses), expected(Value::Null));
    }
    let plain = parsed(&with(r#""text":{"format":null}"#)).text;
    assert_eq!(json!(plain.echo(Dialect::OpenAi)), json!({"format": {"type": "text"}}));
}
