//! Providers: what they add to their text is counted, what they send for nobody is not kept.

use antwort::protocol::content::{Annotation, LogProb, TopLogProb};
use antwort::protocol::id::IdGenerator;
use antwort::protocol::response::RunOutcome;
use antwort_response::machine::{
    CallResult, Events, MAX_ANNOTATIONS, MachineOptions, ReasoningDisplay, ResponseMachine, ShowSealed,
    Termination,
};
use antwort_response::presentation::Presentation;
use antwort_response::presentation::web_search_call::PRESENTER as WEB_SEARCH;
use antwort_response::seal::SealKeys;
use antwort_response::turn::{CallKind, ModelEvent, ProviderFields};
use proptest::prelude::*;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, text_of};
use antwort_test_support::response::blank_response;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

/// No text becomes longer than this in a snapshot, by escapes and by being sealed, once in an item and once in the
/// history of it.
const FACTOR: usize = 24;
/// What a response says of itself, and an empty message.
const CONSTANT: usize = 4 * 1024;

fn cited(url: &str) -> ModelEvent {
    ModelEvent::Annotation(Annotation::UrlCitation {
        url: url.into(),
        title: String::new(),
        start_index: 0,
        end_index: 1,
    })
}

fn any_logprobs() -> impl Strategy<Value = Vec<LogProb>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..6);
    let other = || {
        (".{0,3}", bytes()).prop_map(|(token, bytes)| TopLogProb {
            token: token.into(),
            logprob: -1.25,
            bytes: bytes.into(),
        })
    };
    let one = (".{0,3}", bytes(), prop::collection::vec(other(), 0..20)).prop_map(
        |(token, bytes, top_logprobs)| LogProb {
            token: token.into(),
            logprob: -0.123_456_789,
            bytes: bytes.into(),
            top_logprobs: top_logprobs.into(),
        },
    );
    prop::collection::vec(one, 0..6)
}

fn any_fields() -> impl Strategy<Value = ProviderFields> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<f64>().prop_map(Value::from), ".{0,9}".prop_map(Value::from)];
    let value = leaf.prop_recursive(3, 30, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-c]{0,2}", inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    });
    prop::collection::vec(("[a-c]{1,2}", value), 0..3).prop_map(|pairs| pairs.into_iter().collect())
}

/// Pieces with hardly any text in them, and with text that JSON makes longer.
fn any_event() -> impl Strategy<Value = ModelEvent> {
    let delta = || "[a\u{0}\u{1f}\"é]{1,3}".prop_map(String::from);
    let kinds = [
        CallKind::Function,
        CallKind::Custom,
        CallKind::Server(Presentation::Mcp),
        CallKind::Server(Presentation::Hosted(&WEB_SEARCH)),
        CallKind::Server(Presentation::Approval),
        CallKind::Server(Presentation::Hidden),
    ];
    prop_oneof![
        3 => (delta(), any_logprobs()).prop_map(|(delta, logprobs)| ModelEvent::Text { delta, logprobs }),
        2 => delta().prop_map(ModelEvent::Refusal),
        2 => delta().prop_map(ModelEvent::Reasoning),
        1 => delta().prop_map(ModelEvent::ReasoningSummary),
        3 => "[a\u{0}]{0,3}".prop_map(|url| cited(&url)),
        2 => (0..4_u32, prop::sample::select(kinds.to_vec()), "[a-z]{1,2}", prop::option::of(any_fields())).prop_map(
            |(slot, kind, name, fields)| ModelEvent::CallStarted {
                slot,
                kind,
                call_id: None,
                name,
                namespace: None,
                fields: fields.map(Box::new),
            }
        ),
        3 => (0..4_u32, prop_oneof![delta(), Just("{}".to_owned())])
            .prop_map(|(slot, delta)| ModelEvent::CallDelta { slot, delta }),
        1 => any_fields().prop_map(ModelEvent::ReasoningState),
        1 => (0..4_u32, any_fields()).prop_map(|(slot, fields)| ModelEvent::CallState { slot, fields: Box::new(fields) }),
    ]
}

fn any_result() -> impl Strategy<Value = CallResult> {
    (".{0,20}", prop::collection::vec("[a-z]{0,3}", 0..9), prop::option::of(".{0,9}")).prop_map(
        |(output, sources, user_message)| CallResult {
            output,
            sources: Some(sources),
            user_message,
            ..CallResult::default()
        },
    )
}

fn options(display: ReasoningDisplay, show_sealed: ShowSealed) -> MachineOptions {
    let keys = SealKeys::new(&[SealKeys::generate()]).unwrap();
    MachineOptions {
        reasoning: display,
        logprobs: true,
        seal: Some(keys.bound_to("tenant", "provider")),
        show_sealed,
        server_steps: true,
        summary: None,
    }
}

fn machine(options: MachineOptions) -> ResponseMachine {
    let ids = IdGenerator::from_seed("0000");
    ResponseMachine::new(blank_response(&ids), ids, options)
}

/// Everything that is kept of a response that has ended, in bytes of JSON, and what was counted of it.
fn kept_and_counted(
    events: Vec<ModelEvent>,
    results: Vec<CallResult>,
    options: MachineOptions,
) -> (usize, usize) {
    let (mut machine, mut out) = (machine(options), Events::new());
    machine.start(&mut out);
    for event in events {
        // The run ends with the first violation.
        if machine.push(event, &mut out).is_err() {
            break;
        }
    }
    if let Ok(turn) = machine.end_turn(false, &mut out) {
        for (call, result) in turn.server_calls.iter().zip(results) {
            if machine.finish_call(call.slot, result, &mut out).is_err() {
                break;
            }
        }
    }
    // What closes the response adds items for what was counted: the last look is before it.
    let counted = machine.bytes();
    let closed =
        machine.close_response(Termination::Completed, RunOutcome::default(), 1_700_000_009, &mut out);
    let sealed: usize = closed.sealed.values().map(String::len).sum();
    let history: usize = closed.history.values().map(|item| serde_json::to_string(item).unwrap().len()).sum();
    let asked: usize = closed.approval_requests.iter().map(|asked| asked.call.arguments.len()).sum();
    (closed.snapshot.json().len() + sealed + history + asked, counted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Annotations, log probabilities, state and calls were in the snapshot and not in the count: memory without end.
    #[test]
    fn what_is_kept_of_an_answer_is_no_more_than_a_factor_of_what_was_counted(
        events in prop::collection::vec(any_event(), 0..60),
        results in prop::collection::vec(any_result(), 0..4),
        display in prop::sample::select(vec![ReasoningDisplay::Text, ReasoningDisplay::Summary, ReasoningDisplay::Hidden]),
        sealed in prop::sample::select(vec![ShowSealed::Never, ShowSealed::Needed, ShowSealed::Always]),
    ) {
        let (kept, counted) = kept_and_counted(events, results, options(display, sealed));
        prop_assert!(kept <= FACTOR * counted + CONSTANT, "{kept} bytes are kept, {counted} were counted");
    }

    /// What waits behind an open call is counted, however small its pieces are.
    #[test]
    fn pieces_that_wait_count_with_what_they_take(pieces in 1..400_usize) {
        let (mut machine, mut out) = (machine(MachineOptions::default()), Events::new());
        machine.start(&mut out);
        let call = ModelEvent::CallStarted {
            slot: 0, kind: CallKind::Function, call_id: None, name: "f".into(), namespace: None, fields: None,
        };
        machine.push(call, &mut out).unwrap();
        machine.push(ModelEvent::CallDelta { slot: 0, delta: "{".into() }, &mut out).unwrap();
        for piece in 0..pieces {
            let delta = "a".to_owned();
            let event = if piece % 2 == 0 { ModelEvent::Refusal(delta) } else { ModelEvent::Reasoning(delta) };
            machine.push(event, &mut out).unwrap();
        }
        prop_assert!(machine.bytes() >= pieces * size_of::<ModelEvent>() / 2);
    }
}

#[test]
fn a_text_has_no_more_sources_than_anybody_reads() {
    let (mut machine, mut out) = (machine(MachineOptions::default()), Events::new());
    machine.start(&mut out);
    machine.push(ModelEvent::Text { delta: "a".into(), logprobs: Vec::new() }, &mut out).unwrap();
    for _ in 0..2 * MAX_ANNOTATIONS {
        machine.push(cited("u"), &mut out).unwrap();
    }
    machine.end_turn(false, &mut out).unwrap();
    let closed =
        machine.close_response(Termination::Completed, RunOutcome::default(), 1_700_000_009, &mut out);
    let response: Value = serde_json::from_str(closed.snapshot.json()).unwrap();
    let annotations = response["output"][0]["content"][0]["annotations"].as_array().unwrap();
    assert_eq!(annotations.len(), MAX_ANNOTATIONS);
}

const MIB: usize = 1 << 20;

async fn small(upstream: &Upstream) -> Gateway {
    let limits = |settings: &mut antwort::config::Settings| {
        (settings.engine.max_response_bytes, settings.engine.max_item_bytes) = (MIB, MIB);
    };
    Gateway::with_upstream(upstream).set(limits).spawn().await
}

/// Streams far more than is allowed beside hardly any text, and looks at what became of it.
async fn overfed(delta: Value, logprobs: Value, include: &[&str]) {
    let upstream = Upstream::spawn().await;
    let piece = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": null}]});
    let mut steps: Vec<Step> = (0..400).map(|_| Step::Chunk(piece.clone())).collect();
    steps.extend([finish("stop"), done()]);
    upstream.reply(Reply::Stream(steps));
    let gateway = small(&upstream).await;
    let response =
        gateway.stream(json!({"model": "test-model", "input": "Hi", "include": include})).await.response;
    assert_eq!(response["status"], "incomplete", "{}", response["error"]);
    assert_eq!(response["incomplete_details"]["reason"], "max_response_size");
    assert!(response.to_string().len() < 4 * MIB, "{} bytes", response.to_string().len());
}

#[tokio::test]
async fn annotations_count_as_much_as_text() {
    let one = json!({"type": "url_citation", "url_citation": {"url": "u".repeat(1000), "title": "t"}});
    overfed(json!({"content": "a", "annotations": vec![one; 20]}), Value::Null, &[]).await;
}

#[tokio::test]
async fn log_probabilities_count_as_much_as_text() {
    let token = json!({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []});
    let content = json!({"content": vec![token; 100]});
    overfed(json!({"content": "a"}), content, &["message.output_text.logprobs"]).await;
}

#[tokio::test]
async fn reasoning_that_only_its_provider_reads_counts_as_much_as_text() {
    let details = json!([{"type": "reasoning.encrypted", "data": "x".repeat(10_000)}]);
    overfed(json!({"content": "a", "reasoning_details": details}), Value::Null, &[]).await;
}

/// An event was kept for every delta, until the end, though nobody was to see any.
#[tokio::test]
async fn a_provider_that_streams_though_it_was_not_asked_to_is_heard_to_its_end() {
    let upstream = Upstream::spawn().await;
    let mut steps: Vec<Step> = (0..5000).map(|_| chunk(json!({"content": "a"}))).collect();
    steps.extend([finish("stop"), done()]);
    upstream.reply(Reply::Stream(steps));
    let gateway = small(&upstream).await;
    let response = gateway.create(json!({"model": "test-model", "input": "Hi"})).await;
    assert_eq!((response["status"].as_str(), text_of(&response).len()), (Some("completed"), 5000));
}

#[tokio::test]
async fn lists_without_end_in_a_json_answer_are_not_read_into_memory() {
    let upstream = Upstream::spawn().await;
    let gateway = small(&upstream).await;
    let message = |field: &str, element: Value| {
        let mut message = json!({"role": "assistant", "content": "a"});
        message[field] = json!(vec![element; 100_000]);
        Reply::Whole(json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    };
    for (field, what) in [("tool_calls", "tool calls"), ("content", "parts of a message")] {
        upstream.always(message(field, json!({})));
        let error =
            gateway.refuse(json!({"model": "test-model", "input": "Hi"}), 502, "upstream_malformed").await;
        let told = error["message"].as_str().unwrap();
        assert!(told.contains("more than 1024") && told.contains(what), "{told}");
    }
    upstream.always(message("annotations", json!({"url": "https://a.example"})));
    let response = gateway.create(json!({"model": "test-model", "input": "Hi"})).await;
    let annotations = response["output"][0]["content"][0]["annotations"].as_array().unwrap();
    assert_eq!(annotations.len(), MAX_ANNOTATIONS);
}
