//! Metrics of the gateway, under the names that dashboards use.
//!
//! Names and buckets of `gen_ai_*` are OpenTelemetry's conventions for generative AI in Prometheus form, with the
//! gateway as the client of its providers; the others are the gateway's own. Every label has a bounded set of values.

mod bounded;
mod bus;
mod configuration;
mod http;
mod inference;
mod jobs;
mod log_lines;
mod mcp;
mod process;
mod queues;
mod registry;
mod store;
mod tools;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use bus::BusMetrics;
use configuration::Configuration;
use http::HttpMetrics;
use inference::InferenceMetrics;
pub use inference::RunReport;
use jobs::JobMetrics;
use log_lines::LogLines;
use mcp::McpMetrics;
use process::ProcessMetrics;
use queues::Queues;
pub use registry::Description;
use registry::{Counter, Exposed, Family, Gauge};
use store::StoreMetrics;
use tools::ToolMetrics;
use websocket::WebSocketMetrics;

use antwort_protocol::response::ResponseStatus;

/// Values of labels that are known from the start. Their series begin at zero, so that a rate sees the first event, too.
const JSON: &str = "json";
const STREAM: &str = "stream";
const STATUSES: [ResponseStatus; 4] = [
    ResponseStatus::Completed,
    ResponseStatus::Incomplete,
    ResponseStatus::Failed,
    ResponseStatus::Cancelled,
];
const REFUSALS: [&str; 3] = ["draining", "host_not_allowed", "origin_not_allowed"];
const KEY_OUTCOMES: [&str; 4] = ["new", "followed", "replayed", "reused"];
const DELIVERIES: [&str; 3] = ["delivered", "failed", "given_up"];

/// All metrics of one gateway. Cheap enough for every request: an increment is an atomic operation, behind a short read
/// lock where labels vary.
#[derive(Debug)]
pub struct Metrics {
    inference: InferenceMetrics,
    responses: Family<Counter>,
    runs_active: Family<Gauge>,
    websocket: WebSocketMetrics,
    jobs: JobMetrics,
    http: HttpMetrics,
    store: StoreMetrics,
    upstream_retries: Family<Counter>,
    provider_failures: Family<Counter>,
    rejected: Family<Counter>,
    idempotency_keys: Family<Counter>,
    webhook_deliveries: Family<Counter>,
    queues: Queues,
    bus: BusMetrics,
    configuration: Configuration,
    tools: ToolMetrics,
    mcp: McpMetrics,
    log_lines: LogLines,
    process: ProcessMetrics,
}

fn responses() -> Family<Counter> {
    Family::counter("antwort_responses_total", "Finished responses, by status.", &["status", "mode"])
}

fn webhook_deliveries() -> Family<Counter> {
    let help = "Notices to webhooks, counting each attempt.";
    Family::counter("antwort_webhook_deliveries_total", help, &["webhook", "outcome"])
}

fn provider_failures() -> Family<Counter> {
    let help = "Failed calls to providers, counting each attempt.";
    Family::counter("antwort_provider_failures_total", help, &["provider", "kind"])
}

impl Metrics {
    /// All metrics at zero. Each gateway of a process has its own.
    pub fn new() -> Arc<Self> {
        let metrics = Self {
            inference: InferenceMetrics::new(),
            responses: responses(),
            runs_active: Family::gauge("antwort_runs_active", "Responses in progress.", &[]),
            websocket: WebSocketMetrics::new(),
            jobs: JobMetrics::new(),
            http: HttpMetrics::new(),
            store: StoreMetrics::new(),
            upstream_retries: Family::counter(
                "antwort_upstream_retries_total",
                "Retries of calls to providers.",
                &["provider"],
            ),
            provider_failures: provider_failures(),
            rejected: Family::counter(
                "antwort_rejected_total",
                "Requests rejected before their body was read, by reason.",
                &["reason"],
            ),
            webhook_deliveries: webhook_deliveries(),
            idempotency_keys: Family::counter(
                "antwort_idempotency_keys_total",
                "Creates with an idempotency key, by what the key has led to.",
                &["outcome"],
            ),
            queues: Queues::new(),
            bus: BusMetrics::new(),
            configuration: Configuration::new(),
            tools: ToolMetrics::new(),
            mcp: McpMetrics::new(),
            log_lines: LogLines::new(),
            process: ProcessMetrics::new(),
        };
        metrics.begin_at_zero();
        Arc::new(metrics)
    }

    fn begin_at_zero(&self) {
        self.runs_active.with(&[]);
        for (counter, values) in [(&self.rejected, &REFUSALS[..]), (&self.idempotency_keys, &KEY_OUTCOMES)] {
            values.iter().for_each(|value| _ = counter.with(&[value]));
        }
        for (status, mode) in STATUSES.iter().flat_map(|status| [JSON, STREAM].map(|mode| (status, mode))) {
            self.responses.with(&[status.as_str(), mode]);
        }
    }

    /// A run has begun.
    pub fn run_started(&self) {
        self.runs_active.with(&[]).add(1);
    }

    /// A run has ended with a response.
    pub fn run_ended(&self, report: &RunReport<'_>) {
        self.runs_active.with(&[]).add(-1);
        let mode = if report.stream { STREAM } else { JSON };
        self.responses.with(&[report.status.as_str(), mode]).add(1);
        self.inference.run_ended(report);
    }

    /// How many background runs wait to be made, the age of the oldest in seconds, and how many wait for answers.
    pub fn jobs(&self, queued: u64, oldest_seconds: i64, waiting: u64) {
        self.jobs.set(queued, oldest_seconds, waiting);
    }

    /// A run goes on in another process.
    pub fn run_given_back(&self) {
        self.runs_active.with(&[]).add(-1);
    }

    /// A run has ended in an HTTP error, before there was a response. If the request was not at fault, it counts as one that
    /// has failed.
    pub fn run_refused(&self, report: &RunReport<'_>, is_about_request: bool) {
        self.runs_active.with(&[]).add(-1);
        if !is_about_request {
            let mode = if report.stream { STREAM } else { JSON };
            self.responses.with(&[report.status.as_str(), mode]).add(1);
        }
        self.inference.run_refused(report);
    }

    /// A request was rejected before its body was read. `reason` has few values.
    pub fn request_rejected(&self, reason: &'static str) {
        self.rejected.with(&[reason]).add(1);
    }

    /// A try to deliver a notice to a configured webhook: `delivered`, `failed`, or `given_up`.
    pub fn webhook_delivery(&self, webhook: &str, outcome: &'static str) {
        self.webhook_deliveries.with(&[webhook, outcome]).add(1);
    }

    /// A configured webhook has series before its first notice.
    pub fn known_webhook(&self, webhook: &str) {
        DELIVERIES.iter().for_each(|outcome| _ = self.webhook_deliveries.with(&[webhook, outcome]));
    }

    /// A create with an idempotency key. `outcome` has few values.
    pub fn idempotency_key(&self, outcome: &'static str) {
        self.idempotency_keys.with(&[outcome]).add(1);
    }

    /// The configuration was reloaded, or could not be.
    pub fn config_reloaded(&self, success: bool) {
        self.configuration.reloaded(success);
    }

    /// A resource that requests share, and the reason for which they are rejected if it has no room.
    pub fn known_resource(&self, resource: &'static str, reason: &'static str) {
        self.queues.known(resource);
        self.rejected.with(&[reason]);
    }

    /// A request waits in the queue of a resource, of which there are few.
    pub fn queue_entered(&self, resource: &'static str) {
        self.queues.entered(resource);
    }

    /// It has left the queue: served, timed out or cancelled.
    pub fn queue_left(&self, resource: &'static str, waited: Duration) {
        self.queues.left(resource, waited);
    }

    /// A task for a large request has left the blocking thread pool. `outcome` has few values.
    pub fn blocking_task(&self, outcome: &'static str) {
        self.queues.blocking_task(outcome);
    }

    /// The bus has a connection, which it may lose.
    pub fn bus_connected(&self, change: i64) {
        self.bus.connected(change);
    }

    /// A signal could not be sent over the bus.
    pub fn bus_signal_lost(&self) {
        self.bus.signal_lost();
    }

    /// Changes the number of open client connections.
    pub fn connections(&self, more: i64) {
        self.http.connections(more);
    }

    /// Changes the number of open WebSocket connections.
    pub fn websocket_connections(&self, more: i64) {
        self.websocket.connections(more);
    }

    /// Changes the number of requests that wait on WebSocket connections.
    pub fn websocket_queued(&self, more: i64) {
        self.websocket.queued(more);
    }

    /// A request over WebSocket has ended. `ended` has few values.
    pub fn websocket_turn(&self, ended: &'static str) {
        self.websocket.turn(ended);
    }

    /// The gateway closed a connection. `reason` has few values.
    pub fn connection_closed(&self, reason: &'static str) {
        self.http.connection_closed(reason);
    }

    /// A request was served. `took`: until the response headers were sent. `route` is a pattern, not a path.
    pub fn http_request(&self, route: &str, method: &str, status: u16, took: Duration) {
        self.http.request(route, method, status, took);
    }

    /// A response was committed.
    pub fn store_commit(&self, took: Duration) {
        self.store.committed(took);
    }

    /// Whether responses can be stored.
    pub fn store_writable(&self, is_writable: bool) {
        self.store.writable(is_writable);
    }

    /// A configured provider has series before its first call.
    pub fn known_provider(&self, provider: &str) {
        self.upstream_retries.with(&[provider]);
    }

    /// A call to a provider is retried.
    pub fn upstream_retry(&self, provider: &str) {
        self.upstream_retries.with(&[provider]).add(1);
    }

    /// An attempt to call a provider failed. `kind` has few values.
    pub fn provider_failure(&self, provider: &str, kind: &'static str) {
        self.provider_failures.with(&[provider, kind]).add(1);
    }

    /// A tool call has ended. `executor` ran it, or would have; `outcome` has few values.
    pub fn tool_call(&self, tool: &str, executor: &str, outcome: &'static str, took: Duration) {
        self.tools.call(tool, executor, outcome, took);
    }

    /// An executor was asked to run a call, for the first time or as a retry.
    pub fn tool_attempt(&self, tool: &str, executor: &str) {
        self.tools.attempt(tool, executor);
    }

    /// A response was to follow the result of an asynchronous tool: `queued`, `stored` (its result is read by whoever
    /// continues), or `refused`.
    pub fn follow_up(&self, outcome: &'static str) {
        self.tools.follow_up(outcome);
    }

    /// A call of the model was refused: the request has no such tool, or does not allow it.
    pub fn refused_call(&self, code: &'static str) {
        self.tools.refused_call(code);
    }

    /// Function calls were left to the client.
    pub fn client_calls(&self, calls: usize) {
        self.tools.client_calls(calls);
    }

    /// Changes the number of open connections to MCP servers.
    pub fn mcp_sessions(&self, more: i64) {
        self.mcp.sessions(more);
    }

    /// Changes the number of calls to MCP servers in flight.
    pub fn mcp_calls_in_flight(&self, more: i64) {
        self.mcp.calls_in_flight(more);
    }

    /// A request needed the tool list of an MCP server: the configured one of this label, or one that the request brought.
    /// `outcome` has few values.
    pub fn mcp_list(&self, label: Option<&str>, outcome: &'static str) {
        self.mcp.list(label, outcome);
    }

    /// The cache of tool results was looked up, or bypassed. `result` has few values.
    pub fn tool_cache(&self, result: &'static str) {
        self.tools.cache(result);
    }

    /// Gives the models that a provider lists series of their own before their first response.
    pub fn known_models<'a>(&self, models: impl IntoIterator<Item = &'a str>) {
        self.inference.known_models(models);
    }

    /// The table of all metrics, with those that have no series yet.
    pub fn table(&self) -> Vec<Description> {
        self.families().iter().map(|family| family.describe()).collect()
    }

    /// All metrics in the text format of Prometheus, version 0.0.4.
    pub fn render(&self) -> String {
        let mut out = String::with_capacity(16 << 10);
        self.families().iter().for_each(|family| family.render(&mut out));
        out
    }

    fn families(&self) -> Vec<&dyn Exposed> {
        let own: [&dyn Exposed; 7] = [
            &self.responses,
            &self.runs_active,
            &self.rejected,
            &self.idempotency_keys,
            &self.webhook_deliveries,
            &self.upstream_retries,
            &self.provider_failures,
        ];
        own.into_iter()
            .chain(self.http.families())
            .chain(self.queues.families())
            .chain(self.bus.families())
            .chain(self.websocket.families())
            .chain(self.jobs.families())
            .chain(self.configuration.families())
            .chain(self.inference.families())
            .chain(self.tools.families())
            .chain(self.mcp.families())
            .chain(self.store.families())
            .chain(self.log_lines.families())
            .chain(self.process.families())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Metrics, RunReport};
    use antwort_protocol::response::{ResponseStatus, Usage};

    fn report(model: &str, status: ResponseStatus) -> RunReport<'_> {
        RunReport {
            provider: "vllm",
            model,
            status,
            stream: true,
            error_code: (status == ResponseStatus::Failed).then_some("upstream_error"),
            usage: Some(Usage {
                input_tokens: 10,
                output_tokens: 101,
                total_tokens: 111,
                ..Usage::default()
            }),
            duration: Duration::from_millis(2500),
            first_event: Some(Duration::from_millis(500)),
        }
    }

    #[test]
    fn a_run_is_counted_and_measured() {
        let metrics = Metrics::new();
        metrics.run_started();
        assert!(metrics.render().contains("\nantwort_runs_active 1\n"));
        metrics.run_ended(&report("qwen", ResponseStatus::Completed));
        let text = metrics.render();
        let labels =
            "gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"vllm\",gen_ai_request_model=\"qwen\"";
        for line in [
            "antwort_runs_active 0".to_owned(),
            "antwort_responses_total{status=\"completed\",mode=\"stream\"} 1".to_owned(),
            format!("gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type=\"output\"}} 101"),
            format!("gen_ai_client_operation_duration_seconds_bucket{{{labels},le=\"2.56\"}} 1"),
            format!("gen_ai_client_operation_duration_seconds_bucket{{{labels},le=\"1.28\"}} 0"),
            format!("gen_ai_server_time_to_first_token_seconds_sum{{{labels}}} 0.5"),
            format!("gen_ai_server_time_per_output_token_seconds_sum{{{labels}}} 0.02"),
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn invented_models_share_one_series() {
        let metrics = Metrics::new();
        for number in 0..1000 {
            metrics.run_started();
            metrics.run_ended(&report(&format!("invented-{number}"), ResponseStatus::Failed));
            metrics.run_started();
            let (model, code) = (format!("refused-{number}"), format!("code-{number}"));
            let refused = RunReport { error_code: Some(&code), ..report(&model, ResponseStatus::Failed) };
            metrics.run_refused(&refused, true);
        }
        let text = metrics.render();
        assert!(
            text.contains("gen_ai_request_model=\"other\",error_type=\"upstream_error\",le=\"+Inf\"} 1000")
        );
        assert!(!text.contains("invented-") && !text.contains("refused-") && !text.contains("code-999"));
        for number in 0..1000 {
            metrics.run_started();
            metrics.run_ended(&report(&format!("answered-{number}"), ResponseStatus::Completed));
        }
        let text = metrics.render();
        assert_eq!(text.matches("gen_ai_server_time_to_first_token_seconds_count").count(), 201);
    }

    #[test]
    fn invented_tools_share_one_series() {
        let metrics = Metrics::new();
        for number in 0..1000 {
            metrics.tool_call(&format!("tool-{number}"), "builtin", "ok", Duration::from_millis(3));
        }
        let text = metrics.render();
        assert!(
            text.contains("antwort_tool_calls_total{tool=\"other\",outcome=\"ok\",executor=\"local\"} 500\n"),
            "{text}"
        );
        assert!(
            text.contains("antwort_tool_duration_seconds_count{tool=\"tool-499\",executor=\"local\"} 1\n")
        );
        assert!(!text.contains("tool-500"));
    }

    #[test]
    fn requests_are_counted_by_route() {
        let metrics = Metrics::new();
        metrics.http_request("/v1/responses/{id}", "GET", 404, Duration::from_millis(3));
        metrics.http_request("/v1/responses/{id}", "BREW", 405, Duration::from_millis(3));
        let text = metrics.render();
        let line =
            "antwort_http_requests_total{route=\"/v1/responses/{id}\",method=\"GET\",status=\"404\"} 1\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("method=\"other\",status=\"405\""), "{text}");
        assert!(
            text.contains("antwort_http_request_duration_seconds_count{route=\"/v1/responses/{id}\"} 2\n")
        );
    }
}
