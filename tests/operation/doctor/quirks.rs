//! Every question with a server that does what it asks for, and with one that does not.

use futures_util::{StreamExt, stream};

use super::server::Server;
use super::{answer, examined};

/// Questions that an obedient server does not answer with "yes", as there is nothing to see.
const NOT_SEEN: [(&str, &str); 4] = [
    ("sse_comments", "unknown"),
    ("rate_limit_headers", "unknown"),
    ("error_in_200", "unknown"),
    ("reasoning_out", "no"),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_obedient_server_works() {
    let server = Server::spawn(&[]).await;
    let (code, report) = examined(&server.url, &["--deep"]).await;
    for finding in report["findings"].as_array().unwrap() {
        let id = finding["id"].as_str().unwrap();
        let expected = NOT_SEEN.iter().find(|(known, _)| *known == id).map_or("yes", |(_, answer)| answer);
        assert_eq!(finding["answer"], expected, "{finding}");
    }
    assert_eq!((code, report["verdict"].as_str()), (0, Some("works")), "{report:#}");
    assert_eq!(report["gaps"], serde_json::json!([]));
}

/// Quirks of a server that do not touch one another, and the answers that they lead to. With "deep" all is asked.
type Row = (&'static [&'static str], &'static [(&'static str, &'static str)]);

const ROWS: &[Row] = &[
    (&["no list"], &[("models", "no"), ("context_window", "unknown")]),
    (&["does not stream"], &[("stream", "ignored")]),
    (&["refuses stream_options"], &[("stream_usage", "no")]),
    (
        &["no usage"],
        &[
            ("stream_usage", "ignored"),
            ("developer_role", "unknown"),
            ("cached_tokens", "no"),
            ("empty_choices", "unknown"),
        ],
    ),
    (
        &[
            "window in props",
            "comments",
            "empty choices first",
            "no end mark",
            "reasons in a field",
            "no cached tokens",
            "one call at a time",
            "calls finish with stop",
        ],
        &[
            ("context_window", "yes"),
            ("stream", "yes"),
            ("sse_comments", "yes"),
            ("empty_choices", "yes"),
            ("reasoning_out", "yes"),
            ("cached_tokens", "no"),
            ("parallel_calls", "no"),
            ("parallel_calls_off", "unknown"),
            ("call_index", "unknown"),
            ("call_finish_reason", "no"),
        ],
    ),
    (
        &["refuses tools", "errors have status 200", "reasons in tags"],
        &[("error_in_200", "yes"), ("calls", "no"), ("call_ids", "unknown"), ("reasoning_out", "yes")],
    ),
    (
        &[
            "deep",
            "no window",
            "refuses max_completion_tokens",
            "refuses unknown fields",
            "refuses developer",
            "refuses a second system",
            "refuses reasoning",
            "refuses strict",
            "refuses parallel_tool_calls",
            "refuses named tool_choice",
            "refuses required",
            "refuses schemas with tools",
            "refuses images",
            "refuses logprobs",
            "refuses n",
            "refuses seed",
            "refuses stop",
        ],
        &[
            ("context_window", "unknown"),
            ("max_completion_tokens", "no"),
            ("max_tokens", "yes"),
            ("unknown_fields", "no"),
            ("developer_role", "no"),
            ("second_system", "no"),
            ("reasoning_in", "no"),
            ("strict_functions", "no"),
            ("parallel_calls_off", "no"),
            ("tool_choice_named", "no"),
            ("tool_choice_required", "no"),
            ("json_schema", "yes"),
            ("json_schema_tools", "no"),
            ("image_data", "no"),
            ("image_url", "no"),
            ("logprobs", "no"),
            ("n", "no"),
            ("seed", "no"),
            ("stop", "no"),
            ("overflow", "yes"),
        ],
    ),
    (
        &[
            "deep",
            "max_tokens is ignored",
            "developer is ignored",
            "second system is ignored",
            "reasoning is not read",
            "parallel_tool_calls is ignored",
            "tool_choice required is ignored",
            "named tool_choice is ignored",
            "tool_choice none is ignored",
            "schemas are ignored with tools",
            "pattern is ignored",
            "images are ignored",
            "logprobs are ignored",
            "n is ignored",
            "seed is ignored",
            "stop is ignored",
            "truncates",
            "index 0 for all calls",
            "reasons in an opened tag",
        ],
        &[
            ("max_completion_tokens", "yes"),
            ("max_tokens", "ignored"),
            ("developer_role", "ignored"),
            ("second_system", "ignored"),
            ("reasoning_in", "ignored"),
            ("reasoning_out", "yes"),
            ("parallel_calls", "yes"),
            ("parallel_calls_off", "ignored"),
            ("call_index", "no"),
            ("tool_choice_required", "ignored"),
            ("tool_choice_named", "ignored"),
            ("tool_choice_none", "ignored"),
            ("json_schema_tools", "ignored"),
            ("schema_enum", "yes"),
            ("schema_pattern", "ignored"),
            ("image_data", "ignored"),
            ("image_url", "ignored"),
            ("logprobs", "ignored"),
            ("n", "ignored"),
            ("seed", "ignored"),
            ("stop", "ignored"),
            ("overflow", "ignored"),
        ],
    ),
    (
        &["max_completion_tokens is ignored", "refuses max_tokens", "refuses schemas", "no call ids"],
        &[
            ("max_completion_tokens", "ignored"),
            ("max_tokens", "no"),
            ("json_schema", "no"),
            ("call_ids", "no"),
        ],
    ),
    (
        &["calls now and then", "schemas now and then", "reads reasoning"],
        &[("calls", "unstable"), ("json_schema", "unstable"), ("reasoning_in", "yes")],
    ),
    (&["one id for all calls"], &[("call_ids", "no")]),
    (
        &["roles must alternate", "no user after tool", "only streams"],
        &[("consecutive_users", "no"), ("user_after_tool", "no"), ("completion", "no")],
    ),
    (
        &["deep", "no calls", "schemas are ignored"],
        &[
            ("calls", "no"),
            ("tool_choice_none", "unknown"),
            ("json_schema", "ignored"),
            ("schema_pattern", "unknown"),
        ],
    ),
    (&["deep", "overflow in other words"], &[("overflow", "no")]),
    (
        &["goes on alone", "is busy"],
        &[("cancel", "no"), ("rate_limit_headers", "yes"), ("max_tokens", "yes")],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_quirk_is_found() {
    let check = |(quirks, answers): &Row| {
        let (quirks, answers) = (*quirks, *answers);
        async move {
            let server = Server::spawn(quirks).await;
            let mut words = vec!["--model", "scripted"];
            words.extend(quirks.contains(&"deep").then_some("--deep"));
            let (_, report) = examined(&server.url, &words).await;
            let wrong = answers.iter().filter_map(|(id, expected)| {
                let (found, evidence) = answer(&report, id);
                (found != *expected)
                    .then(|| format!("{quirks:?}: {id} is {found}, not {expected}: {evidence}"))
            });
            wrong.collect::<Vec<_>>()
        }
    };
    let wrong: Vec<Vec<String>> = stream::iter(ROWS).map(check).buffer_unordered(4).collect().await;
    assert!(wrong.iter().all(Vec::is_empty), "{wrong:#?}");
}
