//! Sets up logs and traces as configured.

use antwort_config::{LogSettings, Settings};
use antwort_telemetry::{
    self as telemetry, LogFormat, LogOptions, TelemetryError, TelemetryGuard, TraceOptions,
};

/// Initializes logging, and traces if an endpoint is configured. Call it once per process.
///
/// # Errors
/// If the filter or the endpoint is invalid, or on the second call.
pub(crate) fn init(settings: &Settings) -> Result<TelemetryGuard, TelemetryError> {
    telemetry::init(&log_options(&settings.log), trace_options(settings)?)
}

fn log_options(log: &LogSettings) -> LogOptions {
    let format = match log.format {
        antwort_config::LogFormat::Auto => LogFormat::Auto,
        antwort_config::LogFormat::Json => LogFormat::Json,
        antwort_config::LogFormat::Text => LogFormat::Text,
    };
    LogOptions { filter: log.filter.clone(), format, queue: log.queue }
}

fn trace_options(settings: &Settings) -> Result<Option<TraceOptions>, TelemetryError> {
    let traces = &settings.telemetry;
    let Some(endpoint) = &traces.otlp_endpoint else { return Ok(None) };
    let url = endpoint.parse().map_err(|_| TelemetryError::Client("not a URL".to_owned()))?;
    Ok(Some(TraceOptions {
        endpoint: endpoint.clone(),
        service_name: traces.service_name.clone(),
        sample_ratio: traces.sample_ratio,
        http: traces.http.builder_for(&url),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_options_by_default_are_those_of_a_configuration_that_changes_nothing() {
        let (ours, configured) = (LogOptions::default(), log_options(&LogSettings::default()));
        assert_eq!(ours.filter, configured.filter);
        assert_eq!((ours.format, ours.queue), (configured.format, configured.queue));
    }
}
