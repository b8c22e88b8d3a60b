//! Opens the tools that the settings name: `serve`, `prompt` and `tools` have the same ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::Admission;
use crate::config::{EgressSettings, MockTool, Settings};
use crate::engine::EngineSampler;
use crate::net::egress::{Egress, EgressOptions};
use crate::telemetry::metrics::Metrics;
use crate::tools::mcp::McpServers;
use crate::tools::mcp::client::{Client, ClientOptions};
use crate::tools::{Mock, ToolExecutor, Toolbox, builtin};

/// Tools beside those of the settings.
#[derive(Default)]
pub struct Extra {
    /// Of the program that embeds the gateway.
    pub executors: Vec<Arc<dyn ToolExecutor>>,
    /// In place of the mocks of the settings.
    pub mocks: Option<BTreeMap<String, MockTool>>,
}

/// All tools of a gateway. Clones are the same ones.
#[derive(Clone)]
pub struct Tools {
    /// Those that it runs itself.
    pub toolbox: Arc<Toolbox>,
    /// Servers of more.
    pub mcp: Arc<McpServers>,
    /// What those may use the model through, once it is told of an engine.
    pub sampler: Option<Arc<EngineSampler>>,
    /// Held by every engine that has these tools.
    pub in_use: Arc<DropGuard>,
    /// Cancelled when no engine has them any more.
    pub unused: CancellationToken,
}

impl Tools {
    /// Lets all go.
    pub async fn shutdown(&self) {
        self.mcp.shutdown().await;
        self.toolbox.shutdown().await;
    }
}

/// Opens every executor and reads what tools it has. Connects to no MCP server.
pub async fn open(
    settings: &Settings,
    admission: &Arc<Admission>,
    metrics: &Arc<Metrics>,
    extra: Extra,
) -> anyhow::Result<Tools> {
    let egress = Arc::new(Egress::new(&egress_options(&settings.egress)).context("egress")?);
    let tools = &settings.tools;
    let own = builtin::executor(&tools.builtin, tools.allow_file_access, &egress)?;
    let mut executors: Vec<Arc<dyn ToolExecutor>> = vec![Arc::new(own)];
    executors.extend(extra.executors);
    let mocks = extra.mocks.or_else(|| (!tools.mock.is_empty()).then(|| tools.mock.clone()));
    // Last, so that with `collision: last` a mock takes the place of what it imitates.
    let mocks = mocks.map(|mocks| Mock::new(mocks, tools.mock_delay));
    executors.extend(mocks.map(|mocks| -> Arc<dyn ToolExecutor> { Arc::new(mocks) }));
    let toolbox = Toolbox::open(tools, &settings.agents, executors, Arc::clone(metrics))
        .await
        .context("opening the tools (tools)")?;
    let sampler = EngineSampler::new(&settings.mcp.sampling);
    let client = Client::new(ClientOptions {
        max_message_bytes: settings.mcp.max_message_bytes,
        connect_timeout: settings.mcp.list_timeout,
        elicitation: settings.mcp.elicitation,
        sampler: sampler.clone().map(|sampler| sampler as _),
    });
    let mcp = McpServers::new(settings, &egress, Arc::new(client), &toolbox, admission, metrics);
    let unused = CancellationToken::new();
    let in_use = Arc::new(unused.clone().drop_guard());
    Ok(Tools { mcp: mcp.map_err(anyhow::Error::msg)?, toolbox, sampler, in_use, unused })
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
