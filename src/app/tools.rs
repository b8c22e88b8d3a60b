//! Opens the configured tools and MCP servers, for `serve`, `prompt` and `tools` alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::agent_tools::AgentToolNames;
use antwort_config::{ConfigChange, EgressSettings, MockTool, Settings, rebuilds_for};
use antwort_engine::EngineSampler;
use antwort_limits::Admission;
use antwort_mcp::client::{Client, ClientOptions};
use antwort_mcp::{Connector, McpDependencies, McpServers, PreviousServers};
use antwort_net::egress::{Egress, EgressOptions};
use antwort_telemetry::metrics::Metrics;
use antwort_tools::{MockExecutor, ToolExecutor, ToolRegistry, builtin};

/// Tools in addition to those of the settings.
#[derive(Default)]
pub struct ExtraTools {
    /// Executors of the program that embeds the gateway.
    pub executors: Vec<Arc<dyn ToolExecutor>>,
    /// Replaces the mock tools of the settings.
    pub mocks: Option<BTreeMap<String, MockTool>>,
}

/// All tools of a gateway. Clones share them.
#[derive(Clone)]
pub(crate) struct GatewayTools {
    /// The tools that the gateway runs itself.
    pub toolbox: Arc<ToolRegistry>,
    /// The configured MCP servers.
    pub mcp: Arc<McpServers>,
    /// Serves sampling requests of MCP servers, once it is connected to an engine.
    pub sampler: Option<Arc<EngineSampler>>,
    /// Held by every engine that uses this toolbox.
    pub in_use: Arc<DropGuard>,
    /// Cancelled when no engine uses the toolbox any more.
    pub unused: CancellationToken,
}

/// The tools of the previous generation, and the changes since its settings.
pub(crate) struct PreviousTools<'a> {
    /// The previous tools.
    pub tools: &'a GatewayTools,
    /// The changed keys.
    pub changes: &'a [ConfigChange],
}

impl GatewayTools {
    /// Closes MCP sessions and shuts all executors down.
    pub(crate) async fn shutdown(&self) {
        self.mcp.sessions().close().await;
        self.toolbox.shutdown().await;
    }
}

/// Opens every executor and lists its tools. Connects to no MCP server.
pub(crate) async fn open(
    settings: &Settings,
    admission: &Arc<Admission>,
    metrics: &Arc<Metrics>,
    extra: ExtraTools,
) -> anyhow::Result<GatewayTools> {
    let egress = open_egress(settings)?;
    // A command line that replaces the mock tools decides which there are.
    let has_settings_tools = extra.mocks.is_none();
    let toolbox = open_toolbox(settings, &egress, metrics, extra).await?;
    if has_settings_tools && let Err(error) = AgentToolNames::check(settings, &toolbox).await.accept() {
        toolbox.shutdown().await;
        return Err(error);
    }
    let (sampler, connector) = mcp_client(settings);
    let parts =
        McpDependencies { egress: &egress, connector, toolbox: &toolbox, admission, metrics, previous: None };
    let mcp = McpServers::new(settings, parts).map_err(anyhow::Error::msg)?;
    let (in_use, unused) = in_use();
    Ok(GatewayTools { mcp, toolbox, sampler, in_use, unused })
}

/// Like [`open`], for changed settings: unchanged parts of the previous tools are reused.
pub(crate) async fn reopen(
    before: PreviousTools<'_>,
    settings: &Settings,
    admission: &Arc<Admission>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<GatewayTools> {
    let PreviousTools { tools, changes } = before;
    let egress = open_egress(settings)?;
    let previous = PreviousServers { servers: &tools.mcp, changes };
    let (sampler, connector) = match previous.can_reuse_client() {
        true => (tools.sampler.clone(), Arc::clone(tools.mcp.connector())),
        false => mcp_client(settings),
    };
    // With its circuit breakers and caches.
    let keeps_toolbox = !rebuilds_for(changes).toolbox;
    let (toolbox, (in_use, unused)) = match keeps_toolbox {
        true => (Arc::clone(&tools.toolbox), (Arc::clone(&tools.in_use), tools.unused.clone())),
        false => (open_toolbox(settings, &egress, metrics, ExtraTools::default()).await?, in_use()),
    };
    if let Err(error) = AgentToolNames::check(settings, &toolbox).await.accept() {
        if !keeps_toolbox {
            toolbox.shutdown().await;
        }
        return Err(error);
    }
    let previous = Some(previous);
    let parts =
        McpDependencies { egress: &egress, connector, toolbox: &toolbox, admission, metrics, previous };
    let mcp = McpServers::new(settings, parts).map_err(anyhow::Error::msg)?;
    Ok(GatewayTools { mcp, toolbox, sampler, in_use, unused })
}

/// Opens the tools of the settings as the start would, and closes them again: what is wrong with them, and with the tools that agents
/// name.
pub(crate) async fn check(settings: &Settings) -> AgentToolNames {
    let opened = async {
        let toolbox =
            open_toolbox(settings, &open_egress(settings)?, &Metrics::new(), ExtraTools::default()).await?;
        let names = AgentToolNames::check(settings, &toolbox).await;
        toolbox.shutdown().await;
        anyhow::Ok(names)
    };
    let failed = |error: anyhow::Error| AgentToolNames {
        errors: vec![format!("{error:#}")],
        ..AgentToolNames::default()
    };
    opened.await.unwrap_or_else(failed)
}

fn in_use() -> (Arc<DropGuard>, CancellationToken) {
    let unused = CancellationToken::new();
    (Arc::new(unused.clone().drop_guard()), unused)
}

fn open_egress(settings: &Settings) -> anyhow::Result<Arc<Egress>> {
    Ok(Arc::new(Egress::new(&egress_options(&settings.egress)).context("egress")?))
}

async fn open_toolbox(
    settings: &Settings,
    egress: &Arc<Egress>,
    metrics: &Arc<Metrics>,
    extra: ExtraTools,
) -> anyhow::Result<Arc<ToolRegistry>> {
    let tools = &settings.tools;
    let own = builtin::executor(&tools.builtin, tools.allow_file_access, egress)?;
    let mut executors: Vec<Arc<dyn ToolExecutor>> = vec![Arc::new(own)];
    executors.extend(extra.executors);
    let mocks = extra.mocks.or_else(|| (!tools.mock.is_empty()).then(|| tools.mock.clone()));
    // Last, so that with `collision: last` a mock replaces the tool that it imitates.
    let mocks = mocks.map(|mocks| MockExecutor::new(mocks, tools.mock_delay));
    executors.extend(mocks.map(|mocks| -> Arc<dyn ToolExecutor> { Arc::new(mocks) }));
    ToolRegistry::open(tools, &settings.agents, executors, Arc::clone(metrics))
        .await
        .context("opening the tools (tools)")
}

/// The client for MCP servers, and the sampler that serves their sampling requests.
fn mcp_client(settings: &Settings) -> (Option<Arc<EngineSampler>>, Arc<dyn Connector>) {
    let sampler = EngineSampler::new(&settings.mcp.sampling);
    let client = Client::new(ClientOptions {
        max_message_bytes: settings.mcp.max_message_bytes,
        connect_timeout: settings.mcp.list_timeout,
        elicitation: settings.mcp.elicitation,
        sampler: sampler.clone().map(|sampler| sampler as _),
    });
    (sampler, Arc::new(client))
}

fn egress_options(settings: &EgressSettings) -> EgressOptions {
    EgressOptions {
        allow: settings.allow.clone(),
        allowed_domains: settings.allowed_domains.clone(),
        max_redirects: settings.max_redirects,
        max_response_bytes: settings.max_response_bytes,
        timeout: settings.timeout,
        http: settings.http.clone(),
    }
}
