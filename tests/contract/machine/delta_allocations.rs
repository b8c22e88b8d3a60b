//! What a delta asks of the allocator on its way from the provider's bytes to those for the client.

use std::sync::Arc;

use antwort::config::ThinkTags;
use antwort::protocol::id::IdGenerator;
use antwort_net::sse::Decoder;
use antwort_protocol::event::EventEncoder;
use antwort_provider::chat::Translator;
use antwort_response::machine::{Events, MachineOptions, ReasoningDisplay, ResponseMachine};
use antwort_response::turn::ModelEvent;

use antwort_test_support::response::blank_response;

/// A stream on its way: what a run holds of it, and its buffers, which are used again.
struct Path {
    decoder: Decoder,
    translator: Translator,
    machine: ResponseMachine,
    model_events: Vec<ModelEvent>,
    events: Events,
    sent: usize,
}

impl Path {
    fn new() -> Self {
        let ids = IdGenerator::from_seed("0000");
        let options = MachineOptions { reasoning: ReasoningDisplay::Text, ..MachineOptions::default() };
        Self {
            decoder: Decoder::new(1 << 20),
            translator: Translator::new(Arc::from([]), false, ThinkTags::None),
            machine: ResponseMachine::new(blank_response(&ids), ids, options),
            model_events: Vec::new(),
            events: Events::new(),
            sent: 0,
        }
    }

    /// Takes what came in one read, and sends the events of it in one batch.
    fn take(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
        while let Some(event) = self.decoder.next_event().unwrap() {
            self.translator.push(event.name.as_deref(), &event.data, &mut self.model_events).unwrap();
        }
        for event in self.model_events.drain(..) {
            self.machine.push(event, &mut self.events).unwrap();
        }
        let mut batch = Vec::with_capacity(self.events.len() * 256);
        for event in self.events.drain(..) {
            EventEncoder::default().write_sse(&event, &mut batch);
            self.sent += 1;
        }
    }
}

/// Allocations for each of many deltas that come in reads of so many.
fn allocations(delta: &str, read: usize) -> f64 {
    const READS: u32 = 1000;
    let frame = format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":null}}]}}\n\n"
    );
    let (mut path, bytes) = (Path::new(), frame.repeat(read));
    path.take(bytes.as_bytes());
    let before = path.sent;
    let counted = allocation_counter::measure(|| (0..READS).for_each(|_| path.take(bytes.as_bytes())));
    let deltas = path.sent - before;
    assert_eq!(deltas, READS as usize * read, "{delta}");
    counted.count_total as f64 / deltas as f64
}

#[test]
fn a_delta_costs_two_allocations_at_most() {
    let deltas = [
        r#""content":" word""#,
        r#""content":"é😀""#,
        r#""content":null,"reasoning_content":" word""#,
        r#""reasoning":" word""#,
    ];
    for delta in deltas {
        // The text and the batch; what is written into grows seldom.
        let alone = allocations(delta, 1);
        assert!(alone < 2.05, "{delta} alone: {alone}");
        // The text, and a share of the batch.
        let together = allocations(delta, 50);
        assert!(together < 1.05, "{delta} with others: {together}");
    }
}
