//! Text, refusals, citations, log probabilities, usage.

use super::*;

#[test]
fn text_and_what_surrounds_it() {
    check(&[
        (
            "role first, empty and null content",
            &[
                delta!(r#""role":"assistant","content":"""#),
                delta!(r#""content":"Hi""#),
                delta!(r#""content":null"#),
                STOP,
                DONE,
            ],
            &["text Hi", "Stop"],
        ),
        ("text with the finish reason", &[delta!(r#""content":"Hi""#, "stop"), DONE], &["text Hi", "Stop"]),
        ("escapes", &[delta!(r#""content":"a\n\"\u00e9""#), STOP, DONE], &["text a\n\"é", "Stop"]),
        (
            "an empty finish reason in every chunk",
            &[delta!(r#""content":"a""#, ""), delta!(r#""content":"b""#, ""), STOP, DONE],
            &["text a", "text b", "Stop"],
        ),
        (
            "text in parts",
            &[
                delta!(
                    r#""content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"}]"#
                ),
                STOP,
                DONE,
            ],
            &["text a", "text b", "Stop"],
        ),
    ]);
}

#[test]
fn chunks_of_other_shapes_give_the_same_text() {
    check(&[
        (
            "other choices",
            &[
                r#"{"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"}]}"#,
                r#"{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"a"}}]}"#,
                STOP,
                DONE,
            ],
            &["text a", "Stop"],
        ),
        (
            "a choice without an index, and a message in place of the delta",
            &[r#"{"choices":[{"message":{"content":"a"}}]}"#, STOP, DONE],
            &["text a", "Stop"],
        ),
        (
            "a whole message behind its deltas",
            &[
                delta!(r#""content":"a""#),
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#,
                DONE,
            ],
            &["text a", "Stop"],
        ),
        (
            "frames without choices",
            &[
                r#"{"object":"billing.summary","cost":1}"#,
                delta!(r#""content":"a""#),
                r#"{"choices":null}"#,
                STOP,
                r#"{"type":"billing.summary"}"#,
                DONE,
            ],
            &["text a", "Stop"],
        ),
        (
            "null error and usage",
            &[r#"{"error":null,"usage":null,"choices":[{"delta":{"content":"a"}}]}"#, STOP, DONE],
            &["text a", "Stop"],
        ),
        (
            "an empty error",
            &[r#"{"error":{},"choices":[{"delta":{"content":"a"}}]}"#, STOP, DONE],
            &["text a", "Stop"],
        ),
        ("content behind the finish reason", &[STOP, delta!(r#""content":"a""#), DONE], &["text a", "Stop"]),
        (
            "what follows [DONE]",
            &[delta!(r#""content":"a""#), STOP, DONE, delta!(r#""content":"b""#), "x"],
            &["text a", "Stop"],
        ),
        (
            "half a character whose other half never comes, and one of a reasoning whose does",
            &[
                delta!(r#""content":"a\ud83d""#),
                delta!(r#""reasoning_content":"b\ud83d""#),
                delta!(r#""reasoning_content":"\ude00c""#),
                DONE,
            ],
            &["text a\u{fffd}", "reasoning b😀", "reasoning c", "Stop"],
        ),
    ]);
}

#[test]
fn what_comes_beside_the_text() {
    check(&[
        (
            "the service tier, once",
            &[
                r#"{"service_tier":"flex","choices":[]}"#,
                r#"{"service_tier":"flex","choices":[]}"#,
                STOP,
                DONE,
            ],
            &["tier flex", "Stop"],
        ),
        (
            "a refusal",
            &[delta!(r#""refusal":"I can""#), delta!(r#""refusal":"not.""#), STOP, DONE],
            &["refusal I can", "refusal not.", "Stop"],
        ),
        (
            "citations, nested and flat, and others",
            &[
                delta!(r#""content":"a""#),
                delta!(
                    r#""annotations":[{"type":"url_citation","url_citation":{"url":"u","title":"t","start_index":1,"end_index":2}}]"#
                ),
                delta!(r#""annotations":[{"type":"url_citation","url":"v"},{"type":"odd"}]"#),
                STOP,
                DONE,
            ],
            &[
                "text a",
                r#"annotation {"type":"url_citation","url":"u","title":"t","start_index":1,"end_index":2}"#,
                r#"annotation {"type":"url_citation","url":"v","title":"","start_index":0,"end_index":0}"#,
                "Stop",
            ],
        ),
        (
            "log probabilities without bytes",
            &[
                r#"{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":null,"top_logprobs":[]}]}}]}"#,
                STOP,
                DONE,
            ],
            &[r#"text a [LogProb { token: "a", logprob: -0.5, bytes: [], top_logprobs: [] }]"#, "Stop"],
        ),
        (
            "log probabilities of another shape",
            &[r#"{"choices":[{"delta":{"content":"a"},"logprobs":{"tokens":["a"]}}]}"#, STOP, DONE],
            &["text a", "Stop"],
        ),
    ]);
}

#[test]
fn what_comes_before_its_text_is_kept_for_it() {
    check(&[
        (
            "log probabilities of tokens without text go with the next text, those of reasoning with none",
            &[
                r#"{"choices":[{"delta":{"role":"assistant","content":""},"logprobs":{"content":[{"token":"r","logprob":-1}]}}]}"#,
                r#"{"choices":[{"delta":{"reasoning":"hm"},"logprobs":{"content":[{"token":"hm","logprob":-1}]}}]}"#,
                r#"{"choices":[{"delta":{"content":""},"logprobs":{"content":[{"token":"f","logprob":-1,"bytes":[240]}]}}]}"#,
                r#"{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-2}]}}]}"#,
                STOP,
                DONE,
            ],
            &[
                "reasoning hm",
                r#"text a [LogProb { token: "f", logprob: -1.0, bytes: [240], top_logprobs: [] }, LogProb { token: "a", logprob: -2.0, bytes: [], top_logprobs: [] }]"#,
                "Stop",
            ],
        ),
        (
            "an annotation before the text that it is of",
            &[
                delta!(r#""annotations":[{"type":"url_citation","url":"v"}]"#),
                delta!(r#""content":"a""#),
                delta!(r#""content":"b""#),
                STOP,
                DONE,
            ],
            &[
                "text a",
                r#"annotation {"type":"url_citation","url":"v","title":"","start_index":0,"end_index":0}"#,
                "text b",
                "Stop",
            ],
        ),
    ]);
}

#[test]
fn usage_wherever_it_comes() {
    let two = r#""usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}"#;
    let tail = format!(r#"{{"choices":[],{two}}}"#);
    let with_finish = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop"}}],{two}}}"#);
    let running = |n: u32| {
        format!(
            r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{{"prompt_tokens":1,"completion_tokens":{n}}}}}"#
        )
    };
    check(&[
        ("behind the finish reason", &[STOP, &tail, DONE], &["usage 1+2=3 (0, 0)", "Stop"]),
        ("behind the finish reason, without [DONE]", &[STOP, &tail], &["usage 1+2=3 (0, 0)", "Stop"]),
        ("with the finish reason", &[&with_finish, DONE], &["usage 1+2=3 (0, 0)", "Stop"]),
        (
            "in every chunk; no total",
            &[&running(1), &running(2), STOP, DONE],
            &["text a", "text a", "usage 1+2=3 (0, 0)", "Stop"],
        ),
        (
            "filled with zeros at the end",
            &[&tail, STOP, r#"{"choices":[],"usage":{"prompt_tokens":0}}"#, DONE],
            &["usage 1+2=3 (0, 0)", "Stop"],
        ),
        (
            "details",
            &[
                STOP,
                r#"{"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":3}}}"#,
                DONE,
            ],
            &["usage 9+8=17 (5, 3)", "Stop"],
        ),
        (
            "DeepSeek's cache, null details, floats",
            &[
                STOP,
                r#"{"usage":{"prompt_tokens":9.0,"completion_tokens":8,"prompt_cache_hit_tokens":4,"prompt_tokens_details":null}}"#,
                DONE,
            ],
            &["usage 9+8=17 (4, 0)", "Stop"],
        ),
        ("of another shape", &[STOP, r#"{"usage":"many"}"#, r#"{"usage":[1]}"#, DONE], &["Stop"]),
        (
            "kept when the answer is cut",
            &[delta!(r#""content":"a""#), &tail],
            &["text a", "usage 1+2=3 (0, 0)", "Cut"],
        ),
    ]);
}

#[test]
fn a_whole_body_gives_the_same_events() {
    let body = r#"{"id":"chatcmpl-1","object":"chat.completion","model":"m","service_tier":"default","choices":[{"index":0,
        "message":{"role":"assistant","content":"a","refusal":null,"reasoning_content":"hm","annotations":[],
        "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},
                      {"id":"c2","type":"function","function":{"name":"ns__js","arguments":"{\"a\":1}"}}]},
        "finish_reason":"tool_calls","logprobs":null}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#;
    assert_eq!(
        run_body(body),
        [
            "tier default",
            "reasoning hm",
            "text a",
            "call 0 f c1",
            "args 0 {}",
            "call 1 ns.js c2",
            r#"args 1 {"a":1}"#,
            "usage 1+2=3 (0, 0)",
            "Stop"
        ]
    );
    let rows: [(&str, &[&str]); 8] = [
        (r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#, &["Stop"]),
        (r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#, &["text a", "Length"]),
        (r#"{"choices":[{"message":{"content":"a"}}]}"#, &["text a", "Stop"]),
        (
            r#"{"choices":[{"message":{"content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}},"finish_reason":"function_call"}]}"#,
            &["call 0 f -", r#"args 0 {"a":1}"#, "Stop"],
        ),
        (r#"{"choices":[]}"#, &["Malformed"]),
        (r#"{"error":{"message":"m","code":429}}"#, &["Status(429): m"]),
        (r#"{"object":"error","message":"m","code":400}"#, &["Status(400): m"]),
        ("<html>", &["Malformed"]),
    ];
    for (body, expected) in rows {
        assert_eq!(run_body(body), expected, "{body}");
    }
}
