//! Fuzzing: arbitrary input causes no panic and no empty event.

use proptest::prelude::*;

use super::*;

/// Feeds a stream as the HTTP layer does, and checks the invariants of events.
fn feed(stream: &[u8], think: ThinkTags) -> Result<(), TestCaseError> {
    let (mut decoder, mut translator) = (Decoder::new(1 << 16), Translator::new(tools(), true, think));
    let mut events = Vec::new();
    let mut result = Ok(());
    for chunk in stream.chunks(61) {
        decoder.feed(chunk);
        while let (Ok(()), Ok(Some(event))) = (&result, decoder.next_event()) {
            result = translator.push(event.name.as_deref(), &event.data, &mut events);
        }
    }
    let result = result.and_then(|()| translator.finish(&mut events));
    let finishes = events.iter().filter(|event| matches!(event, ModelEvent::Finish(_))).count();
    prop_assert_eq!(finishes, usize::from(result.is_ok()));
    let mut slots = 0;
    for event in &events {
        match event {
            ModelEvent::Text { delta, .. } => prop_assert!(!delta.is_empty()),
            ModelEvent::Refusal(text) | ModelEvent::Reasoning(text) | ModelEvent::ReasoningSummary(text) => {
                prop_assert!(!text.is_empty());
            }
            ModelEvent::CallStarted { slot, name, .. } => {
                prop_assert_eq!(*slot, slots);
                prop_assert!(!name.is_empty());
                slots += 1;
            }
            ModelEvent::CallDelta { slot, delta } => prop_assert!(*slot < slots && !delta.is_empty()),
            _ => {}
        }
    }
    Ok(())
}

/// JSON of meaningful names and values.
pub(super) fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("1e99".to_owned()),
        Just("true".to_owned()),
        Just(r#""""#.to_owned()),
        Just(r#""f""#.to_owned()),
        Just(r#""get_""#.to_owned()),
        Just(r#""patch""#.to_owned()),
        Just(r#""{}""#.to_owned()),
        Just(r#""{\"a\":""#.to_owned()),
        Just(r#""1}""#.to_owned()),
        Just(r#""<think>\u00e9""#.to_owned()),
        Just(r#""stop""#.to_owned()),
        Just(r#""error""#.to_owned()),
    ];
    let names = prop::sample::select(vec![
        "choices",
        "delta",
        "message",
        "index",
        "content",
        "tool_calls",
        "function",
        "function_call",
        "custom",
        "id",
        "name",
        "arguments",
        "input",
        "finish_reason",
        "usage",
        "error",
        "reasoning",
        "reasoning_details",
        "thinking_blocks",
        "type",
        "text",
        "thinking",
        "signature",
        "annotations",
        "logprobs",
        "refusal",
        "object",
        "extra_content",
        "provider_specific_fields",
    ]);
    leaf.prop_recursive(8, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(","))),
            prop::collection::hash_map(names.clone(), inner, 0..5).prop_map(|map| {
                let fields: Vec<String> =
                    map.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// `PROPTEST_CASES` cases; 1,000 by default.
pub(super) fn config() -> ProptestConfig {
    let said = std::env::var_os("PROPTEST_CASES").is_some();
    if said { ProptestConfig::default() } else { ProptestConfig::with_cases(1000) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn arbitrary_bytes(stream in prop::collection::vec(any::<u8>(), 0..600)) {
        feed(&stream, ThinkTags::Tagged)?;
    }

    #[test]
    fn chunks_of_meaningful_names(chunks in prop::collection::vec(json(), 0..6)) {
        let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        feed(stream.as_bytes(), ThinkTags::None)?;
    }

    #[test]
    fn deltas_of_meaningful_names(deltas in prop::collection::vec(json(), 0..6), done in any::<bool>()) {
        let chunks = deltas.iter().map(|delta| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n"));
        let stream: String = chunks.chain(done.then(|| "data: [DONE]\n\n".to_owned())).collect();
        feed(stream.as_bytes(), ThinkTags::Opened)?;
    }

    #[test]
    fn pieces_of_calls(
        pieces in prop::collection::vec((prop::option::of(-1_i64..3), 0_usize..3, 0_usize..5, 0_usize..6), 0..12),
        done in any::<bool>(),
    ) {
        let chunk = |(index, id, name, arguments): &(Option<i64>, usize, usize, usize)| {
            let id = ["", "a", "b"][*id];
            let name = ["", "f", "get_", "weather", "patch"][*name];
            let arguments = ["", "{}", "{\"a\":", "1}", "{\"input\":\"x\"}", " "][*arguments];
            let piece = serde_json::json!({
                "index": index, "id": id, "function": {"name": name, "arguments": arguments},
            });
            format!("data: {}\n\n", serde_json::json!({"choices": [{"delta": {"tool_calls": [piece]}}]}))
        };
        let stream: String = pieces.iter().map(chunk).chain(done.then(|| "data: [DONE]\n\n".to_owned())).collect();
        feed(stream.as_bytes(), ThinkTags::None)?;
    }

    #[test]
    fn bodies(body in json()) {
        let mut events = Vec::new();
        let _either = Translator::new(tools(), true, ThinkTags::None).push_body(&body, &mut events);
    }
}
