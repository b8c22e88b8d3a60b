//! The settings of a prompt: a configuration or an agent file, overridden by flags.

use reqwest::Url;
use serde_json::{Map, Value};

use super::arguments::PromptArgs;
use super::foreign_server;
use crate::cli::import::foreign_config::{self, ForeignReads, ImportedConfig};
use crate::cli::print_error;
use crate::cli::prompt::agent_file::{self, AgentFile};
use antwort_config::{
    self as config, ClientActionStatus, LoadOptions, Preset, ProviderSettings, Settings, StoreUrl,
    ToolCollision, ToolVisibility, UnknownFields,
};

/// The settings of a prompt.
pub(super) struct Setup {
    pub settings: Settings,
    /// The selected agent profile.
    pub agent: Option<String>,
    /// Options of the file for every request.
    pub options: Map<String, Value>,
}

/// Loads the settings.
pub(super) fn load(args: &PromptArgs, mut options: LoadOptions) -> Result<Setup, String> {
    let imported = agent_file(args, &mut options)?;
    let loaded = config::load(&options).map_err(|errors| format!("Error: {errors}"))?;
    for warning in &loaded.warnings {
        print_error(&format!("warning: {warning}"));
    }
    let mut settings = loaded.settings;
    provider(args, &mut settings)?;
    settings.require_provider().map_err(|errors| format!("Error: {errors}"))?;
    if let Some(timeout) = args.tool_timeout {
        settings.tools.timeout = timeout;
    }
    if let Some(delay) = args.mock_delay {
        settings.tools.mock_delay = delay;
    }
    if args.mock_tools.is_some() && settings.tools.collision == ToolCollision::Error {
        // A mock replaces the tool of its name.
        settings.tools.collision = ToolCollision::Last;
        if settings.log.filter == "info" {
            // Otherwise every prompt would log the collision.
            "warn,antwort::tools::assemble=error".clone_into(&mut settings.log.filter);
        }
    }
    if !args.json() {
        settings.tools.stream_visibility = ToolVisibility::Full;
    } else if args.execute_tools && settings.tools.stream_visibility == ToolVisibility::Hidden {
        // Calls that wait for the client must be distinguishable from calls that the gateway has made.
        settings.tools.stream_visibility = ToolVisibility::Items;
    }
    settings.engine.client_action_status = ClientActionStatus::RequiresAction;
    // Agent files hold options that only their own provider knows; ignored ones are reported.
    settings.compat.unknown_fields = UnknownFields::Ignore;
    settings.store.url = StoreUrl::Memory;
    settings.seal.file = None;
    if !args.execute_tools {
        // An agent may have tools, too: they are shown like those of the tools file.
        settings.tools.execution_enabled = false;
    }
    let agent = agent(args, &settings)?;
    Ok(Setup { settings, agent, options: imported.map(|imported| imported.request).unwrap_or_default() })
}

/// The named agent, or the only one.
fn agent(args: &PromptArgs, settings: &Settings) -> Result<Option<String>, String> {
    let names = || settings.agents.keys().cloned().collect::<Vec<_>>();
    match &args.agent {
        Some(name) if settings.agents.contains_key(name) => Ok(Some(name.clone())),
        Some(name) => Err(format!(
            "Error: there is no agent `{name}` in the configuration; there are: {}",
            names().join(", ")
        )),
        None => Ok(names().pop().filter(|_| settings.agents.len() == 1)),
    }
}

/// The translation of an agent file, which replaces it; what is lost in it is reported.
fn agent_file(args: &PromptArgs, options: &mut LoadOptions) -> Result<Option<ImportedConfig>, String> {
    let reads = if args.allow_files { ForeignReads::Allowed } else { ForeignReads::Refused };
    let Some(AgentFile { file, imported }) = agent_file::replace(options, reads)? else { return Ok(None) };
    if !args.allow_files && args.base_url.is_none() {
        foreign_server::check(&imported.provider, options)
            .map_err(|error| format!("Error: {}: {error}", file.display()))?;
    }
    for note in &imported.notes {
        print_error(&format!("note: {}: {note}", file.display()));
    }
    Ok(Some(imported))
}

/// Flags about the provider apply to the default provider.
fn provider(args: &PromptArgs, settings: &mut Settings) -> Result<(), String> {
    if let Some(url) = &args.base_url {
        if !Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
            return Err("Error: -base-url: expected an http or https URL".into());
        }
        match default_provider(settings) {
            Some(provider) => provider.url = foreign_config::base_url(provider.preset, url),
            None => {
                let mut provider = ProviderSettings::new(Preset::Generic, url.trim_end_matches('/'));
                provider.default = true;
                settings.providers.insert("default".into(), provider);
            }
        }
    }
    if let Some(token) = &args.token {
        let provider = default_provider(settings).ok_or("Error: -token: no provider is configured")?;
        provider.api_key = Some(token.clone().into());
    }
    Ok(())
}

fn default_provider(settings: &mut Settings) -> Option<&mut ProviderSettings> {
    settings.providers.values_mut().find(|provider| provider.default)
}
