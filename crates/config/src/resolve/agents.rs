//! Agent profiles, the limits of runs, and prices.

use std::collections::BTreeMap;

use super::checker::Checker;
use super::tools::{TOOL_NAME_RULE, globs, is_tool_name};
use crate::de::suggestion;
use crate::settings::{AgentSettings, EngineSettings, LimitOverrides, McpServerSettings, ModelPrice};

pub(super) fn check(
    agents: &BTreeMap<String, AgentSettings>,
    servers: &BTreeMap<String, McpServerSettings>,
    check: &mut Checker<'_>,
) {
    for (name, agent) in agents {
        let key_path = |key| ["agents", name, key];
        if !is_tool_name(name) {
            check.error(&["agents", name], TOOL_NAME_RULE);
        }
        if agent.model.as_deref() == Some("") {
            check.error(&key_path("model"), "is empty: omit it to use the request's model");
        }
        for (index, tool) in agent.tools.iter().enumerate() {
            if tool.is_empty() {
                check.error(&["agents", name, "tools", &index.to_string()], "the name of a tool is empty");
            }
        }
        for (index, label) in agent.mcp_servers.iter().enumerate() {
            if !servers.contains_key(label) {
                let known: Vec<&str> = servers.keys().map(String::as_str).collect();
                let message = match known.as_slice() {
                    [] => "is not in mcp.servers, which is empty".to_owned(),
                    known => format!("is not in mcp.servers{}", suggestion(label, known)),
                };
                check.error(&["agents", name, "mcp_servers", &index.to_string()], message);
            }
        }
        globs(&key_path("allowed_tools"), agent.allowed_tools.as_deref(), check);
        globs(&key_path("blocked_tools"), Some(&agent.blocked_tools), check);
        overrides(&key_path("limits"), &agent.limits, check);
        for (key, problem) in agent.invalid_model_options() {
            check.error(&[&["agents", name], key].concat(), problem);
        }
    }
}

pub(super) fn limits(engine: &EngineSettings, check: &mut Checker<'_>) {
    let limits = engine.limits.clone();
    let general = LimitOverrides {
        max_turns: Some(limits.max_turns),
        max_tool_calls: limits.max_tool_calls,
        max_total_tokens: limits.max_total_tokens,
        max_seconds: limits.max_seconds,
        max_cost_usd: limits.max_cost_usd,
        max_identical_calls: Some(limits.max_identical_calls),
        max_consecutive_failures: Some(limits.max_consecutive_failures),
        max_follow_ups: Some(limits.max_follow_ups),
    };
    overrides(&["engine", "limits"], &general, check);
    overrides(&["engine", "ceilings"], &engine.ceilings, check);
}

fn overrides(path: &[&str], limits: &LimitOverrides, check: &mut Checker<'_>) {
    for (key, zero) in [
        ("max_turns", limits.max_turns == Some(0)),
        ("max_tool_calls", limits.max_tool_calls == Some(0)),
        ("max_total_tokens", limits.max_total_tokens == Some(0)),
        ("max_identical_calls", limits.max_identical_calls == Some(0)),
        ("max_consecutive_failures", limits.max_consecutive_failures == Some(0)),
    ] {
        check.require_nonzero(&[path, &[key]].concat(), zero);
    }
    for (key, value) in [("max_seconds", limits.max_seconds), ("max_cost_usd", limits.max_cost_usd)] {
        if value.is_some_and(|value| !value.is_finite() || value <= 0.0) {
            check.error(&[path, &[key]].concat(), "expected a number that is more than 0");
        }
    }
}

/// Prices of a provider's models.
pub(super) fn prices(provider: &str, prices: &BTreeMap<String, ModelPrice>, check: &mut Checker<'_>) {
    for (model, price) in prices {
        for (key, value) in [
            ("input", Some(price.input)),
            ("cached_input", price.cached_input),
            ("output", Some(price.output)),
        ] {
            if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
                let path = ["providers", provider, "prices", model, key];
                check.error(&path, "expected US dollars per million tokens, 0 or more");
            }
        }
    }
}
