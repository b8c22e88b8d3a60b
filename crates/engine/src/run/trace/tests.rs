use super::*;

/// Each turn is encoded once, however many commits it is part of.
#[test]
fn finished_turns_are_kept_apart_and_put_back_in_their_order() {
    #[derive(Serialize)]
    struct State<'a>(#[serde(serialize_with = "unfinished")] &'a RunTrace);
    let mut trace = RunTrace::default();
    trace.begin(Instant::now(), "main", "gpt");
    for turn in 0..3 {
        trace.begin_turn();
        let call =
            CallRecord { call_id: format!("mcp_{turn}"), name: "noop".into(), ..CallRecord::default() };
        trace.begin_calls([call].into_iter());
        trace.end_call(0, CallOutcomeKind::Completed, None, Some(&OutputMeta::default()));
    }
    let state = serde_json::to_string(&State(&trace)).unwrap();
    let mut read: RunTrace = serde_json::from_str(&state).unwrap();
    assert_eq!(read.turns, trace.turns[2..]);
    read.restore(trace.finished()).unwrap();
    assert_eq!(read, trace);
    read.begin_turn();
    assert_eq!(serde_json::Deserializer::from_slice(read.finished()).into_iter::<TurnTrace>().count(), 3);
    assert!(read.restore(b"{").is_none());
}

/// A process that takes a run over lists the tools again, and that is no time in the queue.
#[test]
fn a_list_of_tools_ends_the_wait_before_it() {
    let mut trace = RunTrace::default();
    let began = Instant::now();
    trace.begin(began, "main", "gpt");
    let at = |ms: u64| began + Duration::from_millis(ms);
    trace.add_wait(WaitKind::Client, Interval { from: at(0), to: at(50) });
    trace.add_wait(WaitKind::Queue, Interval { from: at(100), to: at(900) });
    trace.add_listing(Interval { from: at(300), to: at(880) });
    let times: Vec<_> = trace.waits.iter().map(|wait| (wait.kind, wait.to.unwrap() - wait.from)).collect();
    for ((kind, ms), (wanted, about)) in
        times.into_iter().zip([(WaitKind::Client, 50), (WaitKind::Queue, 200), (WaitKind::McpListTools, 580)])
    {
        assert!(kind == wanted && (ms - about).abs() < 40, "{kind:?} took {ms} ms");
    }
}
