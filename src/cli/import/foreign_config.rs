//! Translates files of other programs into a configuration.
//!
//! Reads the JSON of go-agents (one agent, its provider, its tools), and lists of MCP servers. Nothing is dropped
//! silently: values without a counterpart are listed in [`ImportedConfig::notes`].

use serde_json::{Map, Value, json};
use url::Url;

use self::field_reader::FieldReader;
pub(crate) use self::reads::ForeignReads;
use antwort_config::Preset;
use antwort_config::foreign_files::is_mcp_servers;

mod field_reader;
mod mcp_servers;
mod options;
mod reads;

pub(crate) use mcp_servers::from_mcp_servers;

/// An imported file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImportedConfig {
    /// The configuration, as YAML.
    pub yaml: String,
    /// Values without a counterpart.
    pub notes: Vec<String>,
    /// The name of the agent profile; empty if the file has no agent.
    pub agent: String,
    /// The name of the provider; empty if the file has none.
    pub provider: String,
    /// The model's options that agent profiles do not have, as fields of a request.
    pub request: Map<String, Value>,
}

/// Imports a file of any known format.
///
/// # Errors
/// As of the formats.
pub(crate) fn from_any(text: &str, reads: ForeignReads) -> Result<ImportedConfig, String> {
    if is_mcp_servers(text) { from_mcp_servers(text, reads) } else { from_go_agents(text, reads) }
}

/// Imports an agent file of go-agents.
///
/// # Errors
/// If it is no JSON object, or a value has the wrong type, or names what may not be read; the message names it.
pub(crate) fn from_go_agents(text: &str, reads: ForeignReads) -> Result<ImportedConfig, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let mut file = FieldReader::new("", file)?;
    let (mut notes, mut config) = (Vec::new(), Map::new());

    let agent = agent_name(file.text("name")?, &mut notes);
    let mut profile = Map::new();
    if let Some(prompt) = file.text("system_prompt")? {
        // A configuration expands `${…}`, and agents `{{…}}`: both stay literal.
        let variables = variables(&prompt);
        profile.insert("instructions".into(), prompt.replace("${", "$${").into());
        if !variables.is_empty() {
            profile.insert("variables".into(), variables.into());
        }
    }
    let (mut request, mut provider_name) = (Map::new(), String::new());
    if let Some(mut transport) = file.section("transport")? {
        let (name, provider, model) = provider(&mut transport, &mut request, &mut notes)?;
        config.insert("providers".into(), json!({name.clone(): provider}));
        provider_name = name;
        profile.extend(model.map(|model| ("model".to_owned(), model.into())));
        profile.extend(options::take(&mut request));
        notes.extend(transport.unknown_fields());
    }
    config.insert("agents".into(), json!({agent.clone(): profile}));
    if let Some(mut tools) = file.section("tools")? {
        let (tools, egress) = tools_section(&mut tools, &mut notes)?;
        config.insert("tools".into(), tools.into());
        config.extend(egress.map(|egress| ("egress".to_owned(), egress)));
    }
    notes.extend(file.unknown_fields());
    reads.apply(&mut config, &mut notes)?;
    let all: Vec<String> = notes.iter().cloned().chain(unsupported_options(&request)).collect();
    let yaml = render_yaml("Imported from an agent file of go-agents.", &all, &config)?;
    Ok(ImportedConfig { yaml, notes, agent, provider: provider_name, request })
}

/// The configuration as YAML, with the notes as comments at its head.
fn render_yaml(title: &str, notes: &[String], config: &Map<String, Value>) -> Result<String, String> {
    let mut yaml = format!("# {title}\n");
    for note in notes {
        yaml.push_str(&format!("# Not imported: {}\n", note.replace(ends_line, " ")));
    }
    yaml.push_str(&serde_norway::to_string(config).map_err(|error| error.to_string())?);
    Ok(yaml)
}

impl ImportedConfig {
    /// All notes, including those about the model's options.
    pub(crate) fn all_notes(&self) -> impl Iterator<Item = String> + '_ {
        self.notes.iter().cloned().chain(unsupported_options(&self.request))
    }
}

/// Characters that end a line of YAML, and thereby a comment.
fn ends_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn unsupported_options(request: &Map<String, Value>) -> impl Iterator<Item = String> + '_ {
    request.iter().map(|(field, value)| {
        format!(
            "the model option {field}: {value} has no counterpart in the configuration: set it in requests"
        )
    })
}

/// A valid name of a profile.
fn agent_name(original: Option<String>, notes: &mut Vec<String>) -> String {
    let original = original.unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = original.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect();
    let name = if name.is_empty() { "agent".to_owned() } else { name };
    if name != original && !original.is_empty() {
        notes.push(format!("the agent's name `{original}` was changed to `{name}`"));
    }
    name
}

/// Variables of the prompt, each with itself as value, so that they stay literal.
fn variables(text: &str) -> Map<String, Value> {
    let pieces = text.split("{{").skip(1).filter_map(|piece| piece.split_once("}}"));
    let itself = |name: &str| Value::from(format!("{{{{{name}}}}}").replace("${", "$${"));
    pieces.map(|(name, _)| (name.trim().to_owned(), itself(name))).collect()
}

/// The provider's name, its settings, and the model's name.
fn provider(
    transport: &mut FieldReader,
    request: &mut Map<String, Value>,
    notes: &mut Vec<String>,
) -> Result<(String, Value, Option<String>), String> {
    let mut section = transport.section("provider")?.ok_or("transport.provider is missing")?;
    let name = section.text("name")?.unwrap_or_else(|| "default".into());
    let preset = preset(&name);
    if preset == Preset::Generic {
        notes.push(format!("the provider `{name}` has no preset: the preset `generic` is used"));
    }
    let url = match section.text("base_url")? {
        Some(url) => base_url(preset, &url),
        None if preset == Preset::OpenAi => "https://api.openai.com/v1".into(),
        None => return Err("transport.provider.base_url is missing".into()),
    };
    let mut settings = Map::from_iter([
        ("preset".to_owned(), serde_json::to_value(preset).map_err(|error| error.to_string())?),
        ("url".to_owned(), url.into()),
    ]);
    if let Some(mut options) = section.section("options")? {
        let key = options.text("token")?.or(options.text("api_key")?);
        settings.extend(key.map(|key| ("api_key".to_owned(), key.into())));
        notes.extend(options.unknown_fields());
    }
    let mut model_name = None;
    if let Some(mut model) = section.section("model")? {
        model_name = model.text("name")?;
        match model.text("format")?.as_deref() {
            None | Some("openai-standard" | "openai") => {}
            Some(other) => notes.push(format!(
                "transport.provider.model.format `{other}` is not supported: providers are called with OpenAI's chat completions"
            )),
        }
        *request =
            model.section("options")?.map(|section| section.into_entries().collect()).unwrap_or_default();
        notes.extend(model.unknown_fields());
    }
    notes.extend(section.unknown_fields());

    let mut timeouts = Map::new();
    for (theirs, ours) in [("timeout", "total"), ("connection_timeout", "connect")] {
        timeouts.extend(transport.duration(theirs)?.map(|time| (ours.to_owned(), time.into())));
    }
    let mut retries = Map::new();
    retries.extend(transport.take("max_retries").map(|max| ("max".to_owned(), max)));
    let backoff = transport.duration("retry_backoff_base")?;
    retries.extend(backoff.map(|time| ("initial_backoff".to_owned(), time.into())));
    for (key, section) in [("timeouts", timeouts), ("retries", retries)] {
        if !section.is_empty() {
            settings.insert(key.to_owned(), section.into());
        }
    }
    Ok((provider_name(&name), settings.into(), model_name))
}

fn provider_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars().map(|c| if fits(c) { c } else { '-' }).take(64).collect()
}

fn preset(name: &str) -> Preset {
    match name.to_ascii_lowercase().as_str() {
        "ollama" => Preset::Ollama,
        "openai" => Preset::OpenAi,
        "vllm" => Preset::Vllm,
        "llama.cpp" | "llamacpp" | "llama_cpp" | "llama-cpp" => Preset::LlamaCpp,
        "openrouter" => Preset::OpenRouter,
        "litellm" => Preset::LiteLlm,
        "mistral" => Preset::Mistral,
        _ => Preset::Generic,
    }
}

/// The base URL of the chat API, completed if only the server is given.
pub(crate) fn base_url(preset: Preset, url: &str) -> String {
    let url = url.trim_end_matches('/');
    let bare = Url::parse(url).is_ok_and(|url| url.path() == "/");
    match preset {
        Preset::Generic => url.to_owned(),
        Preset::OpenRouter if bare => format!("{url}/api/v1"),
        _ if bare => format!("{url}/v1"),
        _ => url.to_owned(),
    }
}

/// The tools, and their network access. Absent flags are false, as in Go.
fn tools_section(
    section: &mut FieldReader,
    notes: &mut Vec<String>,
) -> Result<(Map<String, Value>, Option<Value>), String> {
    let mut tools = Map::new();
    tools.insert("execution_enabled".into(), section.flag("execution_enabled")?.into());
    tools.extend(section.duration("timeout")?.map(|time| ("timeout".to_owned(), time.into())));
    // In go-agents an empty list allows everything, here nothing.
    let allowed = section.list("allowed_tools")?.filter(|list| !list.is_empty());
    tools.extend(allowed.map(|list| ("allowed_tools".to_owned(), list.into())));
    tools.extend(section.list("blocked_tools")?.map(|list| ("blocked_tools".to_owned(), list.into())));
    let mut builtin = Map::new();
    if let Some(mut keys) = section.section("api_keys")? {
        for (name, tool) in [("weather", "get_weather"), ("search", "web_search")] {
            if let Some(key) = keys.text(name)? {
                builtin.insert(tool.to_owned(), json!({"api_key": with_empty_default(&key)}));
            }
        }
        notes.extend(keys.unknown_fields());
    }
    let mut policy = section.section("security_policy")?.unwrap_or_else(FieldReader::empty);
    for key in ["allow_file_access", "allow_network_access"] {
        tools.insert(key.to_owned(), policy.flag(key)?.into());
    }
    if let Some(paths) = policy.list("allowed_paths")? {
        builtin.insert("file_read".to_owned(), json!({"allowed_paths": paths}));
    }
    let domains = policy.list("allowed_domains")?.filter(|list| !list.is_empty());
    if let Some(Value::Object(search)) = builtin.get_mut("web_search") {
        match search_provider(domains.as_deref().unwrap_or_default()) {
            Some(provider) => _ = search.insert("provider".into(), provider.into()),
            None => notes.push(
                "the key decides between tavily and brave: set tools.builtin.web_search.provider for another search provider"
                    .into(),
            ),
        }
    }
    notes.extend(policy.unknown_fields());
    notes.extend(section.unknown_fields());
    if !builtin.is_empty() {
        tools.insert("builtin".into(), builtin.into());
    }
    Ok((tools, domains.map(|domains| json!({"allowed_domains": domains}))))
}

/// The search provider whose domain is allowed.
fn search_provider(domains: &[Value]) -> Option<&'static str> {
    let hosts = [
        ("api.duckduckgo.com", "duckduckgo"),
        ("api.search.brave.com", "brave"),
        ("api.tavily.com", "tavily"),
    ];
    let allowed = |host: &str| domains.iter().any(|domain| domain == host);
    hosts.into_iter().find(|(host, _)| allowed(host)).map(|(_, provider)| provider)
}

/// `${NAME:-}` instead of `${NAME}`, so that a missing variable disables the tool and does not stop the gateway.
fn with_empty_default(key: &str) -> String {
    match key.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        Some(name) if !name.contains([':', '$', '}']) => format!("${{{name}:-}}"),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests;
