//! `antwort tools`: lists and calls server-side tools without a gateway.

use std::process::ExitCode;
use std::sync::Arc;

use axum::Json;

use super::offline;
use super::output::{print_error, print_json};
use crate::app;
use crate::app::tools::GatewayTools;
use crate::transport::tool_result;
use antwort_config::{LoadOptions, Settings};
use antwort_limits::Admission;
use antwort_mcp::{CallerCatalog, McpCaller, OnBehalfOf};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_telemetry::metrics::Metrics;
use antwort_tools::{PolicySubject, Progress, ToolCall, ToolContext, ToolDefinition};

/// The tenant of callers whose key has none.
const TENANT: &str = "default";

/// Output of `tools list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// Definitions as JSON.
    Full,
    /// One line per tool.
    Summary,
    /// The number of tools.
    Count,
}

/// Lists the tools.
pub(super) fn list(view: View, options: &LoadOptions) -> ExitCode {
    offline::run(options, async |settings| {
        let tools = open(&settings).await?;
        let toolbox = &tools.toolbox;
        let own = all_tools(&tools).await?;
        let catalog = &own.catalog;
        // Blocked tools are not offered to callers, either.
        let mut shown: Vec<&ToolDefinition> = catalog.iter().map(|tool| &**tool.definition()).collect();
        shown
            .retain(|tool| toolbox.check_access(PolicySubject { tenant: TENANT, agent: None }, tool).is_ok());
        print_json(&match view {
            View::Count => shown.len().to_string(),
            View::Summary => {
                let line = |tool: &&ToolDefinition| format!("- `{}` - {}", tool.name, tool.description);
                shown.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            View::Full => pretty(&shown),
        });
        tools.shutdown().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Calls a tool and prints its result; exits with 1 if it failed.
pub(super) fn call(name: &str, arguments: &str, options: &LoadOptions) -> ExitCode {
    offline::run(options, async |settings| {
        let tools = open(&settings).await?;
        let own = all_tools(&tools).await?;
        let catalog = &own.catalog;
        let Some(tool) = catalog.get(name) else {
            let known: Vec<_> = catalog.iter().map(|tool| tool.definition().name.as_str()).collect();
            print_error(&format!("there is no tool `{name}`; there are {}", known.join(", ")));
            tools.shutdown().await;
            return Ok(ExitCode::FAILURE);
        };
        let context = ToolContext {
            tenant: TENANT.into(),
            principal: "cli".into(),
            request_id: "cli".into(),
            ..ToolContext::default()
        };
        let call = ToolCall::direct(name, arguments.to_owned());
        let outcome = tool.call(call, Arc::new(context), Progress::none()).await;
        let failed = outcome.as_ref().map_or(true, |output| output.is_error);
        tools.shutdown().await;
        let Json(result) = tool_result::render(tool_result::ResultView::Antwort, "cli", name, outcome);
        print_json(&pretty(&result));
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    })
}

/// All tools, including those of MCP servers.
async fn all_tools(tools: &GatewayTools) -> Result<CallerCatalog, String> {
    let on_behalf_of = OnBehalfOf { principal: "cli", ..OnBehalfOf::default() };
    let caller = McpCaller {
        tenant: &TENANT.into(),
        key: &"cli".into(),
        authorization: None,
        on_behalf_of,
        shows: ElicitationModes::default(),
    };
    let own = tools.mcp.bind_catalog(&tools.toolbox, caller, |_| true).await;
    own.map_err(|error| error.body.message)
}

/// All configured tools; the caller must shut them down.
pub(super) async fn open(settings: &Settings) -> Result<GatewayTools, String> {
    let metrics = Metrics::new();
    let admission = Admission::new(&app::admission_limits(settings, 1), &metrics);
    app::tools::open(settings, &admission, &metrics, app::tools::ExtraTools::default())
        .await
        .map_err(|error| format!("{error:#}"))
}

/// Pretty-printed JSON.
pub(super) fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
