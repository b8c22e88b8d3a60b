//! What operators see: logs, metrics and traces.
//!
//! Floor 1: owns names and forms, not the events; those who know what happens call in here. Nothing that
//! clients or models say is logged, measured or traced.

pub(crate) mod fields;
mod json_line;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod request_log;
pub(crate) mod traces;

use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::config::{LogSettings, TelemetrySettings};

/// Keeps traces going; see [`TelemetryGuard::shutdown`].
#[derive(Debug)]
#[must_use = "spans that wait to be sent are lost without shutdown"]
pub(crate) struct TelemetryGuard(Option<traces::TraceExporter>);

impl TelemetryGuard {
    /// Sends the spans that wait. Blocks for up to five seconds: call it when no request is left.
    pub(crate) fn shutdown(self) {
        if let Some(exporter) = self.0 {
            exporter.shutdown();
        }
    }
}

/// Why logs or traces could not be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TelemetryError {
    /// The filter is not one.
    #[error("log.filter: {0}")]
    Filter(#[from] ParseError),
    /// The exporter of traces could not be made.
    #[error("telemetry.otlp_endpoint: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The exporter's HTTP client could not be made.
    #[error("telemetry.otlp_endpoint: {0}")]
    Client(String),
    /// It was done before in this process.
    #[error("logs are set up already: {0}")]
    AlreadyInitialized(#[from] TryInitError),
}

/// Sets up logs to stderr, and traces if an endpoint is configured. Once a process.
///
/// # Errors
/// If the filter or the endpoint is none, or on the second call.
pub(crate) fn init(
    log: &LogSettings,
    telemetry: &TelemetrySettings,
) -> Result<TelemetryGuard, TelemetryError> {
    let (filter, handle) = reload::Layer::new(filter(&log.filter)?);
    let logs = logs::layer::<Registry>(log.format, filter);
    let exporter = match &telemetry.otlp_endpoint {
        Some(endpoint) => Some(traces::TraceExporter::new(endpoint, telemetry)?),
        None => None,
    };
    // `None` is no layer at all: without an endpoint a span costs what the log's filter makes of it.
    let spans = exporter.as_ref().map(traces::TraceExporter::layer);
    tracing_subscriber::registry().with(logs).with(spans).try_init()?;
    // Nobody was here before: the line above would have failed.
    _ = FILTER.set(handle);
    logs::install_panic_hook();
    Ok(TelemetryGuard(exporter))
}

/// Of the process's logs, once they are set up.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Logs by another filter from now on, which was checked with the settings.
pub(crate) fn set_filter(directives: &str) {
    let Some(handle) = FILTER.get() else { return };
    let set = filter(directives).map_err(|error| error.to_string());
    if let Err(error) = set.and_then(|filter| handle.reload(filter).map_err(|error| error.to_string())) {
        tracing::error!(error, "the log filter stays as it was");
    }
}

/// What is logged. The SDK of MCP only if it is named: it takes what the client just tries for errors, and logs the
/// ids of sessions. What matters of it the client says itself.
fn filter(directives: &str) -> Result<EnvFilter, ParseError> {
    let filter = EnvFilter::builder().parse(directives)?;
    if directives.contains("rmcp") { Ok(filter) } else { Ok(filter.add_directive("rmcp=off".parse()?)) }
}

/// A time as log lines have it: milliseconds, with three digits behind the point.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_micros() as f64) / 1e3
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_sdk_of_mcp_is_silent_unless_it_is_named() {
        for (directives, sdk, ours) in [
            ("info", false, true),
            ("", false, false),
            ("warn,rmcp=debug", true, false),
            ("antwort=info", false, true),
        ] {
            let _guard =
                tracing::subscriber::set_default(Registry::default().with(filter(directives).unwrap()));
            assert_eq!(tracing::enabled!(target: "rmcp::service", Level::WARN), sdk, "{directives}");
            assert_eq!(tracing::enabled!(target: "antwort::mcp", Level::INFO), ours, "{directives}");
        }
        assert!(filter("info,=").is_err());
    }
}
