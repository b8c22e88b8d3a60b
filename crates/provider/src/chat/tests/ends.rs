//! How answers end: complete, truncated, with an error, or cut off.

use super::*;

#[test]
fn finish_reasons() {
    let rows = [
        ("stop", "Stop"),
        ("tool_calls", "Stop"),
        ("function_call", "Stop"),
        ("eos", "Stop"),
        ("STOP", "Stop"),
        ("length", "Length"),
        ("max_tokens", "Length"),
        ("max_completion_tokens", "Length"),
        ("model_context_window_exceeded", "Length"),
        ("sensitive", "ContentFilter"),
        ("content_filter", "ContentFilter"),
        ("SAFETY", "ContentFilter"),
        ("error", "Reported: The model provider ended its answer with finish_reason 'error'."),
        ("abort", "Reported: The model provider ended its answer with finish_reason 'abort'."),
        (
            "insufficient_system_resource",
            "Reported: The model provider ended its answer with finish_reason 'insufficient_system_resource'.",
        ),
    ];
    for (reason, expected) in rows {
        let last = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        check(&[(reason, &[delta!(r#""content":"a""#), &last, DONE], &["text a", expected])]);
    }
}

#[test]
fn ends_of_streams() {
    let a = delta!(r#""content":"a""#);
    check(&[
        ("[DONE]", &[a, STOP, DONE], &["text a", "Stop"]),
        ("no [DONE], but a finish reason: whole", &[a, STOP], &["text a", "Stop"]),
        ("[DONE], but no finish reason: the server said that it was done", &[a, DONE], &["text a", "Stop"]),
        ("[DONE] and nothing else", &[DONE], &["Malformed"]),
        ("[DONE] behind a role", &[delta!(r#""role":"assistant""#), DONE], &["Malformed"]),
        ("neither: cut", &[a], &["text a", "Cut"]),
        ("cut before the first text", &[delta!(r#""role":"assistant""#)], &["Cut"]),
        (
            "cut in a call",
            &[delta!(r#""tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]"#)],
            &["call 0 f a", "args 0 {", "Cut"],
        ),
        ("nothing at all", &[], &["Malformed"]),
        ("no answer, but a reason", &[STOP, DONE], &["Stop"]),
        ("two reasons: the first counts", &[a, delta!("", "length"), STOP, DONE], &["text a", "Length"]),
        ("an error behind the reason", &[a, STOP, r#"{"error":{"message":"m"}}"#], &["text a", "Stop"]),
        ("a damaged chunk behind the reason", &[a, STOP, r#"{"usage":{"#], &["text a", "Stop"]),
        (
            "another reason behind it, an unknown one",
            &[a, STOP, delta!("", "lost"), DONE],
            &["text a", "Stop"],
        ),
        (
            "an error behind an unknown reason",
            &[a, delta!("", "error"), r#"{"error":{"message":"m"}}"#],
            &["text a", "Reported: m"],
        ),
    ]);
}

#[test]
fn errors_within_a_stream() {
    let a = delta!(r#""content":"a""#);
    check(&[
        ("an object", &[a, r#"{"error":{"message":"m","type":"server_error"}}"#], &["text a", "Reported: m"]),
        (
            "first of all (Perplexity)",
            &[r#"{"error":{"message":"m","type":"invalid_request_error","code":400}}"#],
            &["Status(400): m"],
        ),
        (
            "a numeric code (OpenRouter)",
            &[a, r#"{"error":{"code":429,"message":"m"},"choices":[]}"#],
            &["text a", "Status(429): m"],
        ),
        ("a string (Ollama)", &[a, r#"{"error":"m"}"#], &["text a", "Reported: m"]),
        (
            "in a choice (OpenRouter)",
            &[
                a,
                r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"m"}}]}"#,
            ],
            &["text a", "Status(502): m"],
        ),
        (
            "without a frame (older vLLM)",
            &[r#"{"object":"error","message":"m","code":500}"#],
            &["Status(500): m"],
        ),
        (
            "too long a prompt (llama.cpp)",
            &[
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            ],
            &["ContextLength: the request exceeds the available context size"],
        ),
        (
            "without a word",
            &[r#"{"error":{"code":500}}"#],
            &["Status(500): The model provider failed without an error message."],
        ),
    ]);
    assert_eq!(run("event: error\ndata: {\"message\":\"m\"}\n\n"), ["Reported: m"]);
    assert_eq!(run("event: error\ndata: out of memory\n\n"), ["Reported: out of memory"]);
    assert_eq!(
        run(&format!("data: {a}\n\n{{\"error\":{{\"message\":\"m\"}}}}\n")),
        ["text a", "Reported: m"]
    );
}

#[test]
fn what_was_used_counts_however_the_stream_ends() {
    const USED: &str = r#"{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":1}}"#;
    const SHOWN: &str = "usage 4+1=5 (0, 0)";
    let a = delta!(r#""content":"a""#);
    check(&[
        ("cut", &[USED, a], &["text a", SHOWN, "Cut"]),
        ("an error", &[USED, a, r#"{"error":{"message":"m"}}"#], &["text a", SHOWN, "Reported: m"]),
        (
            "in the chunk of the error",
            &[a, r#"{"error":{"message":"m"},"usage":{"prompt_tokens":4,"completion_tokens":1}}"#],
            &["text a", SHOWN, "Reported: m"],
        ),
        ("a damaged chunk", &[USED, a, r#"{"choices":[{"#], &["text a", SHOWN, "Malformed"]),
        (
            "an unknown reason",
            &[USED, a, delta!("", "lost")],
            &["text a", SHOWN, "Reported: The model provider ended its answer with finish_reason 'lost'."],
        ),
        (
            "behind an unknown reason",
            &[a, delta!("", "lost"), USED, DONE],
            &["text a", SHOWN, "Reported: The model provider ended its answer with finish_reason 'lost'."],
        ),
        ("behind a known reason, then damage", &[a, STOP, USED, r#"{"u"#], &["text a", SHOWN, "Stop"]),
        ("an error without a frame", &[USED, r#"{"object":"error","message":"m"}"#], &[SHOWN, "Reported: m"]),
        (
            "in the choice (Moonshot)",
            &[
                a,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":4,"completion_tokens":1,"total_tokens":5,"cached_tokens":3}}]}"#,
                DONE,
            ],
            &["text a", "usage 4+1=5 (3, 0)", "Stop"],
        ),
    ]);
    let body = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"lost"}],"usage":{"prompt_tokens":4,"completion_tokens":1}}"#;
    assert_eq!(run_body(body)[..2], ["text a", SHOWN]);
}

#[test]
fn an_error_as_plain_text_is_told_unless_the_answer_ends_as_it_should() {
    let a = delta!(r#""content":"a""#);
    check(&[
        ("alone", &["Internal Server Error"], &["Reported: Internal Server Error"]),
        (
            "before the end mark",
            &[a, "upstream timed out", DONE],
            &["text a", "Reported: upstream timed out"],
        ),
        ("before a cut", &[a, "out of memory"], &["text a", "Reported: out of memory"]),
        ("a JSON string", &[r#""error: no worker""#], &[r#"Reported: "error: no worker""#]),
        ("the last of them counts", &["no worker", "try later"], &["Reported: try later"]),
        (
            "the last that reads like an error, before words",
            &["ERROR: no worker", "keep alive"],
            &["Reported: ERROR: no worker"],
        ),
        (
            "the last that reads like an error, behind words",
            &["keep alive", "CUDA error: out of memory"],
            &["Reported: CUDA error: out of memory"],
        ),
        (
            "in a list (Gemini)",
            &[a, r#"[{"error":{"code":500,"message":"m"}}]"#],
            &["text a", "Status(500): m"],
        ),
        ("words in a whole answer", &[a, "all is well", STOP, DONE], &["text a", "Stop"]),
        ("a keepalive without a finish reason", &[a, "ping", DONE], &["text a", "Stop"]),
        ("words of no importance before the text", &["keep alive", a, DONE], &["text a", "Stop"]),
        ("words of no importance behind the text", &[a, "keep alive", DONE], &["text a", "Stop"]),
        ("words of no importance before a cut", &["keep alive", a], &["text a", "Cut"]),
        (
            "words of no importance before a damaged chunk",
            &["keep alive", a, r#"{"choices":[{"#],
            &["text a", "Malformed"],
        ),
        ("too many of them", &["still busy"; 20], &["Reported: still busy"]),
        ("a page", &["<html> <b>502 error</b>"], &["Malformed"]),
    ]);
    assert_eq!(run_body("Internal Server Error"), ["Reported: Internal Server Error"]);
    assert_eq!(run_body(r#"[{"error":{"code":503,"message":"m"}}]"#), ["Status(503): m"]);
    assert_eq!(run_body("<html> error </html>"), ["Malformed"]);
}

#[test]
fn what_is_no_chunk() {
    let a = delta!(r#""content":"a""#);
    let between = ["ping", a].repeat(20);
    let texts = [&["text a"].repeat(20)[..], &["Cut"]].concat();
    check(&[
        ("stray words are skipped", &[a, "ping", "[1]", "\"x\"", STOP, DONE], &["text a", "Stop"]),
        ("too many of them are not", &["ping"; 20], &["Malformed"]),
        ("unless chunks come between them", &between, &texts),
        (
            "a damaged chunk is a lost piece of the answer",
            &[a, r#"{"choices":[{"delta":{"cont"#, STOP, DONE],
            &["text a", "Malformed"],
        ),
        ("a chunk of another shape, too", &[r#"{"choices":{"delta":"x"}}"#, STOP, DONE], &["Malformed"]),
        ("deep nesting", &[&"{\"choices\":".repeat(1000)], &["Malformed"]),
        (
            "deep nesting in arguments",
            &[&format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{"function":{{"name":"f","arguments":{}}}}}]}}}}]}}"#,
                "[".repeat(1000)
            )],
            &["Malformed"],
        ),
    ]);
    assert_eq!(run("<html>\n<body>Bad gateway</body>\n</html>"), ["Malformed"]);
    assert_eq!(
        run(&format!(": OPENROUTER PROCESSING\r\n\r\ndata:{a}\r\n\r\n: ping\r\n\r\ndata: [DONE]\r\n")),
        ["text a", "Stop"]
    );
}

/// Endless chunks that give no event, and so never count against limits on events.
#[test]
fn what_cannot_be_handed_over_yet_is_held_up_to_a_limit() {
    let held = |think: ThinkTags, chunk: &str| {
        let mut translator = Translator::new(tools(), true, think).with_max_held_bytes(100_000);
        let mut events = Vec::new();
        (0..1000).find_map(|_| translator.push(None, chunk, &mut events).err()).map(|error| error.message)
    };
    let long = "x".repeat(1000);
    let delta = |fields: String| format!(r#"{{"choices":[{{"index":0,"delta":{{{fields}}}}}]}}"#);
    let signed = r#"{"type":"reasoning.encrypted","data":"LONG"}"#.replace("LONG", &long);
    let rows = [
        format!(r#""reasoning_details":[{signed}]"#),
        // The state is emitted with the refusal, the text beside it is not.
        format!(
            r#""content":"b","refusal":"r","reasoning_content":"{long}","reasoning_details":[{{"type":"reasoning.encrypted"}}]"#
        ),
        r#""thinking_blocks":[[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]]"#.to_owned(),
        format!(r#""tool_calls":[{{"index":0,"function":{{"arguments":"{long}"}}}}]"#),
        format!(r#""tool_calls":[{{"index":0,"function":{{"name":"patch","arguments":"{long}"}}}}]"#),
    ];
    for fields in rows {
        let error = held(ThinkTags::None, &delta(fields.clone())).unwrap_or_default();
        assert!(error.contains("more than 100000 bytes"), "{fields}: {error}");
    }
    for fields in [r#""reasoning_content":"","citations":[]"#, r#""thought_signatures":["s"]"#] {
        let fields = format!(r#""content":"a","provider_specific_fields":{{{fields},"refusal":"{long}"}}"#);
        assert_eq!(held(ThinkTags::None, &delta(fields.clone())), None, "{fields}");
        let textless = fields.replace(r#""content":"a","#, "");
        assert_eq!(held(ThinkTags::None, &delta(textless)), None, "{fields}");
    }
    let ids = (0..20_000).map(|i| delta(format!(r#""tool_calls":[{{"index":{i},"id":"a"}}]"#)));
    let (mut translator, mut events) = (Translator::new(tools(), true, ThinkTags::None), Vec::new());
    assert!(ids.into_iter().any(|chunk| translator.push(None, &chunk, &mut events).is_err()));
    for think in [ThinkTags::Tagged, ThinkTags::Opened] {
        let (mut translator, mut events) = (Translator::new(tools(), true, think), Vec::new());
        let space = delta(format!(r#""content":"{}""#, " ".repeat(1000)));
        for _ in 0..20 {
            translator.push(None, &space, &mut events).unwrap();
        }
        assert_eq!(events.is_empty(), think == ThinkTags::Opened, "{events:?}");
    }
}

#[test]
fn a_text_has_no_more_log_probabilities_than_tokens() {
    let token = r#"{"token":"","logprob":-1,"bytes":null,"top_logprobs":[]}"#;
    let tokens = vec![token; 5000].join(",");
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"ab"}},"logprobs":{{"content":[{tokens}]}},"finish_reason":"stop"}}]}}"#
    );
    let mut events = Vec::new();
    Translator::new(tools(), true, ThinkTags::None).push_body(&body, &mut events).unwrap();
    let Some(ModelEvent::Text { logprobs, .. }) = events.first() else { panic!("{events:?}") };
    assert_eq!(logprobs.len(), 66);
}
