//! Chunks that are read by a template give what parsing them gives.

use proptest::prelude::*;

use super::fuzz::{config, json};
use super::*;

/// What is put in place of the strings `f` of a chunk.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        " word",
        "é€😀",
        "\\n",
        "\\\"",
        "\\\\",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\ude00",
        "\\",
        "\"",
        "\n",
        "\u{1}",
        "\u{7f}",
        "<think>",
        "</think>",
        " ",
        "[DONE]",
        r#"","content":"x"#,
        r#"","tool_calls":[{"function":{"name":"f","arguments":"{}"}}],"x":""#,
        r#""}}],"usage":{"prompt_tokens":7},"x":[{"x":{"x":""#,
    ]);
    prop_oneof![
        3 => "[a-z ]{1,8}",
        1 => prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat()),
    ]
}

/// Chunks with strings `f`, as servers send them and made of meaningful names.
fn shapes() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        r#"{"id":"c","created":1,"choices":[{"index":0,"delta":{"content":"f"},"logprobs":null,"finish_reason":null}]}"#,
        r#"{"id":"f","choices":[{"index":0,"delta":{"content":"f"}}],"service_tier":"f"}"#,
        r#"{"choices":[{"delta":{"content":"f"},"index":1},{"delta":{"content":"f"},"index":0}]}"#,
        r#"{"choices":[{"delta":{"content":"f","content":"f"}}]}"#,
        r#"{"choices":[{"delta":{"content":"f","tool_calls":[{"function":{"name":"f","arguments":"1"}}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"f"},"logprobs":{"content":[{"token":"f","logprob":-1}]}}]}"#,
        r#"{"choices":[{"delta":{"content":"f"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        r#"{"choices":[{"delta":{"content":"f"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"message":{"content":"f"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"f","content":null}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":"f","reasoning_content":"f","content":""}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":"f","reasoning_details":[{"type":"reasoning.text","text":"f"}]}}]}"#,
        r#"{"choices":[{"delta":{"thinking":"f"}}],"é":"f"}"#,
        r#"{"choices":[{"delta":{"refusal":"f"}}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
        r#"{"object":"f","choices":[{"delta":{"content":"f"}}]}"#,
    ]);
    let chunk = json().prop_map(|delta| format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#));
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => json(), 1 => chunk]
}

/// Chunks of few shapes, mixed, each with one text in place of the first string `f` or of all of them.
fn chunks() -> impl Strategy<Value = Vec<String>> {
    let shapes = prop::collection::vec(shapes(), 1..4);
    let picks = prop::collection::vec((any::<prop::sample::Index>(), texts(), any::<bool>()), 0..24);
    (shapes, picks).prop_map(|(shapes, picks)| {
        let chunk = |(shape, text, all): &(prop::sample::Index, String, bool)| {
            let shape = &shapes[shape.index(shapes.len())];
            shape.replacen("\"f\"", &format!("\"{text}\""), if *all { usize::MAX } else { 1 })
        };
        picks.iter().map(chunk).collect()
    })
}

/// The events of each chunk and of the end, and the error that ends them.
fn translate(chunks: &[String], mut translator: Translator, by_template: bool) -> Vec<String> {
    let (mut events, mut seen) = (Vec::new(), Vec::new());
    for chunk in chunks {
        if !by_template {
            translator.forget_template();
        }
        let result = translator.push(None, chunk, &mut events);
        let failed = result.is_err();
        seen.push(format!("{events:?} {result:?} {}", translator.is_done()));
        events.clear();
        if failed {
            return seen;
        }
    }
    let result = translator.finish(&mut events);
    seen.push(format!("{events:?} {result:?}"));
    seen
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn streams_are_read_by_templates_as_by_parsing(
        chunks in chunks(),
        wants_logprobs in any::<bool>(),
        think in prop::sample::select(vec![ThinkTags::None, ThinkTags::Tagged, ThinkTags::Opened]),
    ) {
        let translator = || Translator::new(tools(), wants_logprobs, think);
        let parsed = translate(&chunks, translator(), false);
        prop_assert_eq!(translate(&chunks, translator(), true), parsed);
    }
}

#[test]
fn a_chunk_that_is_read_by_a_template_allocates_its_text_alone() {
    let chunk = |text: &str| {
        format!(
            r#"{{"id":"c","choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#
        )
    };
    let (chunks, mut events) = (["a", " b", "é", " 😀"].map(chunk), Vec::with_capacity(8));
    let mut translator = Translator::new(tools(), false, ThinkTags::None);
    translator.push(None, &chunk("first"), &mut events).unwrap();
    let allocated = allocation_counter::measure(|| {
        for chunk in &chunks {
            translator.push(None, chunk, &mut events).unwrap();
        }
    });
    assert_eq!((events.len(), allocated.count_total), (5, 4));
    assert_eq!(allocated.bytes_total as usize, "a b😀é ".len());
}
