//! Opens the tools that the settings name: `serve`, `prompt` and `tools` have the same ones.

use std::sync::Arc;

use anyhow::Context;

use crate::config::{EgressSettings, Settings};
use crate::net::egress::{Egress, EgressOptions};
use crate::telemetry::metrics::Metrics;
use crate::tools::{Mock, ToolExecutor, Toolbox, builtin};

/// Opens every executor and reads what tools it has. `mocks` stand in place of those of the settings.
pub async fn open(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    mocks: Option<Mock>,
) -> anyhow::Result<Arc<Toolbox>> {
    let tools = &settings.tools;
    let egress = Arc::new(egress(&settings.egress).context("egress")?);
    let builtin = builtin::executor(&tools.builtin, tools.allow_file_access, &egress)?;
    let mut executors: Vec<Arc<dyn ToolExecutor>> = vec![Arc::new(builtin)];
    let mocks = mocks.or_else(|| (!tools.mock.is_empty()).then(|| Mock::new(tools.mock.clone())));
    // Last, so that with `collision: last` a mock takes the place of what it imitates.
    executors.extend(mocks.map(|mocks| -> Arc<dyn ToolExecutor> { Arc::new(mocks) }));
    Toolbox::open(tools, &settings.agents, executors, Arc::clone(metrics))
        .await
        .context("opening the tools (tools)")
}

/// The guard of all requests that tools make.
fn egress(settings: &EgressSettings) -> anyhow::Result<Egress> {
    Ok(Egress::new(&EgressOptions {
        allow: settings.allow.clone(),
        allowed_domains: settings.allowed_domains.clone(),
        max_redirects: settings.max_redirects,
        max_response_bytes: settings.max_response_bytes,
        timeout: settings.timeout,
    })?)
}
