//! Agent files in, configurations out.

use std::time::Duration;

use serde_json::json;

use super::{ForeignReads, ImportedConfig, from_go_agents};
use antwort_config::foreign_files::is_go_agents;
use antwort_config::provider::Preset;
use antwort_config::{LoadOptions, LoadedConfig, load};

/// The example of the format's documentation, unchanged.
const EXAMPLE: &str = include_str!("../../../../tests/data/go-agents.json");

fn imported(text: &str) -> ImportedConfig {
    from_go_agents(text, ForeignReads::Refused).unwrap_or_else(|error| panic!("{error}"))
}

fn loaded(imported: &ImportedConfig) -> LoadedConfig {
    let options = LoadOptions {
        file: Some("agent.json".into()),
        text: Some(imported.yaml.clone()),
        ..LoadOptions::default()
    };
    load(&options).unwrap_or_else(|errors| panic!("{errors}\n{}", imported.yaml))
}

#[test]
fn the_example_loads_and_means_what_it_said() {
    let imported = imported(EXAMPLE);
    assert_eq!(imported.agent, "tools-enabled-agent");
    assert!(imported.request.is_empty() && imported.all_notes().next().is_none());
    assert!(imported.yaml.contains("api_key: ${WEATHER_API_KEY:-}"), "{}", imported.yaml);
    let settings = loaded(&imported).settings;
    let provider = &settings.providers["ollama"];
    assert_eq!((provider.preset, provider.url.as_str()), (Preset::Ollama, "http://localhost:11434/v1"));
    assert_eq!(provider.timeouts.total, Duration::from_mins(1));
    let agent = &settings.agents["tools-enabled-agent"];
    assert_eq!(agent.model.as_deref(), Some("llama3.2:3b"));
    assert_eq!((agent.max_output_tokens, agent.temperature), (Some(4096), Some(0.7)));
    assert_eq!(agent.instructions.as_deref(), Some("You are an AI assistant with access to various tools."));
    let tools = &settings.tools;
    assert!(tools.execution_enabled && tools.allow_network_access && !tools.allow_file_access);
    assert_eq!(tools.timeout, Duration::from_secs(30));
    assert_eq!(
        tools.allowed_tools.as_deref().unwrap_or_default().join(","),
        "get_weather,calculate,datetime"
    );
    assert_eq!(tools.blocked_tools, ["file_read"]);
    assert!(tools.builtin.get_weather.api_key.is_none(), "its variable is not set");
    assert_eq!(
        settings.egress.allowed_domains.unwrap_or_default().join(","),
        "api.openweathermap.org,api.duckduckgo.com"
    );
}

#[test]
fn what_has_no_place_is_said() {
    let text = json!({
        "name": "my agent", "system_prompt": "Costs ${5}, {{ not }} more", "colour": "blue",
        "transport": {"provider": {"name": "azure", "base_url": "https://x.example/openai",
            "model": {"name": "m", "format": "other", "options": {"top_k": 4}},
            "options": {"token": "t", "deployment": "d"}},
            "timeout": "1m30s", "max_retries": 3, "retry_backoff_base": "500ms", "connection_pool_size": 10},
        "tools": {"timeout": "5s", "api_keys": {"search": "k", "maps": "x"}, "sandbox": true}
    });
    let imported = imported(&text.to_string());
    let notes = imported.all_notes().collect::<Vec<_>>().join("\n");
    for part in [
        "`my agent` was changed to `my-agent`",
        "`azure` has no preset",
        "transport.provider.options.deployment is an unknown key",
        "format `other`",
        "transport.connection_pool_size is an unknown key",
        "tools.api_keys.maps is an unknown key",
        "tools.sandbox is an unknown key",
        "colour is an unknown key",
        "top_k: 4",
        "set tools.builtin.web_search.provider",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let settings = loaded(&imported).settings;
    assert_eq!(settings.agents["my-agent"].instructions.as_deref(), Some("Costs ${5}, {{ not }} more"));
    assert_eq!(settings.agents["my-agent"].variables["not"], "{{ not }}", "stands for itself");
    let provider = &settings.providers["azure"];
    assert_eq!((provider.url.as_str(), provider.retries.max), ("https://x.example/openai", 3));
    assert_eq!(provider.timeouts.total, Duration::from_secs(90));
    assert!(!settings.tools.execution_enabled && !settings.tools.allow_network_access, "absent is false");
}

#[test]
fn options_that_profiles_have_are_kept_and_the_others_said() {
    let file = |options: serde_json::Value| {
        let model = json!({"name": "m", "options": options});
        let provider = json!({"name": "ollama", "base_url": "http://h", "model": model});
        imported(&json!({"name": "a", "transport": {"provider": provider}}).to_string())
    };
    let schema = json!({"type": "object", "description": "in ${currency}"});
    let format = json!({"type": "json_schema", "json_schema": {"name": "price", "schema": schema}});
    let kept = file(json!({"max_tokens": 4096.0, "temperature": 0.7, "top_p": 1, "reasoning_effort": "low",
        "verbosity": "high", "response_format": format}));
    assert_eq!(kept.all_notes().collect::<Vec<_>>(), [""; 0]);
    let agent = loaded(&kept).settings.agents.remove("a").unwrap_or_default();
    assert_eq!((agent.max_output_tokens, agent.temperature, agent.top_p), (Some(4096), Some(0.7), Some(1.0)));
    let shown = serde_json::to_value((&agent.reasoning, &agent.text)).expect("a value");
    let format = json!({"type": "json_schema", "name": "price", "schema": schema});
    assert_eq!(shown, json!([{"effort": "low"}, {"format": format, "verbosity": "high"}]));
    // An option that a profile cannot have would make the configuration invalid.
    let said =
        file(json!({"temperature": 3, "max_tokens": "many", "top_k": 4, "reasoning_effort": "brutal"}));
    assert_eq!(
        said.request.keys().collect::<Vec<_>>(),
        ["temperature", "max_output_tokens", "top_k", "reasoning.effort"]
    );
    assert_eq!(said.all_notes().count(), 4);
    loaded(&said);
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_it() {
    for (text, part) in [
        ("[]", "expected a JSON object"),
        ("{", "not JSON"),
        (r#"{"transport": {}}"#, "transport.provider is missing"),
        (r#"{"transport": {"provider": {"name": "ollama"}}}"#, "base_url is missing"),
        (r#"{"tools": {"timeout": -1}}"#, "tools.timeout: expected a duration"),
        (r#"{"tools": {"allowed_tools": [1]}}"#, "tools.allowed_tools: expected a list"),
        (r#"{"name": 1}"#, "name: expected text"),
    ] {
        let error = from_go_agents(text, ForeignReads::Refused).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn our_own_files_are_told_apart() {
    assert!(is_go_agents(EXAMPLE));
    assert!(!is_go_agents("{listen: 127.0.0.1:1}") && !is_go_agents(r#"{"listen": "127.0.0.1:1"}"#));
}

#[test]
fn notes_stay_within_their_comments() {
    for ends in ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\0'] {
        let text = json!({"name": format!("a{ends}egress: {{allow: [localhost]}}{ends}#")});
        let imported = imported(&text.to_string());
        assert!(loaded(&imported).settings.egress.allow.is_empty(), "{}", imported.yaml);
    }
}
