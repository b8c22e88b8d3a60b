//! Inference: durations, token counts and latencies under OpenTelemetry's names for generative AI.

use std::time::Duration;

use super::bounded::BoundedLabels;
use super::registry::{Exposed, Family, Histogram};
use antwort_protocol::response::{ResponseStatus, Usage};

/// Models with series of their own; all others share the series `other`.
const MAX_MODELS: usize = 200;
/// Error codes with series of their own. The gateway has fewer; a provider can send any.
const MAX_ERROR_CODES: usize = 64;

const OPERATION_BUCKETS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const FIRST_TOKEN_BUCKETS: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
const PER_TOKEN_BUCKETS: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5];
const TOKEN_BUCKETS: &[f64] =
    &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// The outcome of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunReport<'a> {
    /// Key of the provider.
    pub provider: &'a str,
    /// The provider's name of the model.
    pub model: &'a str,
    /// How the response ended.
    pub status: ResponseStatus,
    /// Whether the client took a stream.
    pub stream: bool,
    /// Code of a failed response.
    pub error_code: Option<&'a str>,
    /// Tokens, where the provider said.
    pub usage: Option<Usage>,
    /// From the request to the response's end.
    pub duration: Duration,
    /// From the request to the provider's first word.
    pub first_event: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct InferenceMetrics {
    models: BoundedLabels,
    error_codes: BoundedLabels,
    token_usage: Family<Histogram>,
    operation_duration: Family<Histogram>,
    time_to_first_token: Family<Histogram>,
    time_per_output_token: Family<Histogram>,
}

impl InferenceMetrics {
    pub(super) fn new() -> Self {
        const MODEL: &[&str] = &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
        Self {
            models: BoundedLabels::new(MAX_MODELS),
            error_codes: BoundedLabels::new(MAX_ERROR_CODES),
            token_usage: Family::histogram(
                "gen_ai_client_token_usage",
                "Tokens per response.",
                &[
                    "gen_ai_operation_name",
                    "gen_ai_provider_name",
                    "gen_ai_request_model",
                    "gen_ai_token_type",
                ],
                TOKEN_BUCKETS,
            ),
            operation_duration: Family::histogram(
                "gen_ai_client_operation_duration_seconds",
                "Time from the request to the end of the response.",
                &["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"],
                OPERATION_BUCKETS,
            ),
            time_to_first_token: Family::histogram(
                "gen_ai_server_time_to_first_token_seconds",
                "Time from the request to the first token, for streams.",
                MODEL,
                FIRST_TOKEN_BUCKETS,
            ),
            time_per_output_token: Family::histogram(
                "gen_ai_server_time_per_output_token_seconds",
                "Time per output token after the first, for streams.",
                MODEL,
                PER_TOKEN_BUCKETS,
            ),
        }
    }

    pub(super) fn run_ended(&self, report: &RunReport<'_>) {
        let answered = report.status != ResponseStatus::Failed;
        // Only a model that has answered gets a series: clients can make up any number of names.
        let model = self.models.value(report.model, answered);
        let error =
            report.error_code.filter(|_| !answered).map_or("", |code| self.error_codes.value(code, true));
        self.operation_duration
            .with(&["chat", report.provider, model, error])
            .observe(report.duration.as_secs_f64());
        self.record_tokens(report.provider, model, report.usage);
        self.record_token_latency(report, model);
    }

    fn record_tokens(&self, provider: &str, model: &str, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            self.token_usage.with(&["chat", provider, model, kind]).observe(tokens as f64);
        }
    }

    fn record_token_latency(&self, report: &RunReport<'_>, model: &str) {
        let Some(first) = report.first_event.filter(|_| report.stream) else { return };
        let labels = ["chat", report.provider, model];
        self.time_to_first_token.with(&labels).observe(first.as_secs_f64());
        let tokens = report.usage.map_or(0, |usage| usage.output_tokens);
        if tokens > 1 {
            let rest = report.duration.saturating_sub(first).as_secs_f64();
            self.time_per_output_token.with(&labels).observe(rest / (tokens - 1) as f64);
        }
    }

    /// The run failed before there was a response.
    pub(super) fn run_refused(&self, report: &RunReport<'_>) {
        let model = self.models.value(report.model, false);
        let code = self.error_codes.value(report.error_code.unwrap_or_default(), true);
        self.record_tokens(report.provider, model, report.usage);
        let duration = self.operation_duration.with(&["chat", report.provider, model, code]);
        duration.observe(report.duration.as_secs_f64());
    }

    /// These models have series of their own before their first response.
    pub(super) fn known_models<'a>(&self, models: impl IntoIterator<Item = &'a str>) {
        for model in models {
            self.models.value(model, true);
        }
    }

    pub(super) fn families(&self) -> [&dyn Exposed; 4] {
        [&self.operation_duration, &self.token_usage, &self.time_to_first_token, &self.time_per_output_token]
    }
}
