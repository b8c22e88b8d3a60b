//! Telemetry: logs, metrics and traces.
//!
//! It owns names and formats; the modules where things happen call it. Contents of requests and responses are never
//! logged, measured or traced.

mod error;
pub mod fields;
mod json_line;
pub mod log_queue;
pub(crate) mod logs;
pub mod metrics;
mod options;
pub mod request_log;
pub mod traces;

use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

pub use error::TelemetryError;
use options::filter;
pub use options::{LogFormat, LogOptions, TraceOptions};

/// Keeps the trace exporter running; see [`TelemetryGuard::shutdown`].
#[derive(Debug)]
#[must_use = "pending spans are lost without shutdown"]
pub struct TelemetryGuard(Option<traces::TraceExporter>);

impl TelemetryGuard {
    /// Exports pending spans. Blocks for up to five seconds: call it after the last request has ended.
    pub fn shutdown(self) {
        if let Some(exporter) = self.0 {
            exporter.shutdown();
        }
    }
}

/// Initializes logging to stderr, and traces if these are asked for. Call it once per process.
///
/// # Errors
/// If the filter or the endpoint is invalid, or on the second call.
pub fn init(log: &LogOptions, traces: Option<TraceOptions>) -> Result<TelemetryGuard, TelemetryError> {
    let (filter, handle) = reload::Layer::new(filter(&log.filter)?);
    let logs = logs::layer::<Registry>(log.format, log_queue::of_process(log.queue)?, filter);
    let exporter = traces.map(traces::TraceExporter::new).transpose()?;
    // `None` adds no layer: without an endpoint, spans are only made as far as the log filter asks for them.
    let spans = exporter.as_ref().map(traces::TraceExporter::layer);
    tracing_subscriber::registry().with(logs).with(spans).try_init()?;
    // Cannot be set already: `try_init` would have failed.
    _ = FILTER.set(handle);
    logs::install_panic_hook();
    Ok(TelemetryGuard(exporter))
}

/// The handle of the process's log filter, once logging is initialized.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Replaces the log filter. The directives were validated with the settings.
pub fn set_filter(directives: &str) {
    let Some(handle) = FILTER.get() else { return };
    let set = filter(directives).map_err(|error| error.to_string());
    if let Err(error) = set.and_then(|filter| handle.reload(filter).map_err(|error| error.to_string())) {
        tracing::error!(error, "changing log.filter failed; the old filter stays in force");
    }
}

/// A duration as in log lines: milliseconds, with three decimal places.
pub fn milliseconds(time: Duration) -> f64 {
    (time.as_micros() as f64) / 1e3
}
