//! Responses to start a machine with.

use std::sync::Arc;

use antwort::protocol::id::IdGenerator;
use antwort::protocol::response::{OutputItems, RequestEcho, Response, ResponseStatus};
use antwort_protocol::request::Truncation;
use serde_json::value::RawValue;

/// A response of which nothing is known but its id.
pub fn blank_response(ids: &IdGenerator) -> Response {
    let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    Response {
        id: ids.response(),
        object: "response",
        created_at: 1_700_000_000,
        completed_at: None,
        status: ResponseStatus::InProgress,
        error: None,
        incomplete_details: None,
        output: OutputItems::default(),
        usage: None,
        service_tier: "default".into(),
        echo: Arc::new(RequestEcho {
            background: false,
            conversation: None,
            frequency_penalty: 0.0,
            instructions: None,
            max_output_tokens: None,
            max_tool_calls: None,
            metadata: raw("{}"),
            model: "test".into(),
            parallel_tool_calls: true,
            presence_penalty: 0.0,
            previous_response_id: None,
            prompt_cache_key: None,
            prompt_cache_retention: None,
            reasoning: raw(r#"{"effort":null,"summary":null}"#),
            safety_identifier: None,
            store: true,
            temperature: 1.0,
            text: raw(r#"{"format":{"type":"text"}}"#),
            tool_choice: raw(r#""auto""#),
            tools: raw("[]"),
            top_logprobs: 0,
            top_p: 1.0,
            truncation: Truncation::Disabled,
            user: None,
            prompt: None,
            agent: None,
        }),
        antwort: None,
    }
}
