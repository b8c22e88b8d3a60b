//! Properties of the response machine: any order of model events gives a legal stream.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Whatever a model does, the stream is legal and its fold is the response.
    #[test]
    fn any_answer_gives_a_legal_stream(
        events in prop::collection::vec(any_event(), 0..40),
        display in any_display(),
        sealed in any_sealed(),
        compacts in any::<bool>(),
        ending in 0..3_usize,
    ) {
        let cut = events.iter().find_map(|event| match event {
            ModelEvent::Finish(reason) => Some(*reason),
            _ => None,
        });
        // The engine ends a response as the model's finish reason says; cancel and failure come at any time.
        let ending = match (ending, cut) {
            (1, _) => Termination::Cancelled,
            (2, _) => failed(Violation::UnknownCall),
            (_, Some(FinishReason::Length | FinishReason::ContentFilter)) => Termination::Incomplete("max_output_tokens".into()),
            _ => Termination::Completed,
        };
        let options = if compacts { compacting() } else { sealing(display, sealed) };
        let (json, finished) = run(events, ending, options);
        let verdict = assert_valid_stream(&json);
        let stored: Value = serde_json::from_str(finished.snapshot.json()).unwrap();
        prop_assert_eq!(verdict.response, stored);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Whatever a model asks the gateway to run, in several turns that end at any point.
    #[test]
    fn any_run_with_server_calls_gives_a_legal_stream_and_shows_each_result_once(
        surfaces in any_surfaces(),
        turns in prop::collection::vec((prop::collection::vec(any_event(), 0..20), any_results()), 1..4),
        stop_after in prop::option::of(0..8_usize),
        ending in 0..3_usize,
        steps in any::<bool>(),
        sealed in any_sealed(),
    ) {
        let ids = IdGenerator::from_seed("0000");
        let options = MachineOptions { server_steps: steps, ..sealing(ReasoningDisplay::Text, sealed) };
        let machine = ResponseMachine::new(blank_response(&ids), ids, options);
        let mut play = Play { machine, out: Vec::new(), finished: 0, stop_after, resumes: None };
        let result = play.turns(&turns, &surfaces);
        let ending = match (result, ending) {
            (Err(violation), _) => failed(violation),
            (Ok(Stopped::Cut), 0 | 1) => Termination::Incomplete("max_output_tokens".into()),
            (Ok(Stopped::AmongCalls), 0) => Termination::Cancelled,
            (Ok(Stopped::AmongCalls), 1) => Termination::Incomplete("max_seconds".into()),
            (Ok(Stopped::AtEnd), 0) => Termination::Completed,
            (Ok(Stopped::AtEnd), 1) => Termination::Incomplete("max_turns".into()),
            _ => failed(Violation::UnknownCall),
        };
        let Play { machine, mut out, .. } = play;
        let finished = end(machine, ending, &mut out);
        let verdict = assert_valid_stream(&json(&out));
        let stored: Value = serde_json::from_str(finished.snapshot.json()).unwrap();
        prop_assert_eq!(verdict.response, stored);
        let places = finished.snapshot.response.output.len() as u32;
        prop_assert!(finished.history.keys().chain(finished.sealed.keys()).all(|place| *place < places));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The machine that another process makes of what was committed with a turn goes on as the first one would have.
    #[test]
    fn a_machine_that_is_resumed_at_each_committed_turn_writes_the_same_stream(
        surfaces in any_surfaces(),
        turns in prop::collection::vec((prop::collection::vec(any_event(), 0..20), any_results()), 1..4),
        stop_after in prop::option::of(0..8_usize),
        steps in any::<bool>(),
        sealed in any_sealed(),
    ) {
        let options = MachineOptions { server_steps: steps, ..sealing(ReasoningDisplay::Text, sealed) };
        let play = |resumes: Option<MachineOptions>| {
            let ids = IdGenerator::from_seed("0000");
            let machine = ResponseMachine::new(blank_response(&ids), ids, options.clone());
            let mut play = Play { machine, out: Vec::new(), finished: 0, stop_after, resumes };
            let result = play.turns(&turns, &surfaces);
            let ending = result.map_or_else(failed, |_| Termination::Cancelled);
            let Play { machine, mut out, .. } = play;
            let closed = end(machine, ending, &mut out);
            (json(&out), closed.snapshot.json().to_owned())
        };
        prop_assert_eq!(play(None), play(Some(options.clone())));
    }
}

enum Stopped {
    AtEnd,
    Cut,
    AmongCalls,
}

/// A run as the engine makes it.
struct Play {
    machine: ResponseMachine,
    out: Events,
    finished: usize,
    stop_after: Option<usize>,
    /// Where the machine is to be resumed from what is committed with each turn: its options.
    resumes: Option<MachineOptions>,
}

impl Play {
    fn turns(
        &mut self,
        turns: &[(Vec<ModelEvent>, Vec<CallResult>)],
        surfaces: &[CallKind; 3],
    ) -> Result<Stopped, Violation> {
        self.machine.start(&mut self.out);
        let mut result = Ok(Stopped::AtEnd);
        for (events, results) in turns {
            result = self.turn(of_surfaces(events.clone(), surfaces), results);
            if !matches!(result, Ok(Stopped::AtEnd)) {
                break;
            }
        }
        result
    }

    /// Replaces the machine by one made of what is committed before calls are dispatched, where that is to be done.
    fn resume(&mut self, calls: &[ServerCall]) -> bool {
        let Some(options) = self.resumes.clone() else { return false };
        let state = serde_json::to_vec(&self.machine.save(calls)).unwrap();
        let state: MachineState = serde_json::from_slice(&state).unwrap();
        assert_eq!(state.calls().len(), calls.len());
        let before = self.machine.response();
        let body = ResponseSnapshot::new(before.clone());
        let mut response = Response::from_stored(body.json(), before.output.dialect()).unwrap();
        for item in &before.output[..state.unfinished()] {
            let wire = serde_json::to_string(&item.in_dialect(before.output.dialect(), false)).unwrap();
            response.output.push(serde_json::from_str(&wire).unwrap());
        }
        self.machine = ResponseMachine::resume(response, state, options);
        true
    }

    fn turn(&mut self, events: Vec<ModelEvent>, results: &[CallResult]) -> Result<Stopped, Violation> {
        let asked = self.machine.approval_requests().len();
        for event in events {
            self.machine.push(event, &mut self.out)?;
        }
        let turn = self.machine.end_turn(false, &mut self.out)?;
        if matches!(turn.finish, Some(FinishReason::Length | FinishReason::ContentFilter)) {
            return Ok(Stopped::Cut);
        }
        if !self.resume(&turn.server_calls) {
            self.machine.dispatch_calls();
        }
        let mut made = Vec::new();
        for (call, result) in turn.server_calls.iter().zip(results.iter().cycle()) {
            if self.stop_after == Some(self.finished) {
                return Ok(Stopped::AmongCalls);
            }
            let output = format!("<{}>", self.finished);
            self.finished += 1;
            let result = CallResult { output: output.clone(), ..result.clone() };
            let first = self.machine.first_unfinished();
            assert!(first < self.machine.response().output.len(), "an unfinished call is not whole");
            self.machine.finish_call(call.slot, result, &mut self.out)?;
            made.push((call, output));
        }
        self.machine.close_turn(&mut self.out)?;
        assert_eq!(
            self.machine.approval_requests().len(),
            asked + turn.approval_calls,
            "each call that needs approval is asked for"
        );
        assert_eq!(self.machine.first_unfinished(), self.machine.response().output.len());
        for (call, output) in made {
            self.assert_visible_once(call, &output);
        }
        Ok(Stopped::AtEnd)
    }

    fn assert_visible_once(&self, call: &ServerCall, output: &str) {
        let items =
            (0..self.machine.response().output.len()).filter_map(|place| self.machine.visible(place as u32));
        let shows: Vec<&Item> =
            items.filter(|item| serde_json::to_string(item).unwrap().contains(output)).collect();
        let [shown] = shows[..] else { panic!("{output} of {call:?} is shown by {shows:?}") };
        let (name, arguments) = match shown {
            Item::McpCall(call) => (&call.name, &call.arguments),
            Item::ServerToolCall(call) => (&call.name, &call.arguments),
            other => panic!("{output} is in {other:?}"),
        };
        assert_eq!(name, &call.call.name);
        let asked = call.call.arguments.trim();
        assert_eq!(arguments.trim(), if asked.is_empty() { "{}" } else { asked });
    }
}

/// Kinds of calls that may stand side by side in a run.
fn any_surfaces() -> impl Strategy<Value = [CallKind; 3]> {
    let all = [
        (Presentation::Mcp, Presentation::Hosted(&WEB_SEARCH)),
        (Presentation::Extension, Presentation::Hosted(&WEB_SEARCH)),
        (Presentation::Hidden, Presentation::Hidden),
        (Presentation::Mcp, Presentation::Approval),
        (Presentation::Hidden, Presentation::Approval),
    ];
    prop::sample::select(all.to_vec())
        .prop_map(|(a, b)| [CallKind::Server(a), CallKind::Server(b), CallKind::Function])
}

fn any_results() -> impl Strategy<Value = Vec<CallResult>> {
    let one = (prop::option::of(Just("tool_timeout")), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(error, skipped, search, told)| CallResult {
            error: error.filter(|_| !skipped).map(Into::into),
            skipped,
            sources: search.then(Vec::new),
            user_message: told.then(|| "Look.".to_owned()),
            ..CallResult::default()
        },
    );
    prop::collection::vec(one, 1..5)
}

/// The events with calls as translators give them: numbered in order, and arguments of calls that have begun.
fn of_surfaces(events: Vec<ModelEvent>, kinds: &[CallKind; 3]) -> Vec<ModelEvent> {
    let mut begun = 0_u32;
    let mut numbered = Vec::new();
    for event in events {
        match event {
            ModelEvent::CallStarted { slot, call_id, name, namespace, fields, .. } => {
                let kind = kinds[slot as usize % 3];
                numbered.push(ModelEvent::CallStarted {
                    slot: begun,
                    kind,
                    call_id,
                    name,
                    namespace,
                    fields,
                });
                begun += 1;
            }
            ModelEvent::CallDelta { .. } if begun == 0 => {}
            ModelEvent::CallDelta { slot, delta } => {
                // The latest calls get most.
                let slot = begun - 1 - slot.min(begun - 1);
                numbered.push(ModelEvent::CallDelta { slot, delta });
            }
            event => numbered.push(event),
        }
    }
    numbered
}

fn any_event() -> impl Strategy<Value = ModelEvent> {
    let delta = || "[a-z\\{\\}\"é\n]{1,6}".prop_map(String::from);
    prop_oneof![
        4 => delta().prop_map(|delta| ModelEvent::Text { delta, logprobs: Vec::new() }),
        1 => delta().prop_map(ModelEvent::Refusal),
        2 => delta().prop_map(ModelEvent::Reasoning),
        1 => delta().prop_map(ModelEvent::ReasoningSummary),
        3 => (0..4_u32, any_kind(), prop::option::of("[a-c]{0,2}"), "[a-z]{1,3}").prop_map(
            |(slot, kind, call_id, name)| ModelEvent::CallStarted {
                slot,
                kind,
                call_id,
                name,
                namespace: None,
                fields: (slot == 0).then(|| Box::new(fields("signature", "s"))),
            }
        ),
        4 => (0..4_u32, prop_oneof![delta(), Just("{}".to_owned()), Just("{\"a\":1}".to_owned())])
            .prop_map(|(slot, delta)| ModelEvent::CallDelta { slot, delta }),
        1 => (0..9_u64, 0..9_u64).prop_map(|(input, output)| usage(input, output)),
        1 => prop_oneof![Just(FinishReason::Stop), Just(FinishReason::Length), Just(FinishReason::ContentFilter)]
            .prop_map(ModelEvent::Finish),
        1 => prop_oneof![Just(ProviderFields::new()), Just(fields("signature", "s"))].prop_map(ModelEvent::ReasoningState),
        1 => (0..4_u32).prop_map(|slot| ModelEvent::CallState { slot, fields: Box::new(fields("signature", "s")) }),
    ]
}

fn any_kind() -> impl Strategy<Value = CallKind> {
    let server = [
        Presentation::Mcp,
        Presentation::Extension,
        Presentation::Hosted(&WEB_SEARCH),
        Presentation::Hidden,
        Presentation::Approval,
    ]
    .map(CallKind::Server);
    prop::sample::select([&[CallKind::Function, CallKind::Custom][..], &server].concat())
}

fn any_display() -> impl Strategy<Value = ReasoningDisplay> {
    prop_oneof![Just(ReasoningDisplay::Text), Just(ReasoningDisplay::Summary), Just(ReasoningDisplay::Hidden)]
}

fn any_sealed() -> impl Strategy<Value = ShowSealed> {
    prop_oneof![Just(ShowSealed::Never), Just(ShowSealed::Needed), Just(ShowSealed::Always)]
}
