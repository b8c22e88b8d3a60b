//! The memory of an answer: what the machine holds of it grows with what it counted, whatever the answer is made of.
//!
//! Bytes asked of the allocator are counted, from the first piece to the snapshot of the response that has ended. Events
//! leave as soon as they are made, but for those of the end, which leave together.

use antwort::protocol::content::{Annotation, LogProb, TopLogProb};
use antwort::protocol::id::IdGenerator;
use antwort::protocol::response::RunOutcome;
use antwort_response::machine::{
    CallResult, Events, MachineOptions, ReasoningDisplay, ResponseMachine, ShowSealed, Termination,
};
use antwort_response::presentation::Presentation;
use antwort_response::presentation::web_search_call::PRESENTER as WEB_SEARCH;
use antwort_response::seal::SealKeys;
use antwort_response::turn::{CallKind, ModelEvent, ProviderFields};
use serde_json::{Value, json};

use antwort_test_support::response::blank_response;

/// What is held at once, at the most, of a byte that was counted: it is in the response, in the events that close it and
/// in its JSON, and what grows has up to twice the room and is copied when it needs more.
const FACTOR: u64 = 9;
/// Counted of each answer.
const ENOUGH: usize = 1 << 20;

/// The next pieces of an answer.
type Pieces = Box<dyn Fn(u32) -> Vec<ModelEvent>>;

fn options() -> MachineOptions {
    let keys = SealKeys::new(&[SealKeys::generate()]).unwrap();
    MachineOptions {
        reasoning: ReasoningDisplay::Text,
        logprobs: true,
        seal: Some(keys.bound_to("tenant", "provider")),
        show_sealed: ShowSealed::Never,
        server_steps: true,
        summary: None,
    }
}

/// Pieces until enough was counted, then the end of the turn and of the response: the most that was held at once, and
/// what was counted.
fn held_and_counted(pieces: &Pieces) -> (u64, u64) {
    let mut counted = 0;
    let options = options();
    let held = allocation_counter::measure(|| {
        let ids = IdGenerator::from_seed("0000");
        let mut machine = ResponseMachine::new(blank_response(&ids), ids, options);
        let mut out = Events::new();
        machine.start(&mut out);
        for n in 0.. {
            for event in pieces(n) {
                machine.push(event, &mut out).unwrap();
                out.clear();
            }
            if machine.bytes() > ENOUGH {
                break;
            }
        }
        let turn = machine.end_turn(false, &mut out).unwrap();
        for call in turn.server_calls {
            let result = CallResult { output: "x".into(), ..CallResult::default() };
            machine.finish_call(call.slot, result, &mut out).unwrap();
        }
        counted = machine.bytes() as u64;
        let closed =
            machine.close_response(Termination::Completed, RunOutcome::default(), 1_700_000_009, &mut out);
        closed.emit_terminal_event(true, &mut out);
        drop(closed);
    });
    (held.bytes_max, counted)
}

fn text(delta: &str, logprobs: Vec<LogProb>) -> Vec<ModelEvent> {
    vec![ModelEvent::Text { delta: delta.into(), logprobs }]
}

fn logprob(alternatives: usize) -> LogProb {
    let other = TopLogProb { token: " a".into(), logprob: -1.25, bytes: [32, 97].into() };
    LogProb {
        token: " a".into(),
        logprob: -0.5,
        bytes: [32, 97].into(),
        top_logprobs: vec![other; alternatives].into(),
    }
}

fn call(slot: u32, kind: CallKind, fields: Option<ProviderFields>) -> Vec<ModelEvent> {
    let fields = fields.map(Box::new);
    let started =
        ModelEvent::CallStarted { slot, kind, call_id: None, name: "f".into(), namespace: None, fields };
    vec![started, ModelEvent::CallDelta { slot, delta: "{}".into() }]
}

fn fields(value: Value) -> ProviderFields {
    [("reasoning_details".to_owned(), value)].into_iter().collect()
}

fn source() -> ModelEvent {
    let (url, title) = ("https://a.example".into(), "A".into());
    ModelEvent::Annotation(Annotation::UrlCitation { url, title, start_index: 0, end_index: 1 })
}

#[test]
fn what_an_answer_takes_in_memory_is_a_small_factor_of_what_was_counted() {
    let of = |kind: CallKind| move |n: u32| call(n, kind, None);
    let pieces: Vec<(&str, Pieces)> = vec![
        ("text", Box::new(|_| text("aaaa", Vec::new()))),
        ("tokens", Box::new(|_| text("a", vec![logprob(0)]))),
        ("tokens without text", Box::new(|_| text("a", vec![logprob(0); 60]))),
        ("tokens with alternatives", Box::new(|_| text("a", vec![logprob(20)]))),
        ("refusal", Box::new(|_| vec![ModelEvent::Refusal("aaaa".into())])),
        ("reasoning", Box::new(|_| vec![ModelEvent::Reasoning("aaaa".into())])),
        ("summary", Box::new(|_| vec![ModelEvent::ReasoningSummary("aaaa".into())])),
        (
            "sources",
            Box::new(|n| {
                if n % 1000 == 0 {
                    [text("a", Vec::new()), vec![ModelEvent::Refusal("a".into())], text("a", Vec::new())]
                        .concat()
                } else {
                    vec![source()]
                }
            }),
        ),
        ("parts", Box::new(|_| [text("a", Vec::new()), vec![ModelEvent::Refusal("a".into())]].concat())),
        ("items", Box::new(|_| [text("a", Vec::new()), vec![ModelEvent::Reasoning("a".into())]].concat())),
        ("state", Box::new(|_| vec![ModelEvent::ReasoningState(fields(json!([{"a": 1}])))])),
        ("state of numbers", Box::new(|_| vec![ModelEvent::ReasoningState(fields(json!([1, 2, 3])))])),
        ("state of calls", Box::new(|n| call(n, CallKind::Function, Some(fields(json!({"b": {"c": [1]}})))))),
        ("functions", Box::new(of(CallKind::Function))),
        ("custom tools", Box::new(of(CallKind::Custom))),
        ("approvals", Box::new(of(CallKind::Server(Presentation::Approval)))),
        ("hidden calls", Box::new(of(CallKind::Server(Presentation::Hidden)))),
        ("calls of servers", Box::new(of(CallKind::Server(Presentation::Mcp)))),
        ("searches", Box::new(of(CallKind::Server(Presentation::Hosted(&WEB_SEARCH))))),
    ];
    for (what, pieces) in pieces {
        let (held, counted) = held_and_counted(&pieces);
        assert!(held <= FACTOR * counted, "{what}: {held} bytes are held, {counted} were counted");
    }
}
