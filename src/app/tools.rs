//! Opens the tools that the settings name: `serve`, `prompt` and `tools` have the same ones.

use std::sync::Arc;

use anyhow::Context;

use crate::config::Settings;
use crate::telemetry::metrics::Metrics;
use crate::tools::{Mock, ToolExecutor, Toolbox};

/// Opens every executor and reads what tools it has. `mocks` stand in place of those of the settings.
pub async fn open(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    mocks: Option<Mock>,
) -> anyhow::Result<Arc<Toolbox>> {
    let mut executors: Vec<Arc<dyn ToolExecutor>> = Vec::new();
    let said = &settings.tools.mock;
    let mocks = mocks.or_else(|| (!said.is_empty()).then(|| Mock::new(said.clone())));
    // Last, so that with `collision: last` a mock takes the place of what it imitates.
    executors.extend(mocks.map(|mocks| -> Arc<dyn ToolExecutor> { Arc::new(mocks) }));
    Toolbox::open(&settings.tools, &settings.agents, executors, Arc::clone(metrics))
        .await
        .context("opening the tools (tools)")
}
