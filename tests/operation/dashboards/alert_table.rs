//! What is worth waking somebody for, or worth a look today.

use super::alerts::Alert;

/// Series of a gateway that is well: no alert fires with them.
pub const WELL: &[(&str, &str)] = &[
    ("up{job=\"antwort\",instance=\"a\"}", "1x120"),
    ("antwort_build_info{job=\"antwort\",instance=\"a\",version=\"1\"}", "1x120"),
    ("process_start_time_seconds{job=\"antwort\",instance=\"a\"}", "1000x120"),
    ("antwort_store_writable{job=\"antwort\",instance=\"a\"}", "1x120"),
    ("antwort_bus_connected{job=\"antwort\",instance=\"a\"}", "1x120"),
    ("antwort_job_oldest_seconds{job=\"antwort\",instance=\"a\"}", "3x120"),
    ("antwort_rejected_total{job=\"antwort\",instance=\"a\",reason=\"max_runs\"}", "7x120"),
    (
        "antwort_http_requests_total{job=\"antwort\",instance=\"a\",route=\"/v1/responses\",method=\"POST\",status=\"200\"}",
        "0+600x120",
    ),
    (
        "antwort_http_requests_total{job=\"antwort\",instance=\"a\",route=\"/v1/responses\",method=\"POST\",status=\"500\"}",
        "0+1x120",
    ),
    (
        "gen_ai_client_operation_duration_seconds_count{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\"}",
        "0+600x120",
    ),
    (
        "gen_ai_client_operation_duration_seconds_count{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\",error_type=\"upstream_error\"}",
        "0+1x120",
    ),
    (
        "antwort_tool_calls_total{job=\"antwort\",instance=\"a\",tool=\"t\",executor=\"local\",outcome=\"ok\"}",
        "0+60x120",
    ),
    (
        "antwort_tool_calls_total{job=\"antwort\",instance=\"a\",tool=\"t\",executor=\"local\",outcome=\"tool_timeout\"}",
        "0+1x120",
    ),
    (
        "antwort_webhook_deliveries_total{job=\"antwort\",instance=\"a\",webhook=\"w\",outcome=\"delivered\"}",
        "0+60x120",
    ),
    (
        "antwort_webhook_deliveries_total{job=\"antwort\",instance=\"a\",webhook=\"w\",outcome=\"failed\"}",
        "0+1x120",
    ),
    (
        "antwort_webhook_deliveries_total{job=\"antwort\",instance=\"a\",webhook=\"w\",outcome=\"given_up\"}",
        "0x120",
    ),
    ("antwort_config_reloads_total{job=\"antwort\",instance=\"a\",outcome=\"failure\"}", "0x120"),
    ("antwort_log_lines_dropped_total{job=\"antwort\",instance=\"a\",kind=\"audit\"}", "3x120"),
    ("antwort_log_lines_dropped_total{job=\"antwort\",instance=\"a\",kind=\"access\"}", "0+60x120"),
];

pub const ALERTS: &[Alert] = &[
    Alert {
        name: "AntwortDown",
        severity: "critical",
        lasting: "2m",
        when: &[
            ("up{}", "== 0"),
            ("max by (job, instance) (last_over_time(antwort_build_info{}[1h]))", "== 1"),
        ],
        on: "job, instance",
        summary: "The gateway {{ $labels.instance }} does not answer the scrape.",
        description: "Prometheus has not reached it for two minutes, and did within the last hour.",
        fires_with: &[
            ("up{job=\"antwort\",instance=\"a\"}", "1x5 0x40"),
            ("antwort_build_info{job=\"antwort\",instance=\"a\",version=\"1\"}", "1x5 stale"),
        ],
    },
    Alert {
        name: "AntwortRestarting",
        severity: "critical",
        lasting: "0m",
        when: &[("changes(process_start_time_seconds{}[30m])", "> 2"), ("antwort_build_info{}", "== 1")],
        on: "job, instance",
        summary: "The gateway {{ $labels.instance }} has restarted {{ $value }} times within half an hour.",
        description: "It crashes, is killed, or is never ready in time.",
        fires_with: &[
            ("process_start_time_seconds{job=\"antwort\",instance=\"a\"}", "100x15 200x5 300x5 400x40"),
            ("antwort_build_info{job=\"antwort\",instance=\"a\",version=\"1\"}", "1x60"),
        ],
    },
    Alert {
        name: "AntwortStoreNotWritable",
        severity: "critical",
        lasting: "1m",
        when: &[("antwort_store_writable{}", "== 0")],
        on: "",
        summary: "The gateway {{ $labels.instance }} cannot store responses.",
        description: "Requests that must be stored are refused with 503: the disk is full, or the database is away, locked or replaced.",
        fires_with: &[("antwort_store_writable{job=\"antwort\",instance=\"a\"}", "1x5 0x60")],
    },
    Alert {
        name: "AntwortServerErrors",
        severity: "critical",
        lasting: "5m",
        when: &[(
            "sum by (job) (rate(antwort_http_requests_total{status=~\"5..\"}[5m]))\n/ sum by (job) (rate(antwort_http_requests_total{}[5m]))",
            "> 0.05",
        )],
        on: "",
        summary: "{{ $value | humanizePercentage }} of all requests to {{ $labels.job }} are answered with a 5xx.",
        description: "502 to 504 are mostly the provider's, 503 also a lack of room or of the database, 500 the gateway's.",
        fires_with: &[
            (
                "antwort_http_requests_total{job=\"antwort\",instance=\"a\",route=\"/v1/responses\",method=\"POST\",status=\"200\"}",
                "0+60x60",
            ),
            (
                "antwort_http_requests_total{job=\"antwort\",instance=\"a\",route=\"/v1/responses\",method=\"POST\",status=\"502\"}",
                "0+6x60",
            ),
        ],
    },
    Alert {
        name: "AntwortRunsFailing",
        severity: "warning",
        lasting: "10m",
        when: &[(
            "sum by (job) (rate(gen_ai_client_operation_duration_seconds_count{error_type!=\"\"}[5m]))\n/ sum by (job) (rate(gen_ai_client_operation_duration_seconds_count{}[5m]))",
            "> 0.1",
        )],
        on: "",
        summary: "{{ $value | humanizePercentage }} of the runs of {{ $labels.job }} fail.",
        description: "Whoever is at fault: provider, tools, database or requests. Streams that fail have the HTTP status 200 and are counted here only.",
        fires_with: &[
            (
                "gen_ai_client_operation_duration_seconds_count{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\"}",
                "0+60x60",
            ),
            (
                "gen_ai_client_operation_duration_seconds_count{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\",error_type=\"context_length_exceeded\"}",
                "0+20x60",
            ),
        ],
    },
    Alert {
        name: "AntwortProviderFailing",
        severity: "critical",
        lasting: "5m",
        when: &[(
            "sum by (job, gen_ai_provider_name) (rate(gen_ai_client_operation_duration_seconds_count{error_type=~\"%upstream\"}[5m]))\n/ sum by (job, gen_ai_provider_name) (rate(gen_ai_client_operation_duration_seconds_count{}[5m]))",
            "> 0.25",
        )],
        on: "",
        summary: "{{ $value | humanizePercentage }} of the runs with the provider {{ $labels.gen_ai_provider_name }} fail.",
        description: "After all retries, and for reasons that lie with the provider or on the way to it.",
        fires_with: &[
            (
                "gen_ai_client_operation_duration_seconds_count{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\"}",
                "0+60x60",
            ),
            (
                "gen_ai_client_operation_duration_seconds_count{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\",error_type=\"upstream_unavailable\"}",
                "0+40x60",
            ),
        ],
    },
    Alert {
        name: "AntwortProviderRefusesKey",
        severity: "critical",
        lasting: "5m",
        when: &[(
            "sum by (job, provider) (rate(antwort_provider_failures_total{kind=\"credentials\"}[5m]))",
            "> 0",
        )],
        on: "",
        summary: "The provider {{ $labels.provider }} refuses the gateway's key.",
        description: "It answers with 401, 402, 403 or 407: the key has expired, was withdrawn, or has no credit.",
        fires_with: &[(
            "antwort_provider_failures_total{job=\"antwort\",instance=\"a\",provider=\"p\",kind=\"credentials\"}",
            "0+1x60",
        )],
    },
    Alert {
        name: "AntwortProviderLimitsRate",
        severity: "warning",
        lasting: "15m",
        when: &[(
            "sum by (job, provider) (rate(antwort_provider_failures_total{kind=\"rate_limit\"}[5m]))",
            "> 0.1",
        )],
        on: "",
        summary: "The provider {{ $labels.provider }} answers {{ $value | humanize }} calls a second with 429.",
        description: "The gateway retries them, which costs time; those that fail in the end are errors of clients.",
        fires_with: &[(
            "antwort_provider_failures_total{job=\"antwort\",instance=\"a\",provider=\"p\",kind=\"rate_limit\"}",
            "0+60x60",
        )],
    },
    Alert {
        name: "AntwortFirstTokenSlow",
        severity: "warning",
        lasting: "15m",
        when: &[
            (
                "histogram_quantile(0.95, sum by (job, gen_ai_provider_name, gen_ai_request_model, le) (rate(gen_ai_server_time_to_first_token_seconds_bucket{}[10m])))",
                "> 5",
            ),
            (
                "sum by (job, gen_ai_provider_name, gen_ai_request_model) (increase(gen_ai_server_time_to_first_token_seconds_count{}[10m]))",
                "> 20",
            ),
        ],
        on: "",
        summary: "One in twenty streams of {{ $labels.gen_ai_request_model }} at {{ $labels.gen_ai_provider_name }} waits {{ $value | humanizeDuration }} or longer for its first token.",
        description: "The model server has more requests than places, loads the model, or prompts became longer.",
        fires_with: &[
            (
                "gen_ai_server_time_to_first_token_seconds_bucket{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\",le=\"5\"}",
                "0+10x60",
            ),
            (
                "gen_ai_server_time_to_first_token_seconds_bucket{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\",le=\"7.5\"}",
                "0+60x60",
            ),
            (
                "gen_ai_server_time_to_first_token_seconds_bucket{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\",le=\"+Inf\"}",
                "0+60x60",
            ),
            (
                "gen_ai_server_time_to_first_token_seconds_count{job=\"antwort\",instance=\"a\",gen_ai_provider_name=\"p\",gen_ai_request_model=\"m\"}",
                "0+60x60",
            ),
        ],
    },
    Alert {
        name: "AntwortRequestsRejected",
        severity: "critical",
        lasting: "5m",
        when: &[(
            "sum by (job, reason) (rate(antwort_rejected_total{reason!~\"draining|host_not_allowed|origin_not_allowed\"}[5m]))",
            "> 0",
        )],
        on: "",
        summary: "{{ $labels.job }} rejects {{ $value | humanize }} requests a second: no room ({{ $labels.reason }}).",
        description: "They waited for `server.queue_timeout`, or the queue was full, and got 503 with `Retry-After`.",
        fires_with: &[(
            "antwort_rejected_total{job=\"antwort\",instance=\"a\",reason=\"max_runs\"}",
            "0+6x60",
        )],
    },
    Alert {
        name: "AntwortQueueSlow",
        severity: "warning",
        lasting: "10m",
        when: &[(
            "histogram_quantile(0.95, sum by (job, resource, le) (rate(antwort_queue_wait_seconds_bucket{}[5m])))",
            "> 1",
        )],
        on: "",
        summary: "Requests to {{ $labels.job }} wait {{ $value | humanizeDuration }} for {{ $labels.resource }}.",
        description: "A shared resource is in use, and requests queue for it. Soon they will be rejected.",
        fires_with: &[
            (
                "antwort_queue_wait_seconds_bucket{job=\"antwort\",instance=\"a\",resource=\"runs\",le=\"1\"}",
                "0+10x60",
            ),
            (
                "antwort_queue_wait_seconds_bucket{job=\"antwort\",instance=\"a\",resource=\"runs\",le=\"5\"}",
                "0+60x60",
            ),
            (
                "antwort_queue_wait_seconds_bucket{job=\"antwort\",instance=\"a\",resource=\"runs\",le=\"+Inf\"}",
                "0+60x60",
            ),
        ],
    },
    Alert {
        name: "AntwortConnectionLimit",
        severity: "warning",
        lasting: "10m",
        when: &[(
            "sum by (job, instance) (rate(antwort_connections_closed_total{reason=\"max_connections\"}[5m]))",
            "> 0",
        )],
        on: "",
        summary: "The gateway {{ $labels.instance }} closes idle connections to make room for new ones.",
        description: "It has reached `server.max_connections`. If all connections are busy, new clients wait.",
        fires_with: &[(
            "antwort_connections_closed_total{job=\"antwort\",instance=\"a\",reason=\"max_connections\"}",
            "0+6x60",
        )],
    },
    Alert {
        name: "AntwortCommitsSlow",
        severity: "warning",
        lasting: "10m",
        when: &[(
            "histogram_quantile(0.99, sum by (job, instance, le) (rate(antwort_store_commit_seconds_bucket{}[5m])))",
            "> 0.5",
        )],
        on: "",
        summary: "Commits of {{ $labels.instance }} take {{ $value | humanizeDuration }}.",
        description: "Each lies between the last token of a response and its end, and before each tool call.",
        fires_with: &[
            ("antwort_store_commit_seconds_bucket{job=\"antwort\",instance=\"a\",le=\"0.5\"}", "0+10x60"),
            ("antwort_store_commit_seconds_bucket{job=\"antwort\",instance=\"a\",le=\"1\"}", "0+60x60"),
            ("antwort_store_commit_seconds_bucket{job=\"antwort\",instance=\"a\",le=\"+Inf\"}", "0+60x60"),
        ],
    },
    Alert {
        name: "AntwortBackgroundStuck",
        severity: "critical",
        lasting: "5m",
        when: &[("max by (job) (antwort_job_oldest_seconds{})", "> 300")],
        on: "",
        summary: "A background response has waited {{ $value | humanizeDuration }} for a worker.",
        description: "No process of `role` all or worker makes it: there are none, too few, or they are full.",
        fires_with: &[("antwort_job_oldest_seconds{job=\"antwort\",instance=\"a\"}", "0+60x60")],
    },
    Alert {
        name: "AntwortWebhookGaveUp",
        severity: "critical",
        lasting: "0m",
        when: &[(
            "sum by (job, webhook) (increase(antwort_webhook_deliveries_total{outcome=\"given_up\"}[1h]))",
            "> 0",
        )],
        on: "",
        summary: "Notices to the webhook {{ $labels.webhook }} were lost: {{ $value | humanize }} within an hour.",
        description: "The receiver refused them until the last attempt, or answered 410. They are not sent again.",
        fires_with: &[(
            "antwort_webhook_deliveries_total{job=\"antwort\",instance=\"a\",webhook=\"w\",outcome=\"given_up\"}",
            "0x20 1x40",
        )],
    },
    Alert {
        name: "AntwortWebhookFailing",
        severity: "warning",
        lasting: "15m",
        when: &[(
            "sum by (job, webhook) (rate(antwort_webhook_deliveries_total{outcome=\"failed\"}[10m]))\n/ sum by (job, webhook) (rate(antwort_webhook_deliveries_total{}[10m]))",
            "> 0.5",
        )],
        on: "",
        summary: "{{ $value | humanizePercentage }} of the notices to the webhook {{ $labels.webhook }} are not delivered.",
        description: "They wait in the database and are tried again; the log has the receiver's status.",
        fires_with: &[
            (
                "antwort_webhook_deliveries_total{job=\"antwort\",instance=\"a\",webhook=\"w\",outcome=\"failed\"}",
                "0+6x60",
            ),
            (
                "antwort_webhook_deliveries_total{job=\"antwort\",instance=\"a\",webhook=\"w\",outcome=\"delivered\"}",
                "0x60",
            ),
        ],
    },
    Alert {
        name: "AntwortToolUnavailable",
        severity: "warning",
        lasting: "5m",
        when: &[(
            "sum by (job, executor) (rate(antwort_tool_calls_total{outcome=\"tool_unavailable\"}[5m]))\n/ sum by (job, executor) (rate(antwort_tool_calls_total{}[5m]))",
            "> 0.25",
        )],
        on: "",
        summary: "{{ $value | humanizePercentage }} of the calls to {{ $labels.executor }} do not reach it.",
        description: "It cannot be connected to, or its circuit is open after several such failures. The model gets an error and goes on without it.",
        fires_with: &[
            (
                "antwort_tool_calls_total{job=\"antwort\",instance=\"a\",tool=\"t\",executor=\"mcp:docs\",outcome=\"ok\"}",
                "0+6x60",
            ),
            (
                "antwort_tool_calls_total{job=\"antwort\",instance=\"a\",tool=\"t\",executor=\"mcp:docs\",outcome=\"tool_unavailable\"}",
                "0+6x60",
            ),
        ],
    },
    Alert {
        name: "AntwortToolFailing",
        severity: "warning",
        lasting: "15m",
        when: &[
            (
                "sum by (job, executor) (rate(antwort_tool_calls_total{outcome=~\"error|invalid_result|tool_(execution_failed|panicked|timeout)\"}[10m]))\n/ sum by (job, executor) (rate(antwort_tool_calls_total{}[10m]))",
                "> 0.25",
            ),
            ("sum by (job, executor) (increase(antwort_tool_calls_total{}[10m]))", "> 20"),
        ],
        on: "",
        summary: "{{ $value | humanizePercentage }} of the calls to {{ $labels.executor }} fail.",
        description: "It is reached, but answers with errors, too late, or with results that do not match its schema.",
        fires_with: &[
            (
                "antwort_tool_calls_total{job=\"antwort\",instance=\"a\",tool=\"t\",executor=\"mcp:docs\",outcome=\"ok\"}",
                "0+6x60",
            ),
            (
                "antwort_tool_calls_total{job=\"antwort\",instance=\"a\",tool=\"t\",executor=\"mcp:docs\",outcome=\"tool_timeout\"}",
                "0+6x60",
            ),
        ],
    },
    Alert {
        name: "AntwortMcpServerDown",
        severity: "warning",
        lasting: "5m",
        when: &[(
            "sum by (job, executor) (rate(antwort_mcp_lists_total{executor!=\"mcp:request\",outcome!=\"ok\"}[5m]))\n/ sum by (job, executor) (rate(antwort_mcp_lists_total{executor!=\"mcp:request\"}[5m]))",
            "> 0.5",
        )],
        on: "",
        summary: "{{ $labels.executor }} does not list its tools for {{ $value | humanizePercentage }} of the requests.",
        description: "Requests go on with an older list or without its tools, or fail if the server is `required`.",
        fires_with: &[
            (
                "antwort_mcp_lists_total{job=\"antwort\",instance=\"a\",executor=\"mcp:docs\",outcome=\"ok\"}",
                "5x60",
            ),
            (
                "antwort_mcp_lists_total{job=\"antwort\",instance=\"a\",executor=\"mcp:docs\",outcome=\"failed\"}",
                "0+6x60",
            ),
        ],
    },
    Alert {
        name: "AntwortBusDisconnected",
        severity: "warning",
        lasting: "10m",
        when: &[("antwort_bus_connected{}", "== 0")],
        on: "",
        summary: "The gateway {{ $labels.instance }} has lost the bus to the other gateways.",
        description: "Nothing fails: the database is asked every `bus.poll_interval`. Cancelling and following become slower.",
        fires_with: &[("antwort_bus_connected{job=\"antwort\",instance=\"a\"}", "1x5 0x60")],
    },
    Alert {
        name: "AntwortReloadFailed",
        severity: "warning",
        lasting: "0m",
        when: &[(
            "sum by (job, instance) (increase(antwort_config_reloads_total{outcome=\"failure\"}[1h]))",
            "> 0",
        )],
        on: "",
        summary: "The gateway {{ $labels.instance }} has refused a new configuration.",
        description: "The old one is in force. At the next restart the gateway would not start.",
        fires_with: &[(
            "antwort_config_reloads_total{job=\"antwort\",instance=\"a\",outcome=\"failure\"}",
            "0x20 1x40",
        )],
    },
    Alert {
        name: "AntwortAuditLinesLost",
        severity: "warning",
        lasting: "0m",
        when: &[(
            "sum by (job, instance) (increase(antwort_log_lines_dropped_total{kind=\"audit\"}[1h]))",
            "> 0",
        )],
        on: "",
        summary: "The gateway {{ $labels.instance }} has lost lines of its audit log: {{ $value | humanize }} within an hour.",
        description: "Standard error is not read, or cannot be written. Audit lines are lost last: others are lost, too.",
        fires_with: &[(
            "antwort_log_lines_dropped_total{job=\"antwort\",instance=\"a\",kind=\"audit\"}",
            "0x20 1x40",
        )],
    },
    Alert {
        name: "AntwortVersionsDiffer",
        severity: "warning",
        lasting: "1h",
        when: &[("count by (job) (count by (job, version) (antwort_build_info{}))", "> 1")],
        on: "",
        summary: "The gateways of {{ $labels.job }} have run {{ $value }} versions for an hour.",
        description: "A rollout has stopped halfway.",
        fires_with: &[
            ("antwort_build_info{job=\"antwort\",instance=\"a\",version=\"1\"}", "1x120"),
            ("antwort_build_info{job=\"antwort\",instance=\"b\",version=\"2\"}", "1x120"),
        ],
    },
];
