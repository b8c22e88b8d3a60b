//! The routes of tools that have MCP servers (`mcp:<label>`) among their executors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use antwort_config::{RouteSettings, ToolsSettings, mcp_label};

/// The routes with MCP servers, by tool name.
pub(super) struct RemoteRoutes {
    pub settings: ToolsSettings,
    pub(crate) by_tool: BTreeMap<String, RemoteRoute>,
}

pub(super) struct RemoteRoute {
    pub settings: RouteSettings,
    /// Shared by all callers.
    pub round_robin: Arc<AtomicUsize>,
}

impl RemoteRoutes {
    pub(super) fn new(settings: &ToolsSettings) -> Self {
        let leads_to_servers =
            |route: &RouteSettings| route.executors.iter().any(|id| mcp_label(id).is_some());
        let by_tool = settings.routes.iter().filter(|(_, route)| leads_to_servers(route));
        let by_tool = by_tool
            .map(|(name, route)| {
                (name.clone(), RemoteRoute { settings: route.clone(), round_robin: Arc::default() })
            })
            .collect();
        Self { settings: settings.clone(), by_tool }
    }
}
