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

/// Quirks of a server, a question, and its answer. With "deep" the question is asked with `--deep` only.
const ROWS: &[(&[&str], &str, &str)] = &[
    (&["no list"], "models", "no"),
    (&["no window"], "context_window", "unknown"),
    (&["window in props"], "context_window", "yes"),
    (&["does not stream"], "stream", "ignored"),
    (&["refuses stream_options"], "stream_usage", "no"),
    (&["no usage"], "stream_usage", "ignored"),
    (&["no usage"], "developer_role", "unknown"),
    (&["no usage"], "cached_tokens", "no"),
    (&["empty choices first"], "empty_choices", "yes"),
    (&["no usage"], "empty_choices", "unknown"),
    (&["comments"], "sse_comments", "yes"),
    (&["refuses tools", "errors have status 200"], "error_in_200", "yes"),
    (&["refuses tools", "errors have status 200"], "calls", "no"),
    (&["refuses max_completion_tokens"], "max_completion_tokens", "no"),
    (&["max_completion_tokens is ignored"], "max_completion_tokens", "ignored"),
    (&["refuses max_tokens"], "max_tokens", "no"),
    (&["max_tokens is ignored"], "max_tokens", "ignored"),
    (&["refuses unknown fields"], "unknown_fields", "no"),
    (&["no cached tokens"], "cached_tokens", "no"),
    (&["refuses developer"], "developer_role", "no"),
    (&["developer is ignored"], "developer_role", "ignored"),
    (&["refuses a second system"], "second_system", "no"),
    (&["second system is ignored"], "second_system", "ignored"),
    (&["reasons in a field"], "reasoning_out", "yes"),
    (&["reasons in tags"], "reasoning_out", "yes"),
    (&["reasons in an opened tag"], "reasoning_out", "yes"),
    (&["refuses reasoning"], "reasoning_in", "no"),
    (&["reasoning is not read"], "reasoning_in", "ignored"),
    (&["reads reasoning"], "reasoning_in", "yes"),
    (&["refuses tools"], "calls", "no"),
    (&["no calls"], "calls", "no"),
    (&["calls now and then"], "calls", "unstable"),
    (&["refuses strict"], "strict_functions", "no"),
    (&["no call ids"], "call_ids", "no"),
    (&["one id for all calls"], "call_ids", "no"),
    (&["refuses tools"], "call_ids", "unknown"),
    (&["index 0 for all calls"], "call_index", "no"),
    (&["one call at a time"], "call_index", "unknown"),
    (&["calls finish with stop"], "call_finish_reason", "no"),
    (&["one call at a time"], "parallel_calls", "no"),
    (&["one call at a time"], "parallel_calls_off", "unknown"),
    (&["refuses parallel_tool_calls"], "parallel_calls_off", "no"),
    (&["parallel_tool_calls is ignored"], "parallel_calls_off", "ignored"),
    (&["refuses required"], "tool_choice_required", "no"),
    (&["tool_choice required is ignored"], "tool_choice_required", "ignored"),
    (&["refuses named tool_choice"], "tool_choice_named", "no"),
    (&["named tool_choice is ignored"], "tool_choice_named", "ignored"),
    (&["tool_choice none is ignored"], "tool_choice_none", "ignored"),
    (&["no calls"], "tool_choice_none", "unknown"),
    (&["refuses schemas"], "json_schema", "no"),
    (&["schemas are ignored"], "json_schema", "ignored"),
    (&["schemas now and then"], "json_schema", "unstable"),
    (&["refuses schemas with tools"], "json_schema_tools", "no"),
    (&["schemas are ignored with tools"], "json_schema_tools", "ignored"),
    (&["deep", "pattern is ignored"], "schema_pattern", "ignored"),
    (&["deep", "schemas are ignored"], "schema_pattern", "unknown"),
    (&["refuses images"], "image_data", "no"),
    (&["images are ignored"], "image_data", "ignored"),
    (&["images are ignored"], "image_url", "ignored"),
    (&["refuses images"], "image_url", "no"),
    (&["refuses logprobs"], "logprobs", "no"),
    (&["logprobs are ignored"], "logprobs", "ignored"),
    (&["deep", "refuses n"], "n", "no"),
    (&["deep", "n is ignored"], "n", "ignored"),
    (&["refuses seed"], "seed", "no"),
    (&["seed is ignored"], "seed", "ignored"),
    (&["refuses stop"], "stop", "no"),
    (&["stop is ignored"], "stop", "ignored"),
    (&["deep", "overflow in other words"], "overflow", "no"),
    (&["deep", "truncates"], "overflow", "ignored"),
    (&["goes on alone"], "cancel", "no"),
    (&["is busy"], "rate_limit_headers", "yes"),
    (&["is busy"], "max_completion_tokens", "yes"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_quirk_is_found() {
    let check = |(quirks, id, expected): &(&'static [&'static str], &'static str, &'static str)| {
        let (quirks, id, expected) = (*quirks, *id, *expected);
        async move {
            let server = Server::spawn(quirks).await;
            let mut words = vec!["--model", "scripted"];
            words.extend(quirks.contains(&"deep").then_some("--deep"));
            let (_, report) = examined(&server.url, &words).await;
            let (found, evidence) = answer(&report, id);
            (found != expected).then(|| format!("{quirks:?}: {id} is {found}, not {expected}: {evidence}"))
        }
    };
    let wrong: Vec<_> =
        stream::iter(ROWS).map(check).buffer_unordered(4).filter_map(async |row| row).collect().await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}
