//! What an event costs between the socket of the provider and that of the client, without the sockets.
//!
//! `cargo bench` prints times for a stream of 100 pieces of text; divide by 100 for one event.

#![allow(clippy::expect_used, missing_docs, reason = "a benchmark that cannot run should say so")]

use std::hint::black_box;
use std::sync::Arc;

use antwort::config::ThinkTags;
use antwort::internal::net::Decoder;
use antwort::internal::protocol::CreateResponse;
use antwort::internal::protocol::EventEncoder;
use antwort::internal::protocol::Truncation;
use antwort::internal::provider::Translator;
use antwort::internal::response::{FinishReason, ModelEvent};
use antwort::internal::response::{MachineOptions, ResponseMachine, Termination};
use antwort::protocol::id::IdGenerator;
use antwort::protocol::response::{RequestEcho, Response, ResponseSnapshot, ResponseStatus, RunOutcome};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::value::RawValue;

const PIECES: u64 = 100;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("JSON")
}

fn blank(ids: &IdGenerator) -> Response {
    let echo = RequestEcho {
        background: false,
        conversation: None,
        frequency_penalty: 0.0,
        instructions: None,
        max_output_tokens: None,
        max_tool_calls: None,
        metadata: raw("{}"),
        model: "bench".into(),
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
    };
    Response {
        id: ids.response(),
        object: "response",
        created_at: 0,
        completed_at: None,
        status: ResponseStatus::InProgress,
        error: None,
        incomplete_details: None,
        output: antwort::protocol::response::OutputItems::default(),
        usage: None,
        service_tier: "default".into(),
        echo: Arc::new(echo),
        antwort: None,
    }
}

/// A provider's stream as bytes.
fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..PIECES {
        let chunk = format!(
            r#"data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{"content":"word{n} "}},"logprobs":null,"finish_reason":null}}]}}"#
        );
        bytes.extend_from_slice(chunk.as_bytes());
        bytes.extend_from_slice(b"\n\n");
    }
    bytes.extend_from_slice(
        b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    );
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    bytes
}

fn translate(bytes: &[u8]) -> Vec<ModelEvent> {
    let mut decoder = Decoder::new(1 << 20);
    let mut translator = Translator::new(Arc::from([]), false, ThinkTags::default());
    let mut events = Vec::new();
    decoder.feed(bytes);
    while let Some(event) = decoder.next_event().expect("small") {
        translator.push(event.name.as_deref(), &event.data, &mut events).expect("well-formed");
    }
    translator.finish(&mut events).expect("whole");
    events
}

fn machine_and_encode(events: &[ModelEvent]) -> Vec<u8> {
    let ids = IdGenerator::from_seed("00000000000000000000000000000000");
    let mut machine = ResponseMachine::new(blank(&ids), ids, MachineOptions::default());
    let (mut out, mut bytes) = (Vec::new(), Vec::new());
    machine.start(&mut out);
    for event in events {
        machine.push(event.clone(), &mut out).expect("legal");
    }
    machine.end_turn(false, &mut out).expect("legal");
    machine
        .close_response(Termination::Completed, RunOutcome::default(), 1, &mut out)
        .emit_terminal_event(true, &mut out);
    for event in &out {
        EventEncoder::default().write_sse(event, &mut bytes);
    }
    bytes
}

fn hot_path(c: &mut Criterion) {
    let bytes = stream();
    let events = translate(&bytes);
    assert!(events.contains(&ModelEvent::Finish(FinishReason::Stop)));

    let mut group = c.benchmark_group("stream of 100 pieces");
    group.throughput(Throughput::Elements(PIECES));
    group.bench_function("decode and translate", |b| b.iter(|| translate(black_box(&bytes))));
    group.bench_function("machine and encode", |b| b.iter(|| machine_and_encode(black_box(&events))));
    group.finish();

    let request = br#"{"model":"m","input":[{"role":"user","content":"Hello, how are you?"}],"stream":true,
        "tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}]}"#;
    c.bench_function("parse a request", |b| b.iter(|| CreateResponse::parse(black_box(request))));
    let ids = IdGenerator::from_seed("0");
    let response = blank(&ids);
    c.bench_function("serialise a snapshot", |b| {
        b.iter(|| ResponseSnapshot::new(black_box(response.clone())));
    });
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
