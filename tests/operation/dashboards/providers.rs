//! Which provider or model is slow, fails, or costs most tokens?

use super::panel::{Dashboard, Kind, Row, SHARES, Variable, heatmap, lines, panel, stacked, stat};

pub const DASHBOARD: Dashboard = Dashboard {
    name: "providers",
    title: "antwort: providers",
    description: "Which provider or model is slow, fails, or uses most tokens?",
    variables: &[
        Variable {
            name: "provider",
            title: "Provider",
            query: "label_values(gen_ai_client_operation_duration_seconds_count, gen_ai_provider_name)",
        },
        Variable {
            name: "model",
            title: "Model",
            query: "label_values(gen_ai_client_operation_duration_seconds_count{gen_ai_provider_name=~\"$provider\"}, gen_ai_request_model)",
        },
    ],
    rows: &[NOW, SPEED, FAILURES, TOKENS],
};

const NOW: Row = Row {
    title: "Now",
    panels: &[
        stat(
            "Runs",
            "reqps",
            "Runs that ended, a second.",
            &[("sum(rate(gen_ai_client_operation_duration_seconds_count{%model}[$__rate_interval]))", "runs")],
        ),
        stat(
            "Failed runs",
            "percentunit",
            "Share of runs that failed, after all retries. The row Failures has the codes.",
            &[(
                "(sum(rate(gen_ai_client_operation_duration_seconds_count{%model,error_type!=\"\"}[$__rate_interval])) or vector(0))\n\
                 / sum(rate(gen_ai_client_operation_duration_seconds_count{%model}[$__rate_interval]))",
                "failed",
            )],
        )
        .thresholds(SHARES),
        stat(
            "First token, p50",
            "s",
            "Of streams, from the request to the first token.",
            &[(
                "histogram_quantile(0.5, sum by (le) (rate(gen_ai_server_time_to_first_token_seconds_bucket{%model}[$__rate_interval])))",
                "p50",
            )],
        ),
        stat(
            "Speed of a stream, p50",
            "short",
            "Output tokens a second of one stream, after the first. If it falls while runs increase, the model server is at \
             its limit.",
            &[(
                "1 / histogram_quantile(0.5, sum by (le) (rate(gen_ai_server_time_per_output_token_seconds_bucket{%model}[$__rate_interval])))",
                "tokens/s",
            )],
        ),
        stat(
            "Input tokens",
            "short",
            "A second, cached ones with them.",
            &[(
                "sum(rate(gen_ai_client_token_usage_sum{%model,gen_ai_token_type=\"input\"}[$__rate_interval]))",
                "tokens/s",
            )],
        ),
        stat(
            "Output tokens",
            "short",
            "A second.",
            &[(
                "sum(rate(gen_ai_client_token_usage_sum{%model,gen_ai_token_type=\"output\"}[$__rate_interval]))",
                "tokens/s",
            )],
        ),
    ],
};

const SPEED: Row = Row {
    title: "Speed",
    panels: &[
        lines(
            "First token, p95",
            "s",
            "By model. All models of one provider are slow: its queue or the network. One model only: it is being loaded, \
             or its prompts became longer (see Tokens).",
            &[(
                "histogram_quantile(0.95, sum by (gen_ai_provider_name, gen_ai_request_model, le) (rate(gen_ai_server_time_to_first_token_seconds_bucket{%model}[$__rate_interval])))",
                "{{gen_ai_provider_name}} {{gen_ai_request_model}}",
            )],
        )
        .thresholds(&[(2.0, "yellow"), (5.0, "red")]),
        lines(
            "Time per output token, p50",
            "s",
            "After the first. It rises with the number of streams that the model server makes at a time.",
            &[(
                "histogram_quantile(0.5, sum by (gen_ai_provider_name, gen_ai_request_model, le) (rate(gen_ai_server_time_per_output_token_seconds_bucket{%model}[$__rate_interval])))",
                "{{gen_ai_provider_name}} {{gen_ai_request_model}}",
            )],
        ),
        lines(
            "Duration of runs, p95",
            "s",
            "With all turns and tools. If it rises and the first token does not, answers became longer, or tools slow.",
            &[(
                "histogram_quantile(0.95, sum by (gen_ai_provider_name, gen_ai_request_model, le) (rate(gen_ai_client_operation_duration_seconds_bucket{%model}[$__rate_interval])))",
                "{{gen_ai_provider_name}} {{gen_ai_request_model}}",
            )],
        ),
        heatmap(
            "First token",
            "s",
            "A second band far above the first: some requests wait for a place in the model server, or for a retry.",
            &[(
                "sum by (le) (increase(gen_ai_server_time_to_first_token_seconds_bucket{%model}[$__rate_interval]))",
                "{{le}}",
            )],
        )
        .wide(12),
        heatmap(
            "Time per output token",
            "s",
            "Of the streams that ended.",
            &[(
                "sum by (le) (increase(gen_ai_server_time_per_output_token_seconds_bucket{%model}[$__rate_interval]))",
                "{{le}}",
            )],
        )
        .wide(12),
    ],
};

const FAILURES: Row = Row {
    title: "Failures",
    panels: &[
        lines(
            "Failed calls by kind",
            "reqps",
            "Each attempt counts. `credentials`: the key is wrong or has no credit. `rate_limit`: too many requests. \
             `connect…`, `name_not_found`, `tls`, `proxy`: the network. `status_4xx`, `context_length`: the request's fault.",
            &[(
                "sum by (provider, kind) (rate(antwort_provider_failures_total{provider=~\"$provider\"}[$__rate_interval]))",
                "{{provider}} {{kind}}",
            )],
        ),
        lines(
            "Retries",
            "reqps",
            "Calls that were made again. Retries without failed runs: clients notice only the delay.",
            &[(
                "sum by (provider) (rate(antwort_upstream_retries_total{provider=~\"$provider\"}[$__rate_interval]))",
                "{{provider}}",
            )],
        ),
        lines(
            "Failed runs by code",
            "reqps",
            "What clients got. The codes are explained in the documentation of errors; the log line `the provider failed` \
             has the cause.",
            &[(
                "sum by (gen_ai_provider_name, error_type) (rate(gen_ai_client_operation_duration_seconds_count{%model,error_type!=\"\"}[$__rate_interval]))",
                "{{gen_ai_provider_name}} {{error_type}}",
            )],
        ),
    ],
};

const TOKENS: Row = Row {
    title: "Tokens",
    panels: &[
        stacked(
            "Input tokens by model",
            "short",
            "A second, as the provider counts. Steps up without more runs: prompts, histories or tool lists became longer.",
            &[(
                "sum by (gen_ai_request_model) (rate(gen_ai_client_token_usage_sum{%model,gen_ai_token_type=\"input\"}[$__rate_interval]))",
                "{{gen_ai_request_model}}",
            )],
        ),
        stacked(
            "Output tokens by model",
            "short",
            "A second, as the provider counts, with those of the reasoning.",
            &[(
                "sum by (gen_ai_request_model) (rate(gen_ai_client_token_usage_sum{%model,gen_ai_token_type=\"output\"}[$__rate_interval]))",
                "{{gen_ai_request_model}}",
            )],
        ),
        heatmap(
            "Input tokens of a response",
            "short",
            "Sum of all its turns. The largest ones are long conversations or large tool results: consider compaction.",
            &[(
                "sum by (le) (increase(gen_ai_client_token_usage_bucket{%model,gen_ai_token_type=\"input\"}[$__rate_interval]))",
                "{{le}}",
            )],
        ),
        panel(
            Kind::Table,
            "Models in this time",
            "short",
            "Who uses what, and who fails. Sort by a column.",
            &[
                (
                    "sum by (gen_ai_provider_name, gen_ai_request_model) (increase(gen_ai_client_operation_duration_seconds_count{%model}[$__range]))",
                    "Runs",
                ),
                (
                    "sum by (gen_ai_provider_name, gen_ai_request_model) (increase(gen_ai_client_operation_duration_seconds_count{%model,error_type!=\"\"}[$__range]))",
                    "Failed",
                ),
                (
                    "sum by (gen_ai_provider_name, gen_ai_request_model) (increase(gen_ai_client_token_usage_sum{%model,gen_ai_token_type=\"input\"}[$__range]))",
                    "Input tokens",
                ),
                (
                    "sum by (gen_ai_provider_name, gen_ai_request_model) (increase(gen_ai_client_token_usage_sum{%model,gen_ai_token_type=\"output\"}[$__range]))",
                    "Output tokens",
                ),
                (
                    "histogram_quantile(0.95, sum by (gen_ai_provider_name, gen_ai_request_model, le) (rate(gen_ai_server_time_to_first_token_seconds_bucket{%model}[$__range])))",
                    "First token, p95 in s",
                ),
            ],
        ),
    ],
};
