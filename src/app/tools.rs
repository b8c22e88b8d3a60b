//! Opens the tools that the settings name: `serve`, `prompt` and `tools` have the same ones.

use std::sync::Arc;

use anyhow::Context;

use crate::config::Settings;
use crate::telemetry::metrics::Metrics;
use crate::tools::{Mock, ToolExecutor, Toolbox};

/// Opens every executor and reads what tools it has.
///
/// `executors`: those of the program that embeds the gateway; they come first.
pub async fn open(
    settings: &Settings,
    mut executors: Vec<Arc<dyn ToolExecutor>>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Arc<Toolbox>> {
    // Last, so that with `collision: last` a mock takes the place of what it imitates.
    if !settings.tools.mock.is_empty() {
        executors.push(Arc::new(Mock::new(settings.tools.mock.clone())));
    }
    Toolbox::open(&settings.tools, &settings.agents, executors, Arc::clone(metrics))
        .await
        .context("opening the tools (tools)")
}
