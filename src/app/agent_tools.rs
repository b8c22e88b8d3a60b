//! Checks that the tools which agents name exist: a profile without them would serve something else than it says.

use std::collections::BTreeSet;

use antwort_config::{Settings, nearest_of, server_of_tool};
use antwort_tools::{ToolRegistry, builtin};

/// What is wrong with the names, each with its key.
#[derive(Debug, Default)]
pub(crate) struct AgentToolNames {
    /// Names that nothing has.
    pub errors: Vec<String>,
    /// Names of tools that are not there for now.
    pub warnings: Vec<String>,
}

impl AgentToolNames {
    /// Compares the profiles with the gateway's own tools. Tools of MCP servers are listed on demand, and not known here.
    pub(super) async fn check(settings: &Settings, toolbox: &ToolRegistry) -> Self {
        let catalog = toolbox.catalog();
        let own = catalog.iter().map(|tool| tool.definition().name.as_str());
        let known: BTreeSet<&str> = own.chain(settings.tools.routes.keys().map(String::as_str)).collect();
        let is_complete = toolbox.has_listed_all().await;
        let mut names = Self::default();
        for (agent, profile) in &settings.agents {
            for (index, tool) in profile.tools.iter().enumerate() {
                let is_of_server = server_of_tool(tool, &settings.mcp.servers).is_some();
                if known.contains(tool.as_str()) || is_of_server {
                    continue;
                }
                let key = format!("agents.{agent}.tools[{index}]");
                if let Some(why) = builtin::unavailable_reason(tool, &settings.tools) {
                    names.warnings.push(format!("{key}: `{tool}` is not available: {why}"));
                } else if is_complete {
                    let known: Vec<&str> = known.iter().copied().collect();
                    names
                        .errors
                        .push(format!("{key}: there is no tool `{tool}`{}", nearest_of(tool, &known)));
                } else {
                    names.warnings.push(format!("{key}: no tool `{tool}` has been listed yet"));
                }
            }
        }
        names
    }

    /// Logs the warnings.
    ///
    /// # Errors
    /// If there are errors: all of them.
    pub(super) fn accept(self) -> anyhow::Result<()> {
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        if self.errors.is_empty() { Ok(()) } else { Err(anyhow::Error::msg(self.errors.join("; "))) }
    }
}
