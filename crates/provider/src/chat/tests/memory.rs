//! Memory that encoding a body takes.

use serde_json::{Value, json};

use super::super::{ChatOptions, encode};
use super::request::asked;
use antwort_config::ProviderSettings;

#[test]
fn a_long_conversation_is_written_into_a_buffer_of_its_size() {
    let text = "a".repeat(1 << 20);
    let items = (0..9).map(|_| json!({"type": "message", "role": "user", "content": text})).collect();
    let (request, options) = (asked(Value::Array(items)), ChatOptions::from(&ProviderSettings::default()));
    let held = allocation_counter::measure(|| {
        assert!(encode(&request, &options, true).unwrap().len() > 9 << 20);
    });
    assert!(held.bytes_max < 11 << 20, "a body of 9 MiB took {} bytes", held.bytes_max);
}
