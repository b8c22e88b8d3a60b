//! What operators see: logs, metrics and traces.
//!
//! Floor 1: owns names and forms, not the events; those who know what happens call in here. Nothing that
//! clients or models say is logged, measured or traced.

pub mod logs;
pub mod metrics;
pub mod traces;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Registry};

use crate::config::{LogSettings, TelemetrySettings};

/// Its lines are left out unless the filter names it.
const MCP_LIBRARY: &str = "rmcp";

/// Keeps traces going; see [`Guard::shutdown`].
#[derive(Debug)]
#[must_use = "spans that wait to be sent are lost without shutdown"]
pub struct Guard(Option<traces::Exporter>);

impl Guard {
    /// Sends the spans that wait. Blocks for up to five seconds: call it when no request is left.
    pub fn shutdown(self) {
        if let Some(exporter) = self.0 {
            exporter.shutdown();
        }
    }
}

/// Why logs or traces could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error("log.filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The exporter of traces could not be made.
    #[error("telemetry.otlp_endpoint: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// It was done before in this process.
    #[error("logs are set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Sets up logs to stderr, and traces if an endpoint is configured. Once a process.
///
/// # Errors
/// If the filter or the endpoint is none, or on the second call.
pub fn init(log: &LogSettings, telemetry: &TelemetrySettings) -> Result<Guard, TelemetryError> {
    let mut filter = EnvFilter::builder().parse(&log.filter)?;
    // The MCP library repeats what servers say, and calls it an error of the process when one of them is down.
    if !log.filter.contains(MCP_LIBRARY) {
        filter = filter.add_directive(format!("{MCP_LIBRARY}=off").parse()?);
    }
    let logs = logs::layer::<Registry>(log.format, filter);
    let exporter = match &telemetry.otlp_endpoint {
        Some(endpoint) => Some(traces::Exporter::new(endpoint, telemetry)?),
        None => None,
    };
    // `None` is no layer at all: without an endpoint a span costs what the log's filter makes of it.
    let spans = exporter.as_ref().map(traces::Exporter::layer);
    tracing_subscriber::registry().with(logs).with(spans).try_init()?;
    logs::catch_panics();
    Ok(Guard(exporter))
}
