//! Reasoning in all its fields, and the state that comes with it.

use super::*;

#[test]
fn reasoning_in_all_its_fields() {
    check(&[
        (
            "reasoning_content",
            &[
                delta!(r#""reasoning_content":"hm""#),
                delta!(r#""content":"a","reasoning_content":null"#),
                STOP,
                DONE,
            ],
            &["reasoning hm", "text a", "Stop"],
        ),
        ("reasoning", &[delta!(r#""reasoning":"hm","content":"""#), STOP, DONE], &["reasoning hm", "Stop"]),
        ("thinking", &[delta!(r#""thinking":"hm""#), STOP, DONE], &["reasoning hm", "Stop"]),
        (
            "two fields that say the same",
            &[delta!(r#""reasoning":"hm","reasoning_content":"hm""#), STOP, DONE],
            &["reasoning hm", "Stop"],
        ),
        (
            "reasoning and text in one chunk",
            &[delta!(r#""content":"a","reasoning":"hm""#), STOP, DONE],
            &["reasoning hm", "text a", "Stop"],
        ),
        (
            "reasoning that resumes",
            &[
                delta!(r#""reasoning":"1""#),
                delta!(r#""content":"a""#),
                delta!(r#""reasoning":"2""#),
                STOP,
                DONE,
            ],
            &["reasoning 1", "text a", "reasoning 2", "Stop"],
        ),
        (
            "parts (Mistral)",
            &[
                delta!(
                    r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]"#
                ),
                STOP,
                DONE,
            ],
            &["reasoning hm", "text a", "Stop"],
        ),
    ]);
}

#[test]
fn reasoning_and_text_in_every_chunk_are_two_items_at_most() {
    check(&[
        (
            "text mirrored in a field of reasoning is text",
            &[
                delta!(r#""content":"a","reasoning_content":"a""#),
                delta!(r#""content":"b","reasoning":"b","reasoning_content":"b""#),
                delta!(r#""content":"c","reasoning_details":[{"type":"reasoning.summary","summary":"c"}]"#),
                STOP,
                DONE,
            ],
            &[
                "text a",
                "text b",
                r#"state {"reasoning_details":[{"type":"reasoning.summary","summary":"c"}]}"#,
                "text c",
                "Stop",
            ],
        ),
        (
            "text in parts, mirrored in a field of reasoning",
            &[
                delta!(
                    r#""content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"reasoning_content":"ab""#
                ),
                delta!(r#""content":[{"type":"text","text":"c"}],"reasoning_content":"c""#),
                delta!(r#""content":[{"type":"text","text":"d"}],"reasoning_content":"de""#),
                STOP,
                DONE,
            ],
            &["text a", "text b", "text c", "text d", "reasoning de", "Stop"],
        ),
        (
            "a piece of reasoning and of text in every chunk",
            &[
                delta!(r#""content":"a","reasoning_content":"1""#),
                delta!(r#""content":"b","reasoning_content":"2""#),
                delta!(r#""content":"c","reasoning_content":"3""#),
                delta!(r#""content":"d""#),
                STOP,
                DONE,
            ],
            &["reasoning 1", "text a", "text b", "text c", "text d", "reasoning 23", "Stop"],
        ),
        (
            "reasoning set aside comes before reasoning that follows, and before calls",
            &[
                delta!(r#""content":"a","reasoning_content":"1""#),
                delta!(r#""content":"b","reasoning_content":"2""#),
                delta!(r#""reasoning_content":"3""#),
                delta!(r#""content":"c","reasoning_content":"4""#),
                delta!(r#""content":"d","reasoning_content":"5""#),
                delta!(r#""tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}]"#),
                CALLS,
                DONE,
            ],
            &[
                "reasoning 1",
                "text a",
                "text b",
                "reasoning 2",
                "reasoning 3",
                "reasoning 4",
                "text c",
                "text d",
                "reasoning 5",
                "call 0 f x",
                "args 0 {}",
                "Stop",
            ],
        ),
    ]);
}

#[test]
fn reasoning_details_and_blocks_are_kept_as_state() {
    check(&[
        (
            "details in pieces, mirrored by the plain field (OpenRouter)",
            &[
                delta!(
                    r#""reasoning":"h","reasoning_details":[{"type":"reasoning.text","index":0,"text":"h","signature":null}]"#
                ),
                delta!(
                    r#""reasoning":"m","reasoning_details":[{"type":"reasoning.text","index":0,"text":"m"}]"#
                ),
                delta!(r#""reasoning_details":[{"type":"reasoning.text","index":0,"signature":"s"}]"#),
                delta!(r#""content":"a""#),
                STOP,
                DONE,
            ],
            &[
                "reasoning h",
                "reasoning m",
                r#"state {"reasoning_details":[{"type":"reasoning.text","index":0,"text":"hm","signature":"s"}]}"#,
                "text a",
                "Stop",
            ],
        ),
        (
            "details alone, raw and summarized",
            &[
                delta!(
                    r#""reasoning_details":[{"type":"reasoning.summary","summary":"s"},{"type":"reasoning.encrypted","data":"x"}]"#
                ),
                STOP,
                DONE,
            ],
            &[
                "summary s",
                r#"state {"reasoning_details":[{"type":"reasoning.summary","summary":"s"},{"type":"reasoning.encrypted","data":"x"}]}"#,
                "Stop",
            ],
        ),
        (
            "a plain field that mirrors a summary",
            &[
                delta!(r#""reasoning":"s","reasoning_details":[{"type":"reasoning.summary","summary":"s"}]"#),
                STOP,
                DONE,
            ],
            &[
                "summary s",
                r#"state {"reasoning_details":[{"type":"reasoning.summary","summary":"s"}]}"#,
                "Stop",
            ],
        ),
    ]);
}

#[test]
fn details_and_blocks_wherever_they_come() {
    check(&[
        (
            "details that come after the text",
            &[
                delta!(r#""reasoning":"hm""#),
                delta!(r#""content":"a""#),
                delta!(r#""reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]"#),
                STOP,
                DONE,
            ],
            &[
                "reasoning hm",
                "text a",
                r#"state {"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#,
                "Stop",
            ],
        ),
        (
            "blocks with a signature (LiteLLM), then another block",
            &[
                delta!(r#""thinking_blocks":[{"type":"thinking","thinking":"h"}]"#),
                delta!(r#""thinking_blocks":[{"type":"thinking","thinking":"m","signature":""}]"#),
                delta!(r#""thinking_blocks":[{"type":"thinking","thinking":"","signature":"s"}]"#),
                delta!(r#""thinking_blocks":[{"type":"thinking","thinking":"2"}]"#),
                STOP,
                DONE,
            ],
            &[
                "reasoning h",
                "reasoning m",
                "reasoning 2",
                r#"state {"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"thinking","thinking":"2"}]}"#,
                "Stop",
            ],
        ),
        (
            "details before a call and behind it",
            &[
                delta!(
                    r#""reasoning_details":[{"type":"reasoning.encrypted","data":"x"}],"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]"#
                ),
                delta!(r#""reasoning_details":[{"type":"reasoning.encrypted","data":"y"}]"#),
                CALLS,
                DONE,
            ],
            &[
                r#"state {"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#,
                "call 0 f c",
                "args 0 {}",
                r#"state {"reasoning_details":[{"type":"reasoning.encrypted","data":"y"}]}"#,
                "Stop",
            ],
        ),
    ]);
}

#[test]
fn thought_signatures_belong_to_their_call_or_text() {
    check(&[
        (
            "a thought signature on a call (Gemini)",
            &[
                delta!(
                    r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"s"}}}]"#
                ),
                CALLS,
                DONE,
            ],
            &[
                r#"call 0 f c {"extra_content":{"google":{"thought_signature":"s"}}}"#,
                r#"args 0 {"a":1}"#,
                "Stop",
            ],
        ),
        (
            "a thought signature of a call that has begun, and the same again",
            &[
                delta!(r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]"#),
                delta!(r#""tool_calls":[{"index":0,"extra_content":{"google":{"thought_signature":"s"}}}]"#),
                delta!(r#""tool_calls":[{"index":0,"extra_content":{"google":{"thought_signature":"s"}}}]"#),
                CALLS,
                DONE,
            ],
            &[
                "call 0 f c",
                r#"state 0 {"extra_content":{"google":{"thought_signature":"s"}}}"#,
                "args 0 {}",
                "Stop",
            ],
        ),
        (
            "a thought signature before the call has its whole name",
            &[
                delta!(
                    r#""tool_calls":[{"index":0,"id":"c","function":{"name":"get_"},"extra_content":{"google":{"thought_signature":"s"}}}]"#
                ),
                delta!(r#""tool_calls":[{"index":0,"function":{"name":"weather","arguments":"{}"}}]"#),
                CALLS,
                DONE,
            ],
            &[
                r#"call 0 get_weather c {"extra_content":{"google":{"thought_signature":"s"}}}"#,
                "args 0 {}",
                "Stop",
            ],
        ),
        (
            "a thought signature of a call that never began",
            &[
                delta!(r#""content":"a""#),
                delta!(r#""tool_calls":[{"index":3,"extra_content":{"google":{"thought_signature":"s"}}}]"#),
                STOP,
                DONE,
            ],
            &["text a", "Stop"],
        ),
        (
            "a thought signature of a text, and what only says how it is shown",
            &[
                delta!(r#""content":"a","extra_content":{"google":{"thought":true}}"#),
                delta!(r#""content":"","extra_content":{"google":{"thought_signature":"s"}}"#),
                STOP,
                DONE,
            ],
            &["text a", r#"state {"extra_content":{"google":{"thought_signature":"s"}}}"#, "Stop"],
        ),
    ]);
}

#[test]
fn think_tags_are_reasoning_where_the_provider_is_said_to_use_them() {
    let stream =
        frames(&[delta!(r#""content":"<thi""#), delta!(r#""content":"nk>hm</think>\n\nso""#), STOP, DONE]);
    assert_eq!(run_with(&stream, ThinkTags::Tagged), ["reasoning hm", "text so", "Stop"]);
    assert_eq!(run_with(&stream, ThinkTags::None), ["text <thi", "text nk>hm</think>\n\nso", "Stop"]);
    let opened = frames(&[delta!(r#""content":"hm</thi""#), delta!(r#""content":"nk>so""#), STOP, DONE]);
    assert_eq!(run_with(&opened, ThinkTags::Opened), ["reasoning hm", "text so", "Stop"]);
}
