//! What an event costs between the socket of the provider and that of the client, without the sockets.
//!
//! `cargo bench` prints times for a response of 100 pieces of text, with the throughput in events, and times and
//! allocations for one piece of a stream that goes on.

#![allow(clippy::expect_used, missing_docs, reason = "a benchmark that cannot run should say so")]
#![allow(clippy::print_stdout, reason = "criterion prints times alone")]

use std::hint::black_box;
use std::sync::Arc;

use antwort::config::ThinkTags;
use antwort::protocol::id::IdGenerator;
use antwort::protocol::response::{ResponseSnapshot, RunOutcome};
use antwort_net::sse::Decoder;
use antwort_protocol::event::EventEncoder;
use antwort_protocol::request::CreateResponse;
use antwort_provider::chat::Translator;
use antwort_response::machine::{Events, MachineOptions, ResponseMachine, Termination};
use antwort_response::turn::{FinishReason, ModelEvent};
use antwort_test_support::response::blank_response;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const PIECES: u64 = 100;

/// What a piece that comes alone is, and its delta.
const PIECES_ALONE: [(&str, &str); 3] = [
    ("a piece of text alone", r#""content":" word""#),
    ("a piece with an escape alone", r#""content":" word.\n""#),
    ("a piece of reasoning alone", r#""reasoning_content":" word""#),
];

/// A provider's event with a delta.
fn frame(delta: &str) -> String {
    format!(
        r#"data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{{delta}}},"logprobs":null,"finish_reason":null}}]}}"#
    ) + "\n\n"
}

/// A provider's stream as bytes.
fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..PIECES {
        bytes.extend_from_slice(frame(&format!(r#""content":"word{n} ""#)).as_bytes());
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

fn machine() -> ResponseMachine {
    let ids = IdGenerator::from_seed("00000000000000000000000000000000");
    ResponseMachine::new(blank_response(&ids), ids, MachineOptions::default())
}

fn run_machine(events: &[ModelEvent]) -> Events {
    let (mut machine, mut out) = (machine(), Events::new());
    machine.start(&mut out);
    for event in events {
        machine.push(event.clone(), &mut out).expect("legal");
    }
    machine.end_turn(false, &mut out).expect("legal");
    machine
        .close_response(Termination::Completed, RunOutcome::default(), 1, &mut out)
        .emit_terminal_event(true, &mut out);
    out
}

fn encode(events: &Events) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256 * events.len());
    for event in events {
        EventEncoder::default().write_sse(event, &mut bytes);
    }
    bytes
}

/// A stream that goes on, one piece after the other, each alone.
struct Running {
    decoder: Decoder,
    translator: Translator,
    machine: ResponseMachine,
    model_events: Vec<ModelEvent>,
    events: Events,
}

impl Running {
    fn new() -> Self {
        let translator = Translator::new(Arc::from([]), false, ThinkTags::default());
        let (model_events, events) = (Vec::new(), Events::new());
        Self { decoder: Decoder::new(1 << 20), translator, machine: machine(), model_events, events }
    }

    fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        self.decoder.feed(piece);
        while let Some(event) = self.decoder.next_event().expect("small") {
            let name = event.name.as_deref();
            self.translator.push(name, &event.data, &mut self.model_events).expect("well-formed");
        }
        for event in self.model_events.drain(..) {
            self.machine.push(event, &mut self.events).expect("legal");
        }
        let bytes = encode(&self.events);
        self.events.clear();
        bytes
    }
}

/// Allocations of one piece of a stream that goes on.
fn allocations(piece: &[u8]) -> f64 {
    let mut running = Running::new();
    running.take(piece);
    let counted = allocation_counter::measure(|| {
        for _ in 0..PIECES {
            running.take(piece);
        }
    });
    counted.count_total as f64 / PIECES as f64
}

fn hot_path(c: &mut Criterion) {
    let bytes = stream();
    let events = translate(&bytes);
    assert!(events.contains(&ModelEvent::Finish(FinishReason::Stop)));

    let mut group = c.benchmark_group("stream of 100 pieces");
    group.throughput(Throughput::Elements(PIECES));
    group.bench_function("decode and translate", |b| b.iter(|| translate(black_box(&bytes))));
    group.bench_function("machine", |b| b.iter(|| run_machine(black_box(&events))));
    let sent = run_machine(&events);
    group.bench_function("encode", |b| b.iter(|| encode(black_box(&sent))));
    group.finish();

    for (kind, delta) in PIECES_ALONE {
        let piece = frame(delta);
        println!("{kind}: {} allocations", allocations(piece.as_bytes()));
        c.bench_function(kind, |b| {
            let mut running = Running::new();
            let mut left = 0_u32;
            b.iter(|| {
                // The text that was written so far is to stay that of a response.
                if left == 0 {
                    (running, left) = (Running::new(), 10_000);
                }
                left -= 1;
                running.take(black_box(piece.as_bytes()))
            });
        });
    }

    let request = br#"{"model":"m","input":[{"role":"user","content":"Hello, how are you?"}],"stream":true,
        "tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}]}"#;
    c.bench_function("parse a request", |b| b.iter(|| CreateResponse::parse(black_box(request))));
    let ids = IdGenerator::from_seed("0");
    let response = blank_response(&ids);
    c.bench_function("serialise a snapshot", |b| {
        b.iter(|| Arc::clone(ResponseSnapshot::new(black_box(response.clone())).json()));
    });
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
