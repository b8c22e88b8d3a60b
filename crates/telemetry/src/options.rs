//! What logs and traces are set up with.

use tracing_subscriber::filter::ParseError;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Lines that wait to be written unless something else is configured.
pub(super) const DEFAULT_QUEUE: usize = 8192;

/// How log lines are chosen and written.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// A level, or directives of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// Format of a line.
    pub format: LogFormat,
    /// Maximum lines that wait to be written to standard error; further ones are dropped and counted.
    pub queue: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { filter: LevelFilter::INFO.to_string(), format: LogFormat::Auto, queue: DEFAULT_QUEUE }
    }
}

/// Format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text if standard error is a terminal, JSON otherwise.
    Auto,
    /// One JSON object per line.
    Json,
    /// Human-readable.
    Text,
}

/// Where spans are exported to, and which. Not `Debug`: the client's proxy and the endpoint may have passwords.
pub struct TraceOptions {
    /// Base URL of an OTLP collector over HTTP, or the URL of its traces.
    pub endpoint: String,
    /// `service.name` of the spans.
    pub service_name: String,
    /// Ratio of traces starting here that are sampled, 0 to 1; the sampling decision of callers is respected.
    pub sample_ratio: f64,
    /// The exporter's HTTP client, with proxy and certificates for this endpoint.
    pub http: reqwest::ClientBuilder,
}

/// Parses filter directives. The MCP SDK is off unless it is named: it logs session ids, and expected failures of the client
/// as errors; what matters of these the client logs itself.
pub(super) fn filter(directives: &str) -> Result<EnvFilter, ParseError> {
    let filter = EnvFilter::builder().parse(directives)?;
    if directives.contains("rmcp") { Ok(filter) } else { Ok(filter.add_directive("rmcp=off".parse()?)) }
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

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
