//! Settings that are valid and do not serve what they seem to: told as warnings by `config check`, at the start and at a reload.

use std::collections::BTreeMap;

use super::settings::{AgentSettings, McpServerSettings};
use super::{ProviderSettings, Settings};
use antwort_util::pattern;

/// What is configured and cannot be used, each with its key.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = covered_models(&settings.providers);
    warnings.extend(unused_providers(&settings.providers));
    warnings.extend(tools_of_servers(&settings.agents, &settings.mcp.servers));
    warnings.extend(models_of_agents(settings));
    warnings
}

/// Models of a provider that go to another one.
fn covered_models(providers: &BTreeMap<String, ProviderSettings>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, (name, provider)) in providers.iter().enumerate() {
        for model in &provider.models {
            let covers = |pattern: &&String| pattern::matches(pattern, model);
            let before = providers.iter().take(index);
            let found = before.filter_map(|(other, of)| Some((other, of.models.iter().find(covers)?))).next();
            if let Some((other, covering)) = found {
                warnings.push(format!(
                    "providers.{name}.models: `{model}` goes to the provider `{other}`, whose models have `{covering}` and \
                     which comes first by its name: give one of the two a prefix or an alias"
                ));
            }
        }
    }
    warnings
}

/// Providers that no request can reach.
fn unused_providers(providers: &BTreeMap<String, ProviderSettings>) -> Vec<String> {
    let unused = providers.iter().filter(|(_, provider)| !provider.is_reachable());
    unused
        .map(|(name, _)| {
            format!(
                "providers.{name} serves no model: of several providers, each needs `models`, a `prefix` or `aliases`, or \
                 `default: true`"
            )
        })
        .collect()
}

impl ProviderSettings {
    /// Whether there is a model that this provider serves. The settings of a single one say so by `default`.
    pub(crate) fn is_reachable(&self) -> bool {
        self.default || self.prefix.is_some() || !self.models.is_empty() || !self.aliases.is_empty()
    }
}

/// Tools of MCP servers are used through the server: under `tools` a profile names the gateway's own.
fn tools_of_servers(
    agents: &BTreeMap<String, AgentSettings>,
    servers: &BTreeMap<String, McpServerSettings>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, agent) in agents {
        for (index, tool) in agent.tools.iter().enumerate() {
            if let Some(label) = server_of_tool(tool, servers) {
                warnings.push(format!(
                    "agents.{name}.tools[{index}]: `{tool}` would be a tool of the MCP server `{label}`, which is used through \
                     agents.{name}.mcp_servers; requests go without it"
                ));
            }
        }
    }
    warnings
}

/// The configured server in whose name a tool begins: `label__tool`.
pub fn server_of_tool<'a>(
    tool: &str,
    servers: &'a BTreeMap<String, McpServerSettings>,
) -> Option<&'a String> {
    servers.keys().find(|label| tool.strip_prefix(label.as_str()).is_some_and(|rest| rest.starts_with("__")))
}

/// Models of agents that no provider serves.
fn models_of_agents(settings: &Settings) -> Vec<String> {
    let is_served = |model: &str| {
        settings.providers.values().any(|provider| {
            let prefixed = || model.strip_prefix(provider.prefix.as_deref()?)?.strip_prefix('/');
            provider.default
                || provider.aliases.contains_key(model)
                || provider.models.iter().any(|pattern| pattern::matches(pattern, model))
                || prefixed().is_some_and(|rest| !rest.is_empty())
        })
    };
    let unserved = settings.agents.iter().filter_map(|(name, agent)| {
        let model =
            agent.model.as_deref().filter(|model| !settings.providers.is_empty() && !is_served(model))?;
        Some(format!("agents.{name}.model: no provider is configured for `{model}`"))
    });
    unserved.collect()
}
