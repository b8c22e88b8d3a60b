//! Which tool or MCP server is slow, fails, or is gone?

use super::panel::{Dashboard, Kind, Row, SHARES, Variable, heatmap, lines, panel, stacked, stat};

pub const DASHBOARD: Dashboard = Dashboard {
    name: "tools-and-mcp",
    title: "antwort: tools and MCP",
    description: "Which tool or MCP server is slow, fails, or is gone?",
    variables: &[
        Variable {
            name: "executor",
            title: "Executor",
            query: "label_values(antwort_tool_calls_total, executor)",
        },
        Variable {
            name: "tool",
            title: "Tool",
            query: "label_values(antwort_tool_calls_total{executor=~\"$executor\"}, tool)",
        },
    ],
    rows: &[NOW, CALLS, SPEED, MCP, EACH],
};

const NOW: Row = Row {
    title: "Now",
    panels: &[
        stat(
            "Calls",
            "reqps",
            "Calls of tools a second, functions of clients with them.",
            &[("sum(rate(antwort_tool_calls_total{%tool}[$__rate_interval]))", "calls")],
        ),
        stat(
            "Failed calls",
            "percentunit",
            "Share of calls that ended in an error, whether the model's, the tool's or the network's.",
            &[(
                "(sum(rate(antwort_tool_calls_total{%tool,outcome!~\"%fine\"}[$__rate_interval])) or vector(0))\n\
                 / sum(rate(antwort_tool_calls_total{%tool}[$__rate_interval]))",
                "failed",
            )],
        )
        .thresholds(SHARES),
        stat(
            "Duration, p95",
            "s",
            "From a call to its result, with waiting and retries.",
            &[(
                "histogram_quantile(0.95, sum by (le) (rate(antwort_tool_duration_seconds_bucket{%tool}[$__rate_interval])))",
                "p95",
            )],
        )
        .thresholds(&[(5.0, "yellow"), (30.0, "red")]),
        stat(
            "Answered from the cache",
            "percentunit",
            "Of the calls that looked there.",
            &[(
                "sum(rate(antwort_tool_cache_total{result=\"hit\"}[$__rate_interval]))\n\
                 / sum(rate(antwort_tool_cache_total{result=~\"hit|miss\"}[$__rate_interval]))",
                "hits",
            )],
        ),
        stat(
            "MCP sessions",
            "short",
            "Open connections to MCP servers. At `mcp.sessions.max` requests wait.",
            &[("sum(antwort_mcp_sessions{})", "sessions")],
        ),
        stat(
            "MCP calls in flight",
            "short",
            "If it does not return to zero when idle, a server does not answer.",
            &[("sum(antwort_mcp_calls_in_flight{})", "calls")],
        ),
    ],
};

const CALLS: Row = Row {
    title: "Calls",
    panels: &[
        stacked(
            "Calls by executor",
            "reqps",
            "`local`: built-in tools; `mcp:<label>`: a configured server; `mcp:request`: servers of requests; `client`: \
             functions that clients run themselves.",
            &[(
                "sum by (executor) (rate(antwort_tool_calls_total{%tool}[$__rate_interval]))",
                "{{executor}}",
            )],
        ),
        lines(
            "Failed calls by outcome",
            "reqps",
            "`tool_unavailable`: not reached, or its circuit is open. `tool_timeout`: `tools.timeout` or the server's. \
             `invalid_arguments`, `tool_not_found`: the model's mistakes; a clearer description helps. `access_denied`, \
             `domain_not_allowed`: your policy. `error`: the tool itself says so.",
            &[(
                "sum by (executor, outcome) (rate(antwort_tool_calls_total{%tool,outcome!~\"%fine\"}[$__rate_interval]))",
                "{{executor}} {{outcome}}",
            )],
        ),
        lines(
            "Cache of results",
            "reqps",
            "`bypass`: tools that are not cached.",
            &[("sum by (result) (rate(antwort_tool_cache_total{}[$__rate_interval]))", "{{result}}")],
        ),
    ],
};

const SPEED: Row = Row {
    title: "Speed",
    panels: &[
        lines(
            "Duration by tool, p95",
            "s",
            "The slowest tools. Model and client wait for them: set a timeout, or make them asynchronous.",
            &[(
                "histogram_quantile(0.95, sum by (executor, tool, le) (rate(antwort_tool_duration_seconds_bucket{%tool}[$__rate_interval])))",
                "{{executor}} {{tool}}",
            )],
        ),
        heatmap(
            "Duration of calls",
            "s",
            "A band at the timeout is a server that hangs.",
            &[(
                "sum by (le) (increase(antwort_tool_duration_seconds_bucket{%tool}[$__rate_interval]))",
                "{{le}}",
            )],
        ),
        lines(
            "Attempts for each call",
            "short",
            "1 without retries and fallbacks; less if calls are refused, or answered from the cache.",
            &[(
                "sum by (executor) (rate(antwort_tool_attempts_total{%tool}[$__rate_interval]))\n\
                 / sum by (executor) (rate(antwort_tool_calls_total{%tool}[$__rate_interval]))",
                "{{executor}}",
            )],
        ),
    ],
};

const MCP: Row = Row {
    title: "MCP servers",
    panels: &[
        lines(
            "Tool lists by outcome",
            "reqps",
            "Lists that requests needed. `stale`: the server did not answer and an older list was used; `failed`: the \
             request went on without its tools, or failed if they are required. `GET /v1/mcp/servers` has the last error.",
            &[(
                "sum by (executor, outcome) (rate(antwort_mcp_lists_total{executor=~\"$executor|mcp:.*\"}[$__rate_interval]))",
                "{{executor}} {{outcome}}",
            )],
        ),
        lines(
            "Unavailable",
            "reqps",
            "Calls that did not reach their server, or were refused as its circuit is open. The log has the cause and URL.",
            &[(
                "sum by (executor) (rate(antwort_tool_calls_total{%tool,outcome=\"tool_unavailable\"}[$__rate_interval]))",
                "{{executor}}",
            )],
        ),
        lines(
            "Sessions, calls, and waiting for sessions",
            "short",
            "Requests wait if `mcp.sessions.max` sessions are in use; then raise it, or find the calls that hang.",
            &[
                ("sum(antwort_mcp_sessions{})", "sessions"),
                ("sum(antwort_mcp_calls_in_flight{})", "calls in flight"),
                ("sum(antwort_queue_waiting{resource=\"mcp_sessions\"})", "waiting"),
            ],
        ),
    ],
};

const EACH: Row = Row {
    title: "Each tool",
    panels: &[panel(
        Kind::Table,
        "Tools in this time",
        "short",
        "Which are used, which fail, which are slow. Sort by a column.",
        &[
            ("sum by (executor, tool) (increase(antwort_tool_calls_total{%tool}[$__range]))", "Calls"),
            (
                "sum by (executor, tool) (increase(antwort_tool_calls_total{%tool,outcome!~\"%fine\"}[$__range]))",
                "Failed",
            ),
            ("sum by (executor, tool) (increase(antwort_tool_attempts_total{%tool}[$__range]))", "Attempts"),
            (
                "histogram_quantile(0.95, sum by (executor, tool, le) (rate(antwort_tool_duration_seconds_bucket{%tool}[$__range])))",
                "p95 in s",
            ),
        ],
    )],
};
