//! The response machine: golden transcripts of every order of events.

mod delta_allocations;
mod properties;
mod replayed;
mod state;

use std::sync::Arc;

use antwort::protocol::content::{Annotation, LogProb};
use antwort::protocol::id::IdGenerator;
use antwort::protocol::item::Item;
use antwort::protocol::response::{OutputItems, Response, ResponseSnapshot, RunOutcome, Usage};
use antwort_protocol::dialect::Dialect;
use antwort_protocol::error::ErrorBody;
use antwort_protocol::event::EventEncoder;
use antwort_protocol::item::hosted::McpCall;
use antwort_response::machine::{
    CallResult, ClosedResponse, Events, MAX_SUMMARY_BYTES, MachineOptions, MachineState, ReasoningDisplay,
    ResponseMachine, Seal, SealSummary, ServerCall, ShowSealed, Termination, Violation,
};
use antwort_response::presentation::Presentation;
use antwort_response::presentation::web_search_call::PRESENTER as WEB_SEARCH;
use antwort_response::turn::{CallKind, FinishReason, ModelEvent, ProviderFields, ProviderState};
use serde_json::Value;

use antwort_test_support::response::blank_response;
use antwort_test_support::stream_validator::assert_valid_stream;

/// Runs one turn through a machine and returns the stream's JSON.
fn run(
    events: Vec<ModelEvent>,
    ending: Termination,
    options: MachineOptions,
) -> (Vec<Value>, ClosedResponse) {
    run_in(Dialect::OpenAi, events, ending, options)
}

fn run_in(
    dialect: Dialect,
    events: Vec<ModelEvent>,
    ending: Termination,
    options: MachineOptions,
) -> (Vec<Value>, ClosedResponse) {
    let ids = IdGenerator::from_seed("0000");
    let mut response = blank_response(&ids);
    response.output = OutputItems::new(dialect);
    let mut machine = ResponseMachine::new(response, ids, options);
    let mut out = Vec::new();
    machine.start(&mut out);
    let mut ending = ending;
    for event in events {
        if let Err(violation) = machine.push(event, &mut out) {
            ending = failed(violation);
            break;
        }
    }
    if !matches!(ending, Termination::Failed(_) | Termination::Cancelled)
        && let Err(violation) = end_turn(&mut machine, &ending, &mut out)
    {
        ending = failed(violation);
    }
    let finished = end(machine, ending, &mut out);
    (json_in(dialect, &out), finished)
}

/// Closes the response and emits its terminal event.
fn end(machine: ResponseMachine, ending: Termination, out: &mut Events) -> ClosedResponse {
    let closed = machine.close_response(ending, RunOutcome::default(), 1_700_000_009, out);
    closed.emit_terminal_event(true, out);
    closed
}

fn end_turn(machine: &mut ResponseMachine, ending: &Termination, out: &mut Events) -> Result<(), Violation> {
    let turn = machine.end_turn(false, out)?;
    if matches!(ending, Termination::Completed) {
        for call in turn.server_calls {
            machine.finish_call(call.slot, CallResult::default(), out)?;
        }
        machine.close_turn(out)?;
    }
    Ok(())
}

fn json(events: &Events) -> Vec<Value> {
    json_in(Dialect::OpenAi, events)
}

fn json_in(dialect: Dialect, events: &Events) -> Vec<Value> {
    let mut json = Vec::new();
    for event in events {
        let mut line = Vec::new();
        EventEncoder { dialect, obfuscate: false }.write_json(event, &mut line);
        json.push(serde_json::from_slice(&line).unwrap());
    }
    json
}

fn failed(violation: Violation) -> Termination {
    Termination::Failed(ErrorBody {
        message: violation.to_string(),
        kind: "server_error".into(),
        param: None,
        code: Some("upstream_malformed".into()),
    })
}

/// One line an event; responses and items shortened to what matters.
fn transcript(events: &[Value]) -> String {
    let mut lines = String::new();
    for event in events {
        let mut event = event.clone();
        let object = event.as_object_mut().unwrap();
        let kind = object.remove("type").unwrap();
        object.remove("sequence_number");
        if let Some(response) = object.get_mut("response") {
            let kept = ["status", "error", "incomplete_details", "usage", "service_tier"];
            let output = response["output"].as_array().unwrap().len();
            let mut short: serde_json::Map<_, _> =
                kept.iter().map(|key| ((*key).to_owned(), response[*key].clone())).collect();
            short.retain(|_, value| !value.is_null());
            short.insert("output".into(), output.into());
            *response = Value::Object(short);
        }
        lines.push_str(&format!("{:42} {}\n", kind.as_str().unwrap(), Value::Object(object.clone())));
    }
    lines
}

fn golden(name: &str, events: Vec<ModelEvent>, ending: Termination, options: MachineOptions) {
    let (json, _) = run(events, ending, options);
    assert_valid_stream(&json);
    insta::assert_snapshot!(name, transcript(&json));
}

/// The same events in both dialects.
fn golden_in_both(name: &str, events: Vec<ModelEvent>, ending: Termination, options: MachineOptions) {
    golden(name, events.clone(), ending.clone(), options.clone());
    let (json, _) = run_in(Dialect::OpenResponses, events, ending, options);
    assert_valid_stream(&json);
    insta::assert_snapshot!(format!("open_responses_{name}"), transcript(&json));
}

fn text(delta: &str) -> ModelEvent {
    ModelEvent::Text { delta: delta.into(), logprobs: Vec::new() }
}

fn call(slot: u32, name: &str) -> ModelEvent {
    call_of(slot, CallKind::Function, Some(&format!("call_{slot}")), name)
}

fn call_of(slot: u32, kind: CallKind, id: Option<&str>, name: &str) -> ModelEvent {
    signed(slot, kind, id, name, None)
}

/// A call that the provider sent with a signature.
fn signed(slot: u32, kind: CallKind, id: Option<&str>, name: &str, signature: Option<&str>) -> ModelEvent {
    ModelEvent::CallStarted {
        slot,
        kind,
        call_id: id.map(Into::into),
        name: name.into(),
        namespace: None,
        fields: signature.map(|signature| Box::new(fields("signature", signature))),
    }
}

fn fields(name: &str, value: &str) -> ProviderFields {
    ProviderFields::from_iter([(name.to_owned(), value.into())])
}

fn arguments(slot: u32, delta: &str) -> ModelEvent {
    ModelEvent::CallDelta { slot, delta: delta.into() }
}

fn reasoning(delta: &str) -> ModelEvent {
    ModelEvent::Reasoning(delta.into())
}

fn finish(reason: FinishReason) -> ModelEvent {
    ModelEvent::Finish(reason)
}

fn usage(input: u64, output: u64) -> ModelEvent {
    ModelEvent::Usage(Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input + output,
        ..Usage::default()
    })
}

struct Visible;

impl Seal for Visible {
    fn seal(&self, state: &ProviderState) -> String {
        format!("sealed({})", serde_json::to_string(state).unwrap())
    }

    fn seal_results(&self, call: &McpCall) -> String {
        format!("results({} bytes)", call.output.as_ref().map_or(0, String::len))
    }
}

fn sealing(reasoning: ReasoningDisplay, show_sealed: ShowSealed) -> MachineOptions {
    MachineOptions { reasoning, show_sealed, seal: Some(Arc::new(Visible)), ..MachineOptions::default() }
}

#[test]
fn text_order() {
    let events = vec![text("Hel"), text("lo"), finish(FinishReason::Stop), usage(3, 2)];
    golden("text", events, Termination::Completed, MachineOptions::default());
}

struct Wrapped;

impl SealSummary for Wrapped {
    fn seal(&self, summary: &str) -> Option<String> {
        Some(format!("sealed({summary})"))
    }
}

fn compacting() -> MachineOptions {
    MachineOptions { summary: Some(Arc::new(Wrapped)), ..sealing(ReasoningDisplay::Text, ShowSealed::Always) }
}

#[test]
fn compaction_order() {
    let events = vec![
        reasoning("What matters?"),
        text("All "),
        text("of it. "),
        finish(FinishReason::Stop),
        usage(30, 4),
    ];
    golden("compaction", events, Termination::Completed, compacting());
}

#[test]
fn half_a_summary_is_no_compaction() {
    let events = vec![text("All "), finish(FinishReason::Length), usage(30, 1)];
    let (events, finished) = run(events, Termination::Incomplete("max_output_tokens".into()), compacting());
    assert_valid_stream(&events);
    assert!(finished.snapshot.response.output.is_empty());
}

#[test]
fn a_summary_that_could_not_be_sent_back_is_a_violation() {
    let events = (0..3).map(|_| text(&"x".repeat(MAX_SUMMARY_BYTES / 2))).collect();
    let (events, finished) = run(events, Termination::Completed, compacting());
    assert_valid_stream(&events);
    assert!(finished.snapshot.json().contains("the summary is longer than"));
}

#[test]
fn empty_text_order() {
    golden("empty_text", vec![finish(FinishReason::Stop)], Termination::Completed, MachineOptions::default());
}

#[test]
fn text_with_annotation_and_logprobs_order() {
    let logprobs =
        vec![LogProb { token: "a".into(), logprob: -0.5, bytes: [97].into(), top_logprobs: [].into() }];
    let events = vec![
        ModelEvent::Text { delta: "a".into(), logprobs },
        ModelEvent::Annotation(Annotation::UrlCitation {
            url: "https://example.com".into(),
            title: "Example".into(),
            start_index: 0,
            end_index: 1,
        }),
        finish(FinishReason::Stop),
    ];
    golden(
        "annotation",
        events,
        Termination::Completed,
        MachineOptions { logprobs: true, ..MachineOptions::default() },
    );
}

#[test]
fn calls_that_one_specification_does_not_know_have_marked_names_there() {
    let server = |slot, surface, name| call_of(slot, CallKind::Server(surface), None, name);
    let events = vec![
        server(0, Presentation::Hosted(&WEB_SEARCH), "web_search"),
        arguments(0, "{\"query\":"),
        arguments(0, "\"rust\"}"),
        server(1, Presentation::Approval, "delete"),
        arguments(1, "{\"id\":1}"),
        call_of(2, CallKind::Custom, Some("call_2"), "patch"),
        arguments(2, "diff"),
        finish(FinishReason::Stop),
    ];
    let options = MachineOptions { server_steps: true, ..MachineOptions::default() };
    golden_in_both("extensions", events, Termination::Completed, options);
}

#[test]
fn a_search_that_was_cut_off_is_shown_once_it_is_known_what_it_looks_for() {
    let search = |text| {
        vec![
            call_of(0, CallKind::Server(Presentation::Hosted(&WEB_SEARCH)), None, "web_search"),
            arguments(0, text),
            finish(FinishReason::Length),
        ]
    };
    let ending = || Termination::Incomplete("max_output_tokens".into());
    let options = MachineOptions { server_steps: true, ..MachineOptions::default() };
    golden("search_cut", search("{\"query\":\"rust\"}"), ending(), options.clone());
    let (json, finished) = run(search("{\"query\":"), ending(), options);
    assert_valid_stream(&json);
    assert!(finished.snapshot.response.output.is_empty(), "nobody knows what for");
}

#[test]
fn function_call_order() {
    let events = vec![
        call(0, "get_weather"),
        arguments(0, "{\"city\":"),
        arguments(0, "\"Oslo\"}"),
        finish(FinishReason::Stop),
    ];
    golden("function_call", events, Termination::RequiresAction, MachineOptions::default());
}

#[test]
fn parallel_calls_are_written_one_after_the_other() {
    let events = vec![
        text("Let me look."),
        call(0, "a"),
        arguments(0, "{\"x\""),
        call(1, "b"),
        arguments(1, "{\"y\":2}"),
        arguments(0, ":1}"),
        call(2, "c"),
        finish(FinishReason::Stop),
    ];
    golden("parallel_calls", events, Termination::RequiresAction, MachineOptions::default());
}

#[test]
fn custom_tool_order() {
    let events = vec![
        call_of(0, CallKind::Custom, None, "apply_patch"),
        arguments(0, "*** Begin Patch\n"),
        finish(FinishReason::Stop),
    ];
    golden("custom_tool", events, Termination::RequiresAction, MachineOptions::default());
}

#[test]
fn reasoning_text_order() {
    let events = vec![reasoning("I th"), reasoning("ink"), text("So."), finish(FinishReason::Stop)];
    golden("reasoning_text", events, Termination::Completed, MachineOptions::default());
}

#[test]
fn reasoning_summary_order() {
    let events = vec![reasoning("I think"), text("So."), reasoning("More"), finish(FinishReason::Stop)];
    golden(
        "reasoning_summary",
        events,
        Termination::Completed,
        sealing(ReasoningDisplay::Summary, ShowSealed::Always),
    );
}

#[test]
fn hidden_reasoning_order() {
    let events = vec![reasoning("secret"), call(0, "f"), finish(FinishReason::Stop)];
    golden(
        "reasoning_hidden",
        events,
        Termination::RequiresAction,
        sealing(ReasoningDisplay::Hidden, ShowSealed::Never),
    );
}

#[test]
fn refusal_order() {
    let events = vec![text("Well, "), ModelEvent::Refusal("I can't".into()), finish(FinishReason::Stop)];
    golden("refusal", events, Termination::Completed, MachineOptions::default());
}

#[test]
fn length_order() {
    let events = vec![text("And th"), finish(FinishReason::Length), usage(1, 16)];
    golden("length", events, Termination::Incomplete("max_output_tokens".into()), MachineOptions::default());
}

#[test]
fn a_cut_call_is_incomplete() {
    let events = vec![call(0, "f"), arguments(0, "{\"a\":"), finish(FinishReason::Length)];
    golden(
        "length_in_call",
        events,
        Termination::Incomplete("max_output_tokens".into()),
        MachineOptions::default(),
    );
}

#[test]
fn content_filter_order() {
    let events = vec![finish(FinishReason::ContentFilter)];
    golden(
        "content_filter",
        events,
        Termination::Incomplete("content_filter".into()),
        MachineOptions::default(),
    );
}

#[test]
fn error_order() {
    golden_in_both("error", vec![text("par")], failed(Violation::UnknownCall), MachineOptions::default());
}

#[test]
fn cancel_order() {
    golden(
        "cancelled",
        vec![reasoning("hm"), text("par")],
        Termination::Cancelled,
        MachineOptions::default(),
    );
}

#[test]
fn late_arguments_fail_the_response_and_keep_what_was_received() {
    let events = vec![call(0, "f"), arguments(0, "{}"), text("x"), arguments(0, "{\"a\":1}")];
    golden("late_arguments", events, Termination::Completed, MachineOptions::default());
}

#[test]
fn two_calls_with_one_id_get_two() {
    let one = || call_of(0, CallKind::Function, Some("call_x"), "f");
    let two = call_of(1, CallKind::Function, Some("call_x"), "f");
    let (json, _) = run(
        vec![one(), two, finish(FinishReason::Stop)],
        Termination::RequiresAction,
        MachineOptions::default(),
    );
    assert_valid_stream(&json);
}

#[test]
fn state_that_comes_after_its_reasoning_counts_for_the_history() {
    let state = ModelEvent::ReasoningState(fields("signature", "s"));
    let events = vec![reasoning("a"), text("b"), state, finish(FinishReason::Stop)];
    let (_, finished) =
        run(events, Termination::Completed, sealing(ReasoningDisplay::Text, ShowSealed::Never));
    assert_eq!(finished.sealed[&1], r#"sealed({"text":"","fields":{"signature":"s"}})"#);
}

#[test]
fn raw_reasoning_has_a_name_of_its_own_in_each_dialect() {
    assert_eq!(Dialect::OpenAi.reasoning_delta(), "response.reasoning_text.delta");
    assert_eq!(Dialect::OpenResponses.reasoning_delta(), "response.reasoning.delta");
}

/// The arguments of a third call once waited behind the beginning of the fourth, and came too late.
#[test]
fn pieces_of_three_interleaved_calls_find_their_calls() {
    for kind in
        [CallKind::Function, CallKind::Server(Presentation::Mcp), CallKind::Server(Presentation::Hidden)]
    {
        let ids = IdGenerator::from_seed("0000");
        let mut machine = ResponseMachine::new(blank_response(&ids), ids, MachineOptions::default());
        let mut out = Vec::new();
        machine.start(&mut out);
        let begin = |slot| [call_of(slot, kind, None, "f"), arguments(slot, "{\"n\":")];
        let events = (0..3).flat_map(begin).chain((0..3).map(|slot| arguments(slot, &format!("{slot}}}"))));
        for event in events {
            machine.push(event, &mut out).unwrap();
        }
        let turn = machine.end_turn(false, &mut out).unwrap();
        for call in &turn.server_calls {
            assert_eq!(call.call.arguments, format!("{{\"n\":{}}}", call.slot));
            machine.finish_call(call.slot, CallResult::default(), &mut out).unwrap();
        }
        machine.close_turn(&mut out).unwrap();
        let finished = end(machine, Termination::Completed, &mut out);
        assert_valid_stream(&json(&out));
        let output = serde_json::to_value(&finished.snapshot.response.output).unwrap();
        for slot in 0..3 {
            assert_eq!(output[slot]["arguments"], format!("{{\"n\":{slot}}}"));
        }
    }
}
