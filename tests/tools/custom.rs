//! The example of `docs/tools.md`: a tool of a program that embeds the gateway.

use serde_json::json;

use super::kinds;
use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::upstream::{Reply, Upstream};

#[path = "../../examples/custom_tool.rs"]
#[allow(dead_code, unreachable_pub, reason = "its `main` is for `cargo run --example`")]
mod custom_tool;

#[tokio::test]
async fn the_example_is_a_tool_that_runs() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).executor(custom_tool::executor()).spawn().await;
    let ask = json!({"model": "test-model", "input": "Go.", "tools": [{"type": "antwort:word_count"}]});
    upstream.reply(Reply::Calls(vec![("word_count", json!({"text": "one two  three"}))])).text("Three.");
    let response = gateway.create(ask.clone()).await;
    assert_eq!(kinds(&response), ["mcp_call", "message"]);
    assert_eq!(response["output"][0]["output"], "{\"words\":3}");
    assert_eq!(text_of(&response), "Three.");
    for arguments in [json!({}), json!({"text": " "})] {
        upstream.reply(Reply::Calls(vec![("word_count", arguments)])).text("Well.");
        assert_eq!(gateway.create(ask.clone()).await["output"][0]["error"]["code"], "invalid_arguments");
    }
}
