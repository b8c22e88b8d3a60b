//! Providers as they are in the wild: each of their ways, and what a client sees of it.
//!
//! A stream that a client gets is legal, whatever came in; an answer that was cut is never `completed`.

mod calls;
mod ends;
mod retries;
mod streams;
mod time;

use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, text_of};

fn ask() -> Value {
    json!({"model": "test-model", "input": "Hi"})
}

/// Streams a response; its status, the code of its error, and its text.
async fn outcome(gateway: &Gateway, body: Value) -> (String, String, String) {
    let response = gateway.stream(body).await.response;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (word(&response["status"]), word(&response["error"]["code"]), text_of(&response))
}
