//! Where the state of providers stands in a stream, and where it is kept.

use super::*;

fn state(value: &str) -> ModelEvent {
    ModelEvent::ReasoningState(fields("details", value))
}

fn late(slot: u32, signature: &str) -> ModelEvent {
    ModelEvent::CallState { slot, fields: Box::new(fields("signature", signature)) }
}

fn function(slot: u32, signature: Option<&str>) -> Vec<ModelEvent> {
    let id = format!("call_{slot}");
    vec![signed(slot, CallKind::Function, Some(&id), "f", signature), arguments(slot, "{}")]
}

fn stop() -> Vec<ModelEvent> {
    vec![finish(FinishReason::Stop)]
}

fn carried(display: ReasoningDisplay) -> MachineOptions {
    sealing(display, ShowSealed::Needed)
}

fn stored(display: ReasoningDisplay) -> MachineOptions {
    sealing(display, ShowSealed::Never)
}

#[test]
fn state_stands_before_the_call_that_it_comes_with() {
    let events = [function(0, Some("a")), function(1, Some("b")), stop()].concat();
    golden("state_before_calls", events, Termination::RequiresAction, carried(ReasoningDisplay::Text));
    let events = [vec![text("Well."), state("d")], function(0, Some("a")), stop()].concat();
    golden("state_amid_an_answer", events, Termination::RequiresAction, carried(ReasoningDisplay::Text));
}

#[test]
fn state_that_comes_while_reasoning_is_open_is_in_that() {
    let events = [vec![reasoning("Hm."), state("d")], function(0, Some("a")), stop()].concat();
    golden("state_with_reasoning", events, Termination::RequiresAction, carried(ReasoningDisplay::Text));
}

#[test]
fn state_that_comes_late_stands_behind_the_answer() {
    let events = [function(0, None), function(1, None), vec![late(0, "a"), late(1, "b"), state("d")], stop()];
    golden(
        "state_behind_calls",
        events.concat(),
        Termination::RequiresAction,
        carried(ReasoningDisplay::Text),
    );
    let events = vec![reasoning("Hm."), text("So."), state("d"), finish(FinishReason::Stop)];
    golden("state_behind_text", events, Termination::Completed, carried(ReasoningDisplay::Text));
}

#[test]
fn what_a_search_found_is_carried_behind_it() {
    let ids = IdGenerator::from_seed("0000");
    let mut machine = ResponseMachine::new(blank_response(&ids), ids, carried(ReasoningDisplay::Text));
    let mut out = Vec::new();
    machine.start(&mut out);
    let search = || CallKind::Server(Presentation::Hosted(&WEB_SEARCH));
    for event in [signed(0, search(), None, "web_search", Some("a")), arguments(0, "{\"query\":\"x\"}")] {
        machine.push(event, &mut out).unwrap();
    }
    let turn = machine.end_turn(false, &mut out).unwrap();
    // Neither do clients carry what is longer than they should have to.
    let result = CallResult { output: "é".repeat(40_000), ..CallResult::default() };
    machine.finish_call(turn.server_calls[0].slot, result, &mut out).unwrap();
    machine.close_turn(&mut out).unwrap();
    end(machine, Termination::Completed, &mut out);
    let json = json(&out);
    assert_valid_stream(&json);
    insta::assert_snapshot!("search_results", transcript(&json));
}

#[test]
fn stored_state_stands_beside_the_calls_and_is_not_shown() {
    let events = [vec![reasoning("Hm."), state("d")], function(0, Some("a")), function(1, Some("b")), stop()];
    let (json, finished) =
        run(events.concat(), Termination::RequiresAction, stored(ReasoningDisplay::Hidden));
    assert!(!Value::from(json).to_string().contains("sealed("));
    assert_eq!(
        finished.sealed.into_iter().collect::<Vec<_>>(),
        [
            (
                1,
                r#"sealed({"text":"Hm.","fields":{"details":"d"},"calls":{"call_0":{"signature":"a"}}})"#
                    .to_owned()
            ),
            (
                2,
                r#"sealed({"text":"","fields":{},"calls":{"call_1":{"signature":"b"}},"place":"within"})"#
                    .to_owned()
            ),
        ]
    );
}

/// The call was never made: a continuation does not have it, and would not find the state beside it.
#[test]
fn state_of_an_answer_whose_call_was_cut_off_stays_with_its_reasoning() {
    let events = vec![
        reasoning("Hm."),
        state("d"),
        call(0, "f"),
        arguments(0, "{\"x\""),
        finish(FinishReason::Length),
    ];
    let ending = Termination::Incomplete("max_output_tokens".into());
    let (_, finished) = run(events, ending, stored(ReasoningDisplay::Text));
    assert_eq!(finished.sealed.keys().collect::<Vec<_>>(), [&0]);
}

/// Condition `text and fields` of what is empty was once not held by any test.
#[test]
fn a_signature_without_text_is_sealed() {
    for options in [
        carried(ReasoningDisplay::Hidden),
        carried(ReasoningDisplay::Text),
        sealing(ReasoningDisplay::Text, ShowSealed::Always),
    ] {
        let summary = ModelEvent::ReasoningSummary("In short.".into());
        for events in [vec![summary, state("s"), text("So.")], vec![state("s"), text("So.")]] {
            let (json, finished) = run([events, stop()].concat(), Termination::Completed, options.clone());
            assert_valid_stream(&json);
            let output = serde_json::to_value(&finished.snapshot.response.output).unwrap();
            assert_eq!(output[0]["type"], "reasoning", "{output:#}");
            let sealed = r#"sealed({"text":"","fields":{"details":"s"}})"#;
            assert_eq!(output[0]["encrypted_content"], sealed, "{output:#}");
        }
    }
    // Plain reasoning that is shown in full needs none, and what asks for it gets it.
    for (shown, sealed) in [(ShowSealed::Needed, false), (ShowSealed::Always, true)] {
        let events = vec![reasoning("Hm."), text("So."), finish(FinishReason::Stop)];
        let (_, finished) = run(events, Termination::Completed, sealing(ReasoningDisplay::Text, shown));
        let output = serde_json::to_value(&finished.snapshot.response.output).unwrap();
        assert_eq!(output[0].get("encrypted_content").is_some(), sealed, "{output:#}");
    }
}

#[test]
fn state_of_a_silent_answer_is_there_for_the_next_turn() {
    for (options, loose) in [(stored(ReasoningDisplay::Text), true), (carried(ReasoningDisplay::Text), false)]
    {
        let ids = IdGenerator::from_seed("0000");
        let mut machine = ResponseMachine::new(blank_response(&ids), ids, options);
        let mut out = Vec::new();
        machine.start(&mut out);
        machine.push(state("d"), &mut out).unwrap();
        machine.push(finish(FinishReason::Stop), &mut out).unwrap();
        // All that the model said was kept back by the gate.
        machine.end_turn(true, &mut out).unwrap();
        let turn = machine.close_turn(&mut out).unwrap();
        assert_eq!(turn.orphan_state.is_some(), loose);
        assert_eq!(turn.states.contains_key(&0), !loose);
    }
}

/// A half-written call of an answer that was cut was once put to a person, if something came behind it.
#[test]
fn a_half_written_call_of_a_cut_answer_is_put_to_nobody() {
    let asked = call_of(0, CallKind::Server(Presentation::Approval), None, "delete");
    for reason in [FinishReason::Length, FinishReason::ContentFilter] {
        let events = vec![asked.clone(), arguments(0, "{\"path\":"), text("Now"), finish(reason)];
        let (json, finished) =
            run(events, Termination::Incomplete("max_output_tokens".into()), MachineOptions::default());
        assert_valid_stream(&json);
        assert!(finished.approval_requests.is_empty(), "{:?}", finished.approval_requests);
        let output = serde_json::to_value(&finished.snapshot.response.output).unwrap();
        assert_eq!(output[0]["type"], "message", "{output:#}");
    }
}

#[test]
fn calls_of_custom_tools_with_one_id_get_two() {
    for first in [CallKind::Custom, CallKind::Function] {
        let begun = |slot, kind| call_of(slot, kind, Some("call_x"), "f");
        let events = vec![
            begun(0, first),
            arguments(0, "{}"),
            begun(1, CallKind::Custom),
            arguments(1, "x"),
            finish(FinishReason::Stop),
        ];
        let (_, finished) = run(events, Termination::RequiresAction, MachineOptions::default());
        let output = serde_json::to_value(&finished.snapshot.response.output).unwrap();
        assert_eq!(output[0]["call_id"], "call_x");
        assert_ne!(output[1]["call_id"], "call_x", "{output:#}");
    }
}
