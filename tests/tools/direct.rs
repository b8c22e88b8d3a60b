//! `/v1/tools` and `/v1/agents`: lists, direct calls, and who may make them.

use antwort::config::{AgentSettings, ApiKeySettings, Scope};
use serde_json::{Value, json};

use super::{gateway, gateway_with};
use antwort_test_support::gateway::{Builder, Gateway};
use antwort_test_support::openapi;
use antwort_test_support::upstream::Upstream;

async fn execute(gateway: &Gateway, tool: &str, arguments: Value) -> Value {
    let answer = gateway.post(&format!("/v1/tools/{tool}/execute"), &json!({"arguments": arguments})).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    openapi::assert_is("ToolResult", &answer.body);
    answer.body
}

#[tokio::test]
async fn tools_are_listed_by_name_with_all_that_is_known_of_them() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    let list = gateway.get("/v1/tools").await.body;
    openapi::assert_is("ToolDefinitionList", &list);
    let names: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    assert!(names.contains(&"calculate") && names.contains(&"datetime") && names.contains(&"echo"));
    assert!(!names.contains(&"file_read") && !names.contains(&"get_weather"), "those have to be configured");
    let one = gateway.get("/v1/tools/calculate").await.body;
    openapi::assert_is("ToolDefinition", &one);
    assert_eq!((&one["kind"], &one["executor"]), (&json!("builtin"), &json!("builtin")));
    let probes = gateway.get("/v1/tools?executor=probe").await.body;
    assert!(probes["data"].as_array().unwrap().iter().all(|tool| tool["kind"] == "custom"));
    let summary = gateway.get("/v1/tools?view=summary&executor=builtin").await.body;
    assert!(summary.as_str().unwrap().starts_with("- `calculate` - "), "{summary}");
    let missing = gateway.get("/v1/tools/nope").await;
    assert_eq!((missing.status, missing.body["error"]["code"].as_str()), (404, Some("tool_not_found")));
}

#[tokio::test]
async fn a_direct_call_gives_the_result_in_any_shape() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    let result = execute(&gateway, "calculate", json!({"expression": "85.50 * 0.20"})).await;
    assert_eq!(result["structured"], json!({"expression": "85.50 * 0.20", "result": 17.1}));
    assert_eq!((&result["is_error"], &result["code"]), (&json!(false), &json!(null)));
    let result = execute(&gateway, "echo", json!("{\"a\": 1}")).await;
    assert_eq!(result["output"], "{\"a\":1}", "arguments may be the text that models write");
    for (tool, code) in [
        ("fails", "tool_execution_failed"),
        ("panics", "tool_panicked"),
        ("needs", "invalid_arguments"),
        ("says_error", "tool_execution_failed"),
    ] {
        let result = execute(&gateway, tool, json!({})).await;
        assert_eq!((&result["is_error"], &result["code"]), (&json!(true), &json!(code)), "{tool}");
        assert!(!result.to_string().contains("secret cause"));
    }
    for (view, expected) in [
        ("call", json!({"output": "ok", "is_error": false})),
        ("envelope", json!({"success": true, "data": "ok", "error": null})),
        (
            "audience",
            json!({"for_llm": "ok", "for_user": null, "silent": false, "is_error": false, "async": false}),
        ),
        ("provider", json!({"toolName": "noop", "success": true, "result": "ok", "error": null})),
    ] {
        let body = json!({"arguments": {}, "cache": "bypass"});
        let answer = gateway.post(&format!("/v1/tools/noop/execute?view={view}"), &body).await;
        let schema = view[..1].to_uppercase() + &view[1..];
        openapi::assert_is(&format!("ToolResult{schema}"), &answer.body);
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&answer.body[key], value, "{view}: {}", answer.body);
        }
    }
    assert!(seen.count("noop") > 0);
    for (path, body) in [
        ("/v1/tools/noop/execute", json!({"argument": {}})),
        ("/v1/tools/noop/execute?view=xml", json!({})),
        ("/v1/tools/noop/execute", json!([])),
        ("/v1/tools/noop/execute", json!({"context": ["a", "b"]})),
        ("/v1/tools/noop/execute", json!({"cache": {"bypass": null}})),
    ] {
        assert_eq!(gateway.post(path, &body).await.status, 400, "{path} {body}");
    }
}

#[tokio::test]
async fn a_failure_has_its_account_in_every_view() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    let account = |meta: &Value, what: &str| {
        assert!(meta["duration_ms"].is_u64(), "{what}: {meta}");
        assert_eq!((&meta["attempts"], &meta["executor"]), (&json!(1), &json!("probe")), "{what}");
        assert_eq!(meta["cached"], false, "{what}");
    };
    for tool in ["fails", "panics", "says_error"] {
        for view in ["antwort", "call", "envelope", "audience"] {
            let path = format!("/v1/tools/{tool}/execute?view={view}");
            let answer = gateway.post(&path, &json!({"arguments": {}})).await;
            account(&answer.body["meta"], &format!("{tool} as {view}"));
        }
        let path = format!("/v1/tools/{tool}/execute?view=provider");
        let metadata = gateway.post(&path, &json!({})).await.body["metadata"].clone();
        assert!(metadata["executionTime"].is_u64(), "{metadata}");
        assert_eq!((&metadata["provider"], &metadata["attempts"]), (&json!("probe"), &json!(1)));
        assert_eq!((&metadata["cached"], &metadata["fallbackFrom"]), (&json!(false), &json!(null)));
    }
    let refused = execute(&gateway, "needs", json!({})).await;
    assert_eq!((&refused["meta"]["attempts"], &refused["meta"]["executor"]), (&json!(0), &json!("probe")));
    let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    for line in [
        r#"antwort_tool_calls_total{tool="fails",outcome="tool_execution_failed",executor="probe"} 5"#,
        r#"antwort_tool_attempts_total{tool="fails",executor="probe"} 5"#,
        r#"antwort_tool_duration_seconds_count{tool="fails",executor="probe"} 5"#,
        r#"antwort_tool_calls_total{tool="needs",outcome="invalid_arguments",executor="probe"} 1"#,
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn cached_results_are_used_bypassed_and_purged() {
    let upstream = Upstream::spawn().await;
    let change = |builder: Builder| {
        builder.set(|settings| {
            let own = antwort::config::ToolOverride { cacheable: Some(true), ..Default::default() };
            settings.tools.overrides.insert("echo".into(), own);
        })
    };
    let (gateway, seen) = gateway_with(&upstream, change).await;
    let arguments = || json!({"a": 1});
    assert_eq!(execute(&gateway, "echo", arguments()).await["meta"]["cached"], false);
    assert_eq!(execute(&gateway, "echo", arguments()).await["meta"]["cached"], true);
    assert_eq!(seen.count("echo"), 1);
    let bypass = json!({"arguments": arguments(), "cache": "bypass"});
    assert_eq!(gateway.post("/v1/tools/echo/execute", &bypass).await.body["meta"]["cached"], false);
    let purged = gateway.delete("/v1/tool_cache").await;
    assert_eq!(purged.status, 204);
    assert_eq!(execute(&gateway, "echo", arguments()).await["meta"]["cached"], false);
    assert_eq!(seen.count("echo"), 3);
}

#[tokio::test]
async fn large_results_are_cut_and_can_be_read_on() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    let result = execute(&gateway, "big", json!({})).await;
    assert_eq!(result["meta"]["truncated"], true);
    let text = result["output"].as_str().unwrap();
    assert!(text.len() <= 64 << 10, "{}", text.len());
    let pointer = text.split("read_tool_output with ").nth(1).unwrap().split(']').next().unwrap();
    let pointer: Value = serde_json::from_str(pointer).unwrap();
    let rest = execute(&gateway, "read_tool_output", pointer).await;
    assert_eq!(rest["is_error"], false, "{rest}");
    assert!(rest["output"].as_str().unwrap().contains("0123456789"));
}

#[tokio::test]
async fn agents_are_listed_without_their_instructions() {
    let upstream = Upstream::spawn().await;
    let change = |builder: Builder| {
        builder.set(|settings| {
            let mut agent = AgentSettings {
                instructions: Some("Secret {{a}} {{ b }} {{a}}".into()),
                ..Default::default()
            };
            agent.variables.insert("b".into(), "x".into());
            settings.agents.insert("helper".into(), agent);
        })
    };
    let (gateway, _) = gateway_with(&upstream, change).await;
    let list = gateway.get("/v1/agents").await.body;
    openapi::assert_is("AgentList", &list);
    let variables = json!([{"name": "a", "required": true}, {"name": "b", "required": false}]);
    assert_eq!((&list["data"][0]["id"], &list["data"][0]["variables"]), (&json!("helper"), &variables));
    assert!(!list.to_string().contains("Secret"));
    assert_eq!(gateway.get("/v1/agents/helper").await.body, list["data"][0]);
    assert_eq!(gateway.get("/v1/agents/nope").await.status, 404);
}

#[tokio::test]
async fn every_operation_on_tools_has_its_scope() {
    let upstream = Upstream::spawn().await;
    let operations = [
        ("GET", "/v1/tools", Scope::ToolsRead),
        ("GET", "/v1/tools/noop", Scope::ToolsRead),
        ("POST", "/v1/tools/noop/execute", Scope::ToolsExecute),
        ("POST", "/v1/tools/refresh", Scope::ToolsAdmin),
        ("DELETE", "/v1/tool_cache", Scope::ToolsAdmin),
        ("GET", "/v1/agents", Scope::AgentsRead),
    ];
    for scope in
        [Scope::ToolsRead, Scope::ToolsExecute, Scope::ToolsAdmin, Scope::AgentsRead, Scope::ResponsesCreate]
    {
        let change = |builder: Builder| {
            builder.set(|settings| {
                let key = ApiKeySettings {
                    store: antwort::config::StorePolicy::Allow,
                    hash: aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"key")
                        .as_ref()
                        .try_into()
                        .unwrap(),
                    tenant: "t".into(),
                    owner: "o".into(),
                    scopes: vec![scope],
                    dialect: None,
                    client_action_status: None,
                    max_runs: None,
                };
                settings.auth.keys.insert("k".into(), key);
            })
        };
        let (gateway, _) = gateway_with(&upstream, change).await;
        let gateway = gateway.with_header("authorization", "Bearer key");
        for (method, path, needed) in operations {
            let request = gateway.http.request(method.parse().unwrap(), format!("{}{path}", gateway.base));
            let request = request.header("content-type", "application/json").body("{}");
            let status = gateway.send(request).await.status;
            assert_eq!(status == 403, needed != scope, "{method} {path} with {scope:?}: {status}");
        }
    }
}
