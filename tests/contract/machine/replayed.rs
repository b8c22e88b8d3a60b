//! A turn whose process was lost after any of its events: another machine takes over what was sent, closes it, and goes on.

use antwort_response::machine::SeenEvent;

use super::*;
use antwort_test_support::stream_validator::assert_valid_resumed_stream;

fn machine(dialect: Dialect, options: &MachineOptions) -> ResponseMachine {
    let ids = IdGenerator::from_seed("0000");
    let mut response = blank_response(&ids);
    response.output = OutputItems::new(dialect);
    ResponseMachine::new(response, ids, options.clone())
}

/// A machine in the state that was stored when the run began.
fn begun(dialect: Dialect, options: &MachineOptions) -> (ResponseMachine, Events) {
    let (mut machine, mut out) = (machine(dialect, options), Events::new());
    machine.start(&mut out);
    (machine, out)
}

/// Loses the process after each step of a turn.
fn lose_anywhere(dialect: Dialect, events: &[ModelEvent], options: &MachineOptions) {
    for lost in 0..=events.len() {
        let (mut first, mut sent) = begun(dialect, options);
        for event in &events[..lost] {
            first.push(event.clone(), &mut sent).unwrap();
        }
        let mut stream = json_in(dialect, &sent);
        let (mut second, known) = begun(dialect, options);
        let seen: Vec<SeenEvent> = stream[known.len()..]
            .iter()
            .map(|event| {
                serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{error}: {event}"))
            })
            .collect();
        let (is_any, mut out) = (first.response().output.len(), Events::new());
        let replayed = second.replay(seen, stream.len() as u64, true, &mut out).unwrap();
        assert_eq!(replayed, is_any > 0);
        for place in 0..is_any {
            assert!(second.is_abandoned(u32::try_from(place).unwrap()), "the model does not see it");
        }
        let output = second.response().output.clone();
        second.push(text("Again."), &mut out).unwrap();
        second.push(finish(FinishReason::Stop), &mut out).unwrap();
        second.end_turn(false, &mut out).unwrap();
        second.close_turn(&mut out).unwrap();
        assert_eq!(output[..], second.response().output[..output.len()], "what was taken over stays");
        let closed = end(second, Termination::Completed, &mut out);
        stream.extend(json_in(dialect, &out));
        assert_valid_resumed_stream(&stream);
        let last = u32::try_from(closed.snapshot.response.output.len() - 1).unwrap();
        assert!(!closed.abandoned.contains(&last), "the answer is the model's");
    }
}

#[test]
fn what_was_sent_of_a_turn_is_taken_over_at_any_point() {
    let server = |presentation| {
        vec![
            call_of(1, CallKind::Server(presentation), None, "tool"),
            arguments(1, r#"{"a":"#),
            arguments(1, "1}"),
        ]
    };
    let turns = [
        vec![reasoning("Hm. "), reasoning("Well."), text("Hel"), text("lo")],
        vec![text("No: "), ModelEvent::Refusal("I can".into()), ModelEvent::Refusal("not".into())],
        vec![
            ModelEvent::ReasoningSummary("In short".into()),
            call(0, "f"),
            arguments(0, "{"),
            arguments(0, "}"),
        ],
        vec![call_of(0, CallKind::Custom, Some("call_1"), "c"), arguments(0, "input")],
        [vec![text("So:")], server(Presentation::Mcp)].concat(),
        [vec![text("So:")], server(Presentation::Extension)].concat(),
        [vec![text("So:")], server(Presentation::Hidden)].concat(),
    ];
    for turn in &turns {
        for dialect in [Dialect::OpenAi, Dialect::OpenResponses] {
            let steps = MachineOptions { server_steps: true, ..MachineOptions::default() };
            lose_anywhere(dialect, turn, &steps);
            let summary = MachineOptions { reasoning: ReasoningDisplay::Summary, ..steps };
            lose_anywhere(dialect, turn, &summary);
        }
    }
}
