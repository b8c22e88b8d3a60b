//! The embedding of a text: its length and its first values.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::arguments::{Output, PromptArgs};
use crate::app::Assembly;
use crate::cli::output::{print_json, print_line};
use antwort_protocol::error::ApiError;
use antwort_provider::CallContext;

/// Number of values that are printed.
const SHOWN: usize = 5;
/// Larger than the longest embedding.
const MAX_BODY_BYTES: usize = 16 << 20;

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Embedding {
    embedding: Vec<f64>,
}

#[derive(Deserialize)]
struct Tokens {
    prompt_tokens: u64,
}

/// Requests the prompt's embedding and prints it.
pub(super) async fn show(args: &PromptArgs, model: &str, assembly: &Assembly) -> Result<(), String> {
    let body = json!({"model": model, "input": args.prompt}).to_string();
    let call = CallContext { deadline: None, traceparent: None, request_id: "cli".into(), response_id: None };
    let failed = |error: ApiError| format!("Error: {}", error.body.message);
    let directed = assembly.router.route_body(&body.into()).map_err(failed)?;
    let passed = directed.pass_through("/embeddings", &call).await.map_err(failed)?;
    let text = Limited::new(passed.body, MAX_BODY_BYTES).collect().await;
    let text: Bytes = text.map_err(|error| format!("Error: the answer was interrupted: {error}"))?.to_bytes();
    if passed.status != 200 {
        let text = String::from_utf8_lossy(&text);
        return Err(format!("Error: the provider answered {}: {}", passed.status, text.trim()));
    }
    let no_embedding = |error| format!("Error: the response is not an embedding: {error}");
    if args.output == Output::Json {
        let json: Box<RawValue> = serde_json::from_slice(&text).map_err(no_embedding)?;
        print_json(json.get());
        return Ok(());
    }
    let answer: Answer = serde_json::from_slice(&text).map_err(no_embedding)?;
    let vector = answer.data.into_iter().next().ok_or("Error: the response contains no embedding")?.embedding;
    print_line(&format!("Dimensions: {}", vector.len()));
    let values: Vec<_> = vector.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if vector.len() > SHOWN { ", …" } else { "" };
    print_line(&format!("Values: [{}{more}]", values.join(", ")));
    if let Some(tokens) = answer.usage {
        print_line(&format!("Tokens: {} total", tokens.prompt_tokens));
    }
    Ok(())
}
