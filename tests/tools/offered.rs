//! Which tools a request is offered, and what may not be asked for.

use antwort::config::{AgentSettings, ToolLists};
use serde_json::{Value, json};

use antwort::tools::{
    Arguments, LocalExecutor, Tool, ToolContext, ToolDefinition, ToolError, ToolKind, ToolOutput,
};
use async_trait::async_trait;
use std::sync::Arc;

use super::{ask, call, gateway, gateway_with, kinds};
use antwort_test_support::gateway::text_of;
use antwort_test_support::upstream::{Reply, Upstream};

/// Names of the tools that the provider saw.
fn offered(upstream: &Upstream) -> Vec<String> {
    let tools = upstream.last()["tools"].clone();
    let tools = tools.as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn nothing_is_offered_unasked() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    gateway.create(json!({"model": "test-model", "input": "Hi"})).await;
    assert_eq!(offered(&upstream), Vec::<String>::new());
}

#[tokio::test]
async fn each_way_to_ask_for_a_tool() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    for (tools, expected) in [
        (json!([{"type": "antwort:noop"}]), &["noop"][..]),
        (
            json!([{"type": "mcp", "server_label": "antwort", "allowed_tools": ["noop", "echo"]}]),
            &["noop", "echo"],
        ),
        (
            json!([{"type": "mcp", "server_label": "antwort", "require_approval": "never",
            "allowed_tools": {"tool_names": ["noop", "writes"], "read_only": true}}]),
            &["noop"],
        ),
        (
            json!([{"type": "antwort:noop"}, {"type": "mcp", "server_label": "antwort", "allowed_tools": ["noop"]}]),
            &["noop"],
        ),
        (json!([{"type": "antwort:noop"}, {"type": "function", "name": "noop"}]), &["noop", "antwort__noop"]),
    ] {
        gateway.create(ask(json!({"tools": tools}))).await;
        assert_eq!(offered(&upstream), expected, "{tools}");
    }
}

#[tokio::test]
async fn a_function_stays_the_clients_whatever_its_name() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    let tools = json!([{"type": "antwort:noop"}, {"type": "function", "name": "noop"}]);
    upstream.reply(call("noop"));
    let response = gateway.create(ask(json!({"tools": tools}))).await;
    assert_eq!((response["status"].as_str(), seen.count("noop")), (Some("requires_action"), 0));
    upstream.reply(call("antwort__noop")).text("Done.");
    let response = gateway.create(ask(json!({"tools": tools}))).await;
    assert_eq!(kinds(&response), ["mcp_call", "message"]);
    assert_eq!((response["output"][0]["name"].as_str(), seen.count("noop")), (Some("noop"), 1));
}

#[tokio::test]
async fn what_is_not_there_or_not_served_is_refused() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    let own = |extra: Value| {
        let mut tool = json!({"type": "mcp", "server_label": "antwort"});
        tool.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        tool
    };
    for (tool, code, param) in [
        (json!({"type": "antwort:nope"}), "tool_not_found", "tools[0].type"),
        (own(json!({"allowed_tools": ["noop", "nope"]})), "tool_not_found", "tools[0].allowed_tools[1]"),
        (own(json!({"require_approval": "always"})), "unsupported_parameter", "tools[0].require_approval"),
        (own(json!({"authorization": "x"})), "unsupported_parameter", "tools[0].authorization"),
        (own(json!({"headers": {"a": "b"}})), "unsupported_parameter", "tools[0].headers"),
        (own(json!({"server_label": "other"})), "missing_required_parameter", "tools[0].server_url"),
        (own(json!({"server_url": "https://x.example/mcp"})), "invalid_value", "tools[0].server_label"),
        (json!({"type": "web_search"}), "unsupported_parameter", "tools[0].type"),
    ] {
        let error = gateway.refuse(ask(json!({"tools": [tool]})), 400, code).await;
        assert_eq!(error["param"], param, "{tool}");
    }
    // One that the gateway has, if it is configured.
    let weather = ask(json!({"tools": [{"type": "antwort:get_weather"}]}));
    let error = gateway.refuse(weather, 400, "tool_not_found").await;
    assert!(error["message"].as_str().unwrap().contains("WEATHER_API_KEY"), "{error}");
    for (choice, param) in [
        (json!({"type": "mcp", "server_label": "antwort", "name": "nope"}), "tool_choice"),
        (json!({"type": "mcp", "server_label": "other"}), "tool_choice"),
        (json!({"type": "antwort:nope"}), "tool_choice"),
        (
            json!({"type": "allowed_tools", "tools": [{"type": "antwort:noop"}, {"type": "antwort:nope"}]}),
            "tool_choice.tools[1]",
        ),
    ] {
        let error = gateway.refuse(ask(json!({"tool_choice": choice})), 400, "invalid_value").await;
        assert_eq!(error["param"], param, "{choice}");
    }
}

#[tokio::test]
async fn what_a_tenant_may_not_use_is_not_there_for_it() {
    let upstream = Upstream::spawn().await;
    let change = |builder: antwort_test_support::gateway::Builder| {
        builder.set(|settings| {
            let lists = ToolLists { allowed_tools: None, blocked_tools: vec!["no*".into()] };
            settings.tools.tenants.insert("default".into(), lists);
        })
    };
    let (gateway, _) = gateway_with(&upstream, change).await;
    gateway.refuse(ask(json!({"tools": [{"type": "antwort:noop"}]})), 400, "tool_not_found").await;
    gateway.create(ask(json!({}))).await;
    assert!(!offered(&upstream).contains(&"noop".to_owned()));
    assert!(offered(&upstream).contains(&"echo".to_owned()));
}

#[tokio::test]
async fn an_agent_brings_model_instructions_tools_and_limits() {
    let upstream = Upstream::spawn().await;
    let change = |builder: antwort_test_support::gateway::Builder| {
        builder.set(|settings| {
            let mut agent = AgentSettings {
                model: Some("test-model".into()),
                instructions: Some("You are {{name}}.".into()),
                tools: vec!["noop".into(), "echo".into()],
                ..AgentSettings::default()
            };
            agent.limits.max_turns = Some(1);
            agent.blocked_tools = vec!["echo".into()];
            agent.variables.insert("name".into(), "nobody".into());
            settings.agents.insert("helper".into(), agent);
        })
    };
    let (gateway, seen) = gateway_with(&upstream, change).await;
    let variables = json!({"name": {"type": "input_text", "text": "Ada"}});
    upstream.text("Hi.");
    let by_prompt = json!({"input": "Go.", "prompt": {"id": "helper", "variables": variables}});
    let response = gateway.create(by_prompt).await;
    assert_eq!(text_of(&response), "Hi.");
    assert_eq!(response["prompt"], json!({"id": "helper", "variables": {"name": "Ada"}, "version": null}));
    assert_eq!(response["instructions"], Value::Null, "they are the operator's, and not shown");
    assert_eq!(upstream.last()["messages"][0], json!({"role": "system", "content": "You are Ada."}));
    assert_eq!(offered(&upstream), ["noop"]);
    upstream.reply(call("noop"));
    let response = gateway.create(json!({"input": "Go.", "agent": "helper"})).await;
    assert_eq!(response["incomplete_details"]["reason"], "max_turns");
    assert_eq!((seen.count("noop"), response["agent"].as_str()), (1, Some("helper")));
    assert_eq!(upstream.last()["messages"][0]["content"], "You are nobody.");
    let error = gateway.refuse(json!({"input": "Go.", "agent": "nobody"}), 404, "agent_not_found").await;
    assert_eq!(error["param"], "agent");
    gateway
        .refuse(
            json!({"input": "Go.", "agent": "helper", "prompt": {"id": "helper"}}),
            400,
            "mutually_exclusive_parameters",
        )
        .await;
}

#[tokio::test]
async fn a_call_knows_for_whom_it_is_made() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.reply(call("noop")).text("Done.");
    let response =
        gateway.create(ask(json!({"metadata": {"channel": "chat", "chat_id": "42", "x": "y"}}))).await;
    let context = seen.contexts().pop().unwrap();
    assert_eq!(context.response_id.as_ref().map(|id| id.as_str()), response["id"].as_str());
    assert_eq!((context.channel.as_deref(), context.chat_id.as_deref()), (Some("chat"), Some("42")));
    assert_eq!(seen.keys(), [format!("{}/0/0", response["id"].as_str().unwrap())]);
}

#[tokio::test]
async fn names_upstream_stay_apart_and_the_gateways_namespace_is_its_own() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    let function = |name: &str| json!({"type": "function", "name": name});
    let tools = json!([function("noop"), function("antwort__noop"), {"type": "antwort:noop"}]);
    upstream.reply(call("antwort2__noop")).text("Done.");
    let response = gateway.create(ask(json!({"tools": tools}))).await;
    assert_eq!(offered(&upstream), ["noop", "antwort__noop", "antwort2__noop"]);
    assert_eq!((kinds(&response)[0], seen.count("noop")), ("mcp_call", 1));
    let group = json!({"type": "namespace", "name": "antwort", "description": "x", "tools": [function("f")]});
    let error = gateway.refuse(ask(json!({"tools": [group]})), 400, "invalid_value").await;
    assert_eq!(error["param"], "tools[0].name");
}

#[tokio::test]
async fn a_provider_that_takes_no_names_is_told_that_some_call_is_demanded() {
    let upstream = Upstream::spawn().await;
    let change = |builder: antwort_test_support::gateway::Builder| {
        builder.provider(|provider| provider.supports.named_tool_choice = false)
    };
    let (gateway, seen) = gateway_with(&upstream, change).await;
    upstream.reply(call("echo")).reply(call("noop")).text("Done.");
    let forced = json!({"tool_choice": {"type": "antwort:noop"}});
    let response = gateway.create(ask(forced)).await;
    assert_eq!(upstream.requests()[0].body["tool_choice"], "required");
    assert_eq!(kinds(&response), ["mcp_call", "message"]);
    assert_eq!((seen.count("echo"), seen.count("noop")), (0, 1), "only the demanded one was run");
}

#[tokio::test]
async fn a_server_that_is_demanded_is_the_one_that_is_called_or_the_response_fails() {
    let upstream = Upstream::spawn().await;
    let (gateway, seen) = gateway(&upstream).await;
    upstream.reply(call("ask_user")).reply(call("ask_user"));
    let forced = json!({"tool_choice": {"type": "mcp", "server_label": "antwort"}});
    let response = gateway.create(ask(forced.clone())).await;
    assert_eq!(upstream.requests()[0].body["tool_choice"], "required");
    assert_eq!(response["error"]["code"], "tool_choice_not_satisfied");
    assert!(kinds(&response).iter().all(|kind| *kind != "function_call"), "neither call was let through");
    assert_eq!((upstream.requests().len(), seen.count("noop")), (2, 0));
    upstream.reply(call("ask_user")).reply(call("noop")).text("Done.");
    let response = gateway.create(ask(forced)).await;
    assert_eq!((kinds(&response), seen.count("noop")), (vec!["mcp_call", "message"], 1));
}

#[tokio::test]
async fn tools_that_are_not_run_here_are_offered_once() {
    let upstream = Upstream::spawn().await;
    let (gateway, _) = gateway(&upstream).await;
    let noop = json!({"type": "antwort:noop"});
    let tools = json!([noop, noop, {"type": "mcp", "server_label": "antwort", "allowed_tools": ["noop"]}]);
    let body =
        json!({"model": "test-model", "input": "Go.", "tools": tools, "antwort": {"execute_tools": false}});
    gateway.create(body).await;
    assert_eq!(offered(&upstream), ["noop"]);
}

/// A web search that finds what it was asked.
struct Searcher;

#[async_trait]
impl Tool for Searcher {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("web_search", "Searches.", &json!({"type": "object"}))
    }

    async fn call(&self, arguments: &Arguments, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(Value::Object(arguments.clone()).to_string()))
    }
}

#[tokio::test]
async fn options_of_a_hosted_search_hold_though_a_list_of_all_tools_came_before_it() {
    let upstream = Upstream::spawn().await;
    let searcher = LocalExecutor::new("searcher", ToolKind::Builtin, [Arc::new(Searcher) as Arc<dyn Tool>]);
    let (gateway, _) = gateway_with(&upstream, |builder| builder.executor(Arc::new(searcher))).await;
    let search = json!({"type": "web_search", "filters": {"allowed_domains": ["a.example"]}});
    let tools = json!([{"type": "mcp", "server_label": "antwort"}, search]);
    let arguments = json!({"query": "x", "allowed_domains": ["evil.example"]});
    upstream.reply(Reply::Calls(vec![("web_search", arguments)])).text("Done.");
    let body = json!({"model": "test-model", "input": "Go.", "tools": tools});
    let response = gateway.create(body).await;
    assert_eq!(kinds(&response), ["web_search_call", "message"]);
    let found = upstream.last()["messages"][2]["content"].as_str().unwrap().to_owned();
    assert!(found.contains("a.example") && !found.contains("evil"), "{found}");
}

#[tokio::test]
async fn the_models_options_of_an_agent_are_defaults_and_echoed_as_in_force() {
    let upstream = Upstream::spawn().await;
    let agent: AgentSettings = serde_json::from_value(json!({
        "model": "test-model", "temperature": 0.3, "top_p": 0.9, "max_output_tokens": 700,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
    }))
    .unwrap();
    let change =
        |builder: super::Builder| builder.set(|settings| _ = settings.agents.insert("exact".into(), agent));
    let (gateway, _) = gateway_with(&upstream, change).await;
    upstream.text("{}");
    let response = gateway.create(json!({"input": "Go.", "agent": "exact"})).await;
    let echo = |response: &Value| {
        let fields = ["temperature", "top_p", "max_output_tokens", "reasoning", "text"];
        fields.map(|field| response[field].clone())
    };
    let text = json!({"format": {"type": "json_object"}, "verbosity": "low"});
    let reasoning = json!({"effort": "low", "summary": "auto"});
    assert_eq!(echo(&response), [json!(0.3), json!(0.9), json!(700), reasoning, text]);
    let asked = upstream.last();
    assert_eq!((&asked["temperature"], &asked["top_p"]), (&json!(0.3), &json!(0.9)));
    assert_eq!(asked["max_tokens"].as_u64().or(asked["max_completion_tokens"].as_u64()), Some(700));
    assert_eq!((&asked["reasoning_effort"], &asked["verbosity"]), (&json!("low"), &json!("low")));
    assert_eq!(asked["response_format"], json!({"type": "json_object"}));

    // What the request says counts, key by key, also where it says what is the default anyway.
    upstream.text("Free.");
    let own = json!({"input": "Go.", "agent": "exact", "temperature": 1, "max_output_tokens": 50,
        "reasoning": {"effort": "high"}, "text": {"format": {"type": "text"}}});
    let response = gateway.create(own).await;
    let text = json!({"format": {"type": "text"}, "verbosity": "low"});
    let reasoning = json!({"effort": "high", "summary": "auto"});
    assert_eq!(echo(&response), [json!(1.0), json!(0.9), json!(50), reasoning, text]);
    assert!(upstream.last().get("response_format").is_none());
}
