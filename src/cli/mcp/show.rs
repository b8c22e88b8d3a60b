//! Output of `antwort mcp list`: lines for humans, JSON for programs.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;

use antwort_mcp::{CallDecision, ServedTool, ServerStatus};
use antwort_tools::ToolDefinition;

/// The report about a server.
#[derive(Serialize)]
pub(super) struct ServerReport {
    server_label: String,
    endpoint: Option<String>,
    transport: Option<&'static str>,
    protocol_version: Option<String>,
    server: Option<String>,
    tools: Vec<Shown>,
    left_out: Vec<LeftOut>,
    error: Option<String>,
}

/// A tool of a server.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    definition: Arc<ToolDefinition>,
    /// Whether calls need approval, unless the request decides otherwise.
    needs_approval: bool,
}

/// A tool that cannot be used.
#[derive(Serialize)]
struct LeftOut {
    name: String,
    reason: String,
}

impl ServerReport {
    /// A server that responded.
    pub(super) fn connected<'a>(
        label: &str,
        state: Option<ServerStatus>,
        tools: impl Iterator<Item = (&'a ServedTool, CallDecision)>,
        unusable: &[(String, String)],
    ) -> Self {
        let shown = |(tool, decision): (&ServedTool, CallDecision)| Shown {
            definition: Arc::clone(tool.registered.definition()),
            needs_approval: decision == CallDecision::Ask,
        };
        let left_out =
            |(name, reason): &(String, String)| LeftOut { name: name.clone(), reason: reason.clone() };
        Self {
            tools: tools.map(shown).collect(),
            left_out: unusable.iter().map(left_out).collect(),
            ..Self::bare(label, state)
        }
    }

    /// A server that failed.
    pub(super) fn failed(label: &str, state: Option<ServerStatus>, error: String) -> Self {
        Self { error: Some(error), ..Self::bare(label, state) }
    }

    fn bare(label: &str, state: Option<ServerStatus>) -> Self {
        Self {
            server_label: label.to_owned(),
            endpoint: state.as_ref().map(|state| state.endpoint.clone()),
            transport: state.as_ref().and_then(|state| state.transport),
            protocol_version: state.as_ref().and_then(|state| state.protocol_version.clone()),
            server: state.and_then(|state| state.server),
            tools: Vec::new(),
            left_out: Vec::new(),
            error: None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// One line for the server, and one for each tool.
    pub(super) fn lines(&self) -> String {
        let mut lines = self.server_label.clone();
        if let Some(error) = &self.error {
            _ = write!(lines, ": failed: {error}");
            return lines;
        }
        let known = [self.server.as_deref(), self.transport, self.protocol_version.as_deref()];
        let known: Vec<&str> = known.into_iter().flatten().collect();
        _ = write!(lines, ": {}, {} tools", known.join(", "), self.tools.len());
        for Shown { definition, needs_approval } in &self.tools {
            let asks = if *needs_approval { " (needs approval)" } else { "" };
            let first = definition.description.lines().next().unwrap_or_default();
            _ = write!(lines, "\n- `{}`{asks} - {first}", definition.name);
        }
        for LeftOut { name, reason } in &self.left_out {
            _ = write!(lines, "\n- `{name}` is not available: {reason}");
        }
        lines
    }
}
