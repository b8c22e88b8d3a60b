//! The gateway in operation: clients that go or stall, probes, metrics, browsers, and its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "clippy.toml allows panics in functions marked #[test] only; helpers take json!(..) as it is"
)]
#![allow(unreachable_pub, reason = "nothing here is reached from outside")]

mod browsers;
mod clients;
mod dashboards;
mod demo;
mod doctor;
mod documents;
mod drain;
mod exclusive;
mod floors;
mod foreign_files;
mod healthcheck;
mod logged;
mod logs;
mod papers;
mod probes;
mod prompt;
mod provider_failures;
mod queue_length;
mod reload;
mod reload_follow_ups;
mod reload_mcp;
mod reload_start;
mod request_lines;
mod roles;
mod runs;
mod shutdown_delay;
mod silence;
mod terminal;
mod tool_failures;
mod traces;
mod ui;
mod unread_log;
mod unserved_settings;
mod upgrade;
mod waiting;

use serde_json::{Value, json};

use antwort_test_support::upstream::{Step, chunk};

fn ask() -> Value {
    json!({"model": "test-model", "input": "Hi"})
}

fn text(text: &str) -> Step {
    chunk(json!({"content": text}))
}

/// The text of a stream's body, so far as it comes within the mark; panics if it ends before.
async fn read_until(response: &mut reqwest::Response, mark: &str) -> String {
    let mut text = String::new();
    while !text.contains(mark) {
        let piece = response.chunk().await.expect("the stream goes on").expect("the stream goes on");
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

/// The id of the response whose stream begins so.
fn id_in(stream: &str) -> String {
    let data = stream.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let event: Value = serde_json::from_str(data).unwrap();
    event["response"]["id"].as_str().expect("created").to_owned()
}
