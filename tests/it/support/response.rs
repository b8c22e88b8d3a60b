//! Responses to start a machine with.

use std::sync::Arc;

use antwort::protocol::id::IdMint;
use antwort::protocol::response::{Echo, Output, Response, Status};
use serde_json::value::RawValue;

/// A response of which nothing is known but its id.
pub fn blank_response(ids: &IdMint) -> Response {
    let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
    Response {
        id: ids.response(),
        object: "response",
        created_at: 1_700_000_000,
        completed_at: None,
        status: Status::InProgress,
        error: None,
        incomplete_details: None,
        output: Output::default(),
        usage: None,
        service_tier: "default".into(),
        echo: Arc::new(Echo {
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
            truncation: "disabled",
            user: None,
            prompt: None,
            agent: None,
        }),
        antwort: None,
    }
}
