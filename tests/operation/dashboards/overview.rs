//! Is the gateway well, and if not, in which of its parts?

use super::panel::{Dashboard, Kind, Row, SHARES, heatmap, lines, panel, stacked, stat};

pub const DASHBOARD: Dashboard = Dashboard {
    name: "overview",
    title: "antwort: overview",
    description: "Is the gateway well, and if not, in which of its parts?",
    variables: &[],
    rows: &[NOW, RUNS, ADMISSION, HTTP, CONNECTIONS, STORE, BACKGROUND, PROCESS],
};

const NOW: Row = Row {
    title: "Now",
    panels: &[
        stat(
            "Gateways",
            "short",
            "Gateways that answer the scrape. If one is missing, look at its log: the last line says why it ended.",
            &[("count(antwort_build_info{})", "gateways")],
        ),
        stat(
            "Requests",
            "reqps",
            "HTTP requests a second, probes and scrapes with them.",
            &[("sum(rate(antwort_http_requests_total{}[$__rate_interval]))", "requests")],
        ),
        stat(
            "Runs in progress",
            "short",
            "Responses that are being made. At `server.max_runs` for each gateway further ones wait: see Admission.",
            &[("sum(antwort_runs_active{})", "runs")],
        ),
        stat(
            "Failed runs",
            "percentunit",
            "Share of runs that failed, whoever is at fault. The codes are in the row Runs.",
            &[(
                "(sum(rate(gen_ai_client_operation_duration_seconds_count{error_type!=\"\"}[$__rate_interval])) or vector(0))\n\
                 / sum(rate(gen_ai_client_operation_duration_seconds_count{}[$__rate_interval]))",
                "failed",
            )],
        )
        .thresholds(SHARES),
        stat(
            "First token, p95",
            "s",
            "Of streams, from the request to the model's first token. If it is high, compare the models on the dashboard Providers.",
            &[(
                "histogram_quantile(0.95, sum by (le) (rate(gen_ai_server_time_to_first_token_seconds_bucket{}[$__rate_interval])))",
                "p95",
            )],
        )
        .thresholds(&[(2.0, "yellow"), (5.0, "red")]),
        panel(
            Kind::Flag("writable", "not writable"),
            "Store",
            "short",
            "Whether all gateways can store responses. If not, `/readyz?verbose` says why: full, replaced, locked or unavailable.",
            &[("min(antwort_store_writable{})", "store")],
        ),
    ],
};

const RUNS: Row = Row {
    title: "Runs",
    panels: &[
        stacked(
            "Responses by status",
            "reqps",
            "How responses ended. Many `incomplete` ones: a limit of tokens, tools, cost or time stops them.",
            &[("sum by (status) (rate(antwort_responses_total{}[$__rate_interval]))", "{{status}}")],
        ),
        lines(
            "Failed runs by code",
            "reqps",
            "Codes that begin with `upstream_` are the provider's, `storage_` the database's; the others are mostly the request's.",
            &[(
                "sum by (error_type) (rate(gen_ai_client_operation_duration_seconds_count{error_type!=\"\"}[$__rate_interval]))",
                "{{error_type}}",
            )],
        ),
        heatmap(
            "Duration of runs",
            "s",
            "From the request to the end of the response, with all turns and tools. A second band far above the first is \
             mostly one slow model or tool.",
            &[(
                "sum by (le) (increase(gen_ai_client_operation_duration_seconds_bucket{}[$__rate_interval]))",
                "{{le}}",
            )],
        ),
        lines(
            "Runs in progress",
            "short",
            "By gateway. If one has far more than the others, the load balancer does not spread the requests.",
            &[("sum by (instance) (antwort_runs_active{})", "{{instance}}")],
        ),
        lines(
            "Runs that wait",
            "short",
            "Background responses that wait for the answer of a client or of an asynchronous tool, in the whole database. \
             They cost no memory; if it only grows, answers do not come.",
            &[("max(antwort_runs_waiting{})", "waiting for answers")],
        ),
        lines(
            "Creates with an idempotency key",
            "reqps",
            "`replayed` and `followed` are requests that were sent again, mostly after a lost connection; `reused` is a \
             client that sends another request with an old key, which is refused.",
            &[("sum by (outcome) (rate(antwort_idempotency_keys_total{}[$__rate_interval]))", "{{outcome}}")],
        ),
    ],
};

const ADMISSION: Row = Row {
    title: "Admission",
    panels: &[
        lines(
            "Waiting in queues",
            "short",
            "Requests that wait for a shared resource. `runs`: `server.max_runs` or a share of it is in use; bodies: \
             `server.max_buffered_body_bytes`. Add gateways, or raise the limit if there is memory.",
            &[("sum by (resource) (antwort_queue_waiting{})", "{{resource}}")],
        ),
        lines(
            "Time in queues, p95",
            "s",
            "Of requests that had to wait. They are refused after `server.queue_timeout`.",
            &[(
                "histogram_quantile(0.95, sum by (resource, le) (rate(antwort_queue_wait_seconds_bucket{}[$__rate_interval])))",
                "{{resource}}",
            )],
        ),
        lines(
            "Rejected requests",
            "reqps",
            "Refused with 503 for lack of room, or (`…_not_allowed`) as coming from a web page that may not. A page of your \
             own needs `server.cors.allowed_origins`.",
            &[("sum by (reason) (rate(antwort_rejected_total{}[$__rate_interval]))", "{{reason}}")],
        ),
    ],
};

const HTTP: Row = Row {
    title: "HTTP",
    panels: &[
        stacked(
            "Requests by status",
            "reqps",
            "4xx are the clients' mistakes, 502 to 504 mostly the provider's, other 5xx the gateway's. The access log names \
             the requests.",
            &[("sum by (status) (rate(antwort_http_requests_total{}[$__rate_interval]))", "{{status}}")],
        ),
        lines(
            "Server errors by route",
            "reqps",
            "Search the access log for the route and status; its `code` says what failed.",
            &[(
                "sum by (route, status) (rate(antwort_http_requests_total{status=~\"5..\"}[$__rate_interval]))",
                "{{route}} {{status}}",
            )],
        ),
        lines(
            "Time to headers by route, p95",
            "s",
            "Of a JSON response this is the whole run, of a stream the time to the first output (at most \
             `sse.commit_after`). Reads of the store should take milliseconds.",
            &[(
                "histogram_quantile(0.95, sum by (route, le) (rate(antwort_http_request_duration_seconds_bucket{}[$__rate_interval])))",
                "{{route}}",
            )],
        ),
    ],
};

const CONNECTIONS: Row = Row {
    title: "Connections",
    panels: &[
        lines(
            "Open connections",
            "short",
            "By gateway; WebSocket connections are part of all. At `server.max_connections` idle ones are closed for new ones.",
            &[
                ("sum by (instance) (antwort_connections{})", "{{instance}}, all"),
                ("sum by (instance) (antwort_websocket_connections{})", "{{instance}}, WebSocket"),
            ],
        ),
        lines(
            "Connections closed by the gateway",
            "cps",
            "`keep_alive_timeout` is usual. `max_connections`: raise the limit of open files. `write_timeout`: clients that \
             do not read.",
            &[("sum by (reason) (rate(antwort_connections_closed_total{}[$__rate_interval]))", "{{reason}}")],
        ),
        lines(
            "Requests over WebSocket",
            "reqps",
            "By how they ended. Many of `client_gone`: clients, or a proxy between, close the connection too early.",
            &[
                ("sum by (ended) (rate(antwort_websocket_turns_total{}[$__rate_interval]))", "{{ended}}"),
                ("sum(antwort_websocket_queued_turns{})", "waiting for the one before"),
            ],
        ),
    ],
};

const STORE: Row = Row {
    title: "Store",
    panels: &[
        lines(
            "Time per commit",
            "s",
            "A commit lies between the model's last token and the end of the response. If it is slow: the disk (SQLite), or \
             the database's load and the way to it (PostgreSQL).",
            &[
                (
                    "histogram_quantile(0.5, sum by (le) (rate(antwort_store_commit_seconds_bucket{}[$__rate_interval])))",
                    "p50",
                ),
                (
                    "histogram_quantile(0.99, sum by (le) (rate(antwort_store_commit_seconds_bucket{}[$__rate_interval])))",
                    "p99",
                ),
            ],
        ),
        lines(
            "Commits",
            "ops",
            "Stored responses a second, by gateway.",
            &[(
                "sum by (instance) (rate(antwort_store_commit_seconds_count{}[$__rate_interval]))",
                "{{instance}}",
            )],
        ),
        lines(
            "Store is writable",
            "short",
            "1 or 0, by gateway. At 0, requests that must be stored are refused; `/readyz?verbose` says why.",
            &[("min by (instance) (antwort_store_writable{})", "{{instance}}")],
        ),
    ],
};

const BACKGROUND: Row = Row {
    title: "Background responses and webhooks",
    panels: &[
        lines(
            "Queue of background responses",
            "short",
            "In the whole database. If it grows, there are too few workers: more processes of `role` all or worker, or a \
             higher `jobs.concurrency`.",
            &[("max(antwort_jobs_queued{})", "queued")],
        ),
        lines(
            "Age of the oldest one",
            "s",
            "If it only grows, nobody makes background responses: is a worker up, and does the model server answer?",
            &[("max(antwort_job_oldest_seconds{})", "oldest")],
        )
        .thresholds(&[(60.0, "yellow"), (300.0, "red")]),
        lines(
            "Notices to webhooks",
            "short",
            "`failed` ones are tried again, `given_up` ones are lost: look at the receiver, the log has its status.",
            &[(
                "sum by (webhook, outcome) (increase(antwort_webhook_deliveries_total{}[$__rate_interval]))",
                "{{webhook}} {{outcome}}",
            )],
        ),
    ],
};

const PROCESS: Row = Row {
    title: "Processes",
    panels: &[
        lines(
            "Time since the start",
            "s",
            "By gateway. A saw-tooth is a process that crashes or is killed: look for `fatal`, `panic`, and out of memory.",
            &[("time() - max by (instance) (process_start_time_seconds{})", "{{instance}}")],
        ),
        lines(
            "Versions",
            "short",
            "Gateways of each version. Two are usual during a rollout only.",
            &[("count by (version) (antwort_build_info{})", "{{version}}")],
        ),
        lines(
            "Configuration reloads",
            "short",
            "After a `failure` the old configuration is in force; the log has the key that is wrong.",
            &[(
                "sum by (outcome) (increase(antwort_config_reloads_total{}[$__rate_interval]))",
                "{{outcome}}",
            )],
        ),
        lines(
            "Age of the configuration",
            "s",
            "Since it was read. Gateways that differ have different configurations.",
            &[(
                "time() - max by (instance) (antwort_config_last_reload_success_timestamp_seconds{})",
                "{{instance}}",
            )],
        ),
        lines(
            "Log lines that were dropped",
            "short",
            "Standard error is not read fast enough, or cannot be written: look at what collects the log. `audit` lines go last.",
            &[(
                "sum by (instance, kind) (increase(antwort_log_lines_dropped_total{}[$__rate_interval]))",
                "{{instance}} {{kind}}",
            )],
        ),
        lines(
            "Bus between gateways",
            "short",
            "1 or 0, by gateway; nothing without a bus. At 0 the database is asked more often, and nothing fails.",
            &[("min by (instance) (antwort_bus_connected{})", "{{instance}}")],
        ),
        lines(
            "Signals that the bus lost",
            "short",
            "Others find out by asking the database, up to `bus.poll_interval` later.",
            &[(
                "sum by (instance) (increase(antwort_bus_signals_lost_total{}[$__rate_interval]))",
                "{{instance}}",
            )],
        ),
    ],
};
