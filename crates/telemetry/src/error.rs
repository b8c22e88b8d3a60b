//! Why logs or traces could not be set up.

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::TryInitError;

/// Why logs or traces could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is invalid.
    #[error("log.filter: {0}")]
    Filter(#[from] ParseError),
    /// The trace exporter could not be created.
    #[error("telemetry.otlp_endpoint: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The exporter's HTTP client could not be created.
    #[error("telemetry.otlp_endpoint: {0}")]
    Client(String),
    /// The thread that writes the log could not be started.
    #[error("starting the thread that writes the log: {0}")]
    Writer(#[from] std::io::Error),
    /// Telemetry was initialized before in this process.
    #[error("logging is already initialized: {0}")]
    AlreadyInitialized(#[from] TryInitError),
}
