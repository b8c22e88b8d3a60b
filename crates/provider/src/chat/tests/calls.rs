//! Tool calls: which delta belongs to which call.

use serde_json::{Value, json};

use super::*;

/// A piece of a call: index, id, name, arguments; `-` leaves a field out, `null` is null.
type Piece<'a> = (&'a str, &'a str, &'a str, &'a str);

/// A chunk with pieces of calls.
fn pieces(pieces: &[Piece<'_>]) -> String {
    let value = |text: &str| if text == "null" { Value::Null } else { json!(text) };
    let list: Vec<Value> = pieces
        .iter()
        .map(|(index, id, name, arguments)| {
            let mut piece = json!({"type": "function", "function": {}});
            if *index != "-" {
                piece["index"] = serde_json::from_str(index).unwrap();
            }
            for (field, text) in [("id", id), ("name", name), ("arguments", arguments)] {
                let place = if field == "id" { &mut piece } else { &mut piece["function"] };
                if *text != "-" {
                    place[field] = value(text);
                }
            }
            piece
        })
        .collect();
    json!({"choices": [{"index": 0, "delta": {"tool_calls": list}}]}).to_string()
}

/// Rows whose chunks hold one piece each, and end as they should.
fn check_calls(rows: &[(&str, &[Piece<'_>], &[&str])]) {
    for (name, list, expected) in rows {
        let chunks: Vec<String> = list.iter().map(|piece| pieces(&[*piece])).collect();
        let mut chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        chunks.extend([CALLS, DONE]);
        let expected: Vec<&str> = expected.iter().copied().chain(["Stop"]).collect();
        assert_eq!(run(&frames(&chunks)), expected, "{name}");
    }
}

/// Without ids and indexes, a call ends when its outermost bracket is closed, and not before.
#[test]
fn calls_without_ids_are_told_apart_by_where_their_arguments_end() {
    check_calls(&[
        (
            "the name with every piece",
            &[
                ("-", "-", "f", r#"{"a":{"b":[1]}"#),
                ("-", "-", "f", r#","c":[{}],"d":"}}"#),
                ("-", "-", "f", r#"\""}"#),
                ("-", "-", "f", r#"{"a":{}}"#),
                ("-", "-", "f", r#"{"a":[]}"#),
            ],
            &[
                "call 0 f -",
                r#"args 0 {"a":{"b":[1]}"#,
                r#"args 0 ,"c":[{}],"d":"}}"#,
                r#"args 0 \""}"#,
                "call 1 f -",
                r#"args 1 {"a":{}}"#,
                "call 2 f -",
                r#"args 2 {"a":[]}"#,
            ],
        ),
        (
            "a tail under another index",
            &[("0", "-", "f", r#"{"a":{"b":{}}"#), ("1", "-", "-", "}")],
            &["call 0 f -", r#"args 0 {"a":{"b":{}}"#, "args 0 }"],
        ),
    ]);
}

/// Two calls, the arguments of each in two pieces.
const TWO: [&str; 6] =
    ["call 0 f a", r#"args 0 {"x":"#, "args 0 1}", "call 1 get_weather b", r#"args 1 {"y":"#, "args 1 2}"];

/// Two whole calls.
const WHOLE: [&str; 4] = ["call 0 f a", r#"args 0 {"x":1}"#, "call 1 get_weather b", r#"args 1 {"y":2}"#];

/// Two whole calls without ids.
const NAMELESS: [&str; 4] = ["call 0 f -", r#"args 0 {"x":1}"#, "call 1 get_weather -", r#"args 1 {"y":2}"#];

const X: &str = r#"{"x":1}"#;
const Y: &str = r#"{"y":2}"#;
const X1: &str = r#"{"x":"#;
const X2: &str = "1}";
const Y1: &str = r#"{"y":"#;
const Y2: &str = "2}";

#[test]
fn ids_and_indexes() {
    check_calls(&[
        (
            "by the book",
            &[
                ("0", "a", "f", ""),
                ("0", "-", "-", X1),
                ("0", "-", "-", X2),
                ("1", "b", "get_weather", ""),
                ("1", "-", "-", Y1),
                ("1", "-", "-", Y2),
            ],
            &TWO,
        ),
        ("whole calls", &[("0", "a", "f", X), ("1", "b", "get_weather", Y)], &WHOLE),
        (
            "id and name with every piece",
            &[
                ("0", "a", "f", X1),
                ("0", "a", "f", X2),
                ("1", "b", "get_weather", Y1),
                ("1", "b", "get_weather", Y2),
            ],
            &TWO,
        ),
        (
            "empty id and name in later pieces (LM Studio)",
            &[
                ("0", "a", "f", ""),
                ("0", "", "", X1),
                ("0", "null", "null", X2),
                ("1", "b", "get_weather", ""),
                ("1", "", "", Y1),
                ("1", "", "", Y2),
            ],
            &TWO,
        ),
        (
            "no index at all",
            &[("-", "a", "f", X1), ("-", "-", "-", X2), ("-", "b", "get_weather", Y1), ("-", "-", "-", Y2)],
            &TWO,
        ),
        (
            "null index",
            &[
                ("null", "a", "f", X1),
                ("null", "-", "-", X2),
                ("null", "b", "get_weather", Y1),
                ("null", "-", "-", Y2),
            ],
            &TWO,
        ),
    ]);
}

#[test]
fn indexes_that_say_nothing() {
    check_calls(&[
        ("always index 0 (Ollama)", &[("0", "a", "f", X), ("0", "b", "get_weather", Y)], &WHOLE),
        (
            "always index 0, in pieces",
            &[
                ("0", "a", "f", ""),
                ("0", "-", "-", X1),
                ("0", "-", "-", X2),
                ("0", "b", "get_weather", ""),
                ("0", "-", "-", Y1),
                ("0", "-", "-", Y2),
            ],
            &TWO,
        ),
        ("always index 0, no ids", &[("0", "-", "f", X), ("0", "-", "get_weather", Y)], &NAMELESS),
        (
            "always index 0, no ids, the same tool twice",
            &[("0", "-", "f", X), ("0", "-", "f", Y)],
            &["call 0 f -", r#"args 0 {"x":1}"#, "call 1 f -", r#"args 1 {"y":2}"#],
        ),
        ("neither index nor ids (Gemini)", &[("-", "", "f", X), ("-", "", "get_weather", Y)], &NAMELESS),
        ("index as a string", &[("\"0\"", "a", "f", X), ("\"1\"", "b", "get_weather", Y)], &WHOLE),
        ("indexes that begin at 1", &[("1", "a", "f", X), ("2", "b", "get_weather", Y)], &WHOLE),
    ]);
}

#[test]
fn indexes_and_ids_that_come_late_or_twice() {
    check_calls(&[
        (
            "tails under a new index (Nebius, Cerebras)",
            &[
                ("0", "a", "f", ""),
                ("1", "-", "-", X1),
                ("2", "-", "-", X2),
                ("3", "b", "get_weather", ""),
                ("4", "-", "-", Y1),
                ("4", "-", "-", Y2),
            ],
            &TWO,
        ),
        (
            "second head on index 0, its tail on index 1 (DeepSeek)",
            &[
                ("0", "a", "f", X1),
                ("0", "-", "-", X2),
                ("0", "b", "get_weather", ""),
                ("1", "-", "-", Y1),
                ("1", "-", "-", Y2),
            ],
            &TWO,
        ),
        (
            "id with the last piece only",
            &[("0", "-", "-", ""), ("0", "-", "-", X), ("0", "a", "f", "")],
            &["call 0 f a", r#"args 0 {"x":1}"#],
        ),
        (
            "id after the name: too late for the item, kept for the provider",
            &[("0", "", "f", X1), ("0", "a", "", X2)],
            &["call 0 f -", r#"args 0 {"x":"#, "id 0 a", "args 0 1}"],
        ),
        (
            "arguments before id and name",
            &[("0", "-", "-", X1), ("0", "a", "f", X2), ("1", "-", "-", Y1), ("1", "b", "get_weather", Y2)],
            &WHOLE,
        ),
        (
            "one id for two calls",
            &[("0", "a", "f", X), ("1", "a", "get_weather", Y)],
            &["call 0 f a", r#"args 0 {"x":1}"#, "call 1 get_weather a", r#"args 1 {"y":2}"#],
        ),
        (
            "one id for two calls, always index 0",
            &[("0", "a", "f", X), ("0", "a", "f", Y)],
            &["call 0 f a", r#"args 0 {"x":1}"#, "call 1 f a", r#"args 1 {"y":2}"#],
        ),
    ]);
}

#[test]
fn interleaved_pieces_find_their_calls() {
    check_calls(&[
        (
            "interleaved",
            &[("0", "a", "f", X1), ("1", "b", "get_weather", Y1), ("0", "-", "-", X2), ("1", "-", "-", Y2)],
            &[
                "call 0 f a",
                r#"args 0 {"x":"#,
                "call 1 get_weather b",
                r#"args 1 {"y":"#,
                "args 0 1}",
                "args 1 2}",
            ],
        ),
        (
            "interleaved by id alone",
            &[("-", "a", "f", X1), ("-", "b", "get_weather", Y1), ("-", "a", "-", X2), ("-", "b", "-", Y2)],
            &[
                "call 0 f a",
                r#"args 0 {"x":"#,
                "call 1 get_weather b",
                r#"args 1 {"y":"#,
                "args 0 1}",
                "args 1 2}",
            ],
        ),
        (
            "empty pieces",
            &[("0", "-", "-", "-"), ("0", "a", "f", X), ("0", "", "", ""), ("5", "-", "-", "null")],
            &WHOLE[..2],
        ),
    ]);
}

#[test]
fn names_and_arguments() {
    check_calls(&[
        ("the name twice", &[("0", "a", "f", ""), ("0", "-", "f", X)], &WHOLE[..2]),
        (
            "the name in fragments",
            &[("0", "b", "get_", ""), ("0", "-", "weather", Y)],
            &["call 0 get_weather b", r#"args 0 {"y":2}"#],
        ),
        ("the name in fragments, then silence", &[("0", "b", "get_", "")], &["call 0 get_ b"]),
        (
            "a name that only begins like a tool's",
            &[("0", "b", "get_", Y)],
            &["call 0 get_ b", r#"args 0 {"y":2}"#],
        ),
        ("an unknown name", &[("0", "b", "odd", Y)], &["call 0 odd b", r#"args 0 {"y":2}"#]),
        ("a harmony prefix", &[("0", "a", "functions.f", X)], &WHOLE[..2]),
        ("a name with blanks", &[("0", "a", " f\n", X)], &WHOLE[..2]),
        ("a namespace", &[("0", "a", "ns__js", X)], &["call 0 ns.js a", r#"args 0 {"x":1}"#]),
        (
            "no arguments",
            &[("0", "a", "f", "-"), ("1", "b", "get_weather", "null")],
            &["call 0 f a", "call 1 get_weather b"],
        ),
        (
            "an empty object",
            &[("0", "a", "f", "{}"), ("1", "b", "get_weather", Y)],
            &["call 0 f a", "args 0 {}", "call 1 get_weather b", r#"args 1 {"y":2}"#],
        ),
        ("an empty object as a placeholder", &[("0", "a", "f", "{}"), ("0", "-", "-", X)], &WHOLE[..2]),
        (
            "brackets in strings",
            &[("0", "-", "f", r#"{"x":"}\"{"#), ("0", "-", "f", r#""}"#)],
            &["call 0 f -", r#"args 0 {"x":"}\"{"#, r#"args 0 "}"#],
        ),
        ("arguments that are no JSON", &[("0", "a", "f", "what?")], &["call 0 f a", "args 0 what?"]),
    ]);
}

#[test]
fn custom_tools_get_their_text_in_one_piece() {
    check_calls(&[
        (
            "wrapped, in pieces",
            &[("0", "a", "patch", r#"{"inp"#), ("0", "-", "-", r#"ut":"a\n"#), ("0", "-", "-", r#"b"}"#)],
            &["call 0 custom patch a", "args 0 a\nb"],
        ),
        (
            "not wrapped",
            &[("0", "a", "patch", "*** Begin"), ("0", "-", "-", " Patch")],
            &["call 0 custom patch a", "args 0 *** Begin Patch"],
        ),
        (
            "other JSON",
            &[("0", "a", "patch", r#"{"text":1}"#)],
            &["call 0 custom patch a", r#"args 0 {"text":1}"#],
        ),
        ("nothing", &[("0", "a", "patch", "")], &["call 0 custom patch a"]),
        (
            "a placeholder",
            &[("0", "a", "patch", "{}"), ("0", "-", "-", r#"{"input":"x"}"#)],
            &["call 0 custom patch a", "args 0 x"],
        ),
        (
            "white space behind it",
            &[("0", "a", "patch", r#"{"input":"x"}"#), ("0", "-", "-", "\n")],
            &["call 0 custom patch a", "args 0 x"],
        ),
        (
            "beside a function",
            &[("0", "a", "patch", r#"{"input":"x"}"#), ("1", "b", "get_weather", Y)],
            &["call 0 custom patch a", "args 0 x", "call 1 get_weather b", r#"args 1 {"y":2}"#],
        ),
    ]);
    let native = |input: &str| {
        json!({"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"patch","input":input}}]}}]})
            .to_string()
    };
    check(&[(
        "native",
        &[&native("{\"a\""), &native(":1}"), CALLS, DONE],
        &["call 0 custom patch a", "args 0 {\"a\":1}", "Stop"],
    )]);
}

#[test]
fn several_pieces_in_one_chunk() {
    let whole = pieces(&[("0", "a", "f", X), ("1", "b", "get_weather", Y)]);
    let all_zero = pieces(&[("0", "a", "f", X), ("0", "b", "get_weather", Y)]);
    let bare = pieces(&[("-", "-", "f", X), ("-", "-", "get_weather", Y)]);
    let heads = pieces(&[("-", "a", "f", ""), ("-", "b", "get_weather", "")]);
    let tails = pieces(&[("-", "-", "-", X), ("-", "-", "-", Y)]);
    let in_last_chunk = whole.replace("\"delta\"", "\"finish_reason\":\"tool_calls\",\"delta\"");
    let with = |events: &[&'static str]| events.iter().copied().chain(["Stop"]).collect::<Vec<_>>();
    check(&[
        ("whole calls", &[&whole, CALLS, DONE], &with(&WHOLE)),
        ("all under index 0", &[&all_zero, CALLS, DONE], &with(&WHOLE)),
        ("neither index nor ids", &[&bare, CALLS, DONE], &with(&NAMELESS)),
        (
            "by position",
            &[&heads, &tails, CALLS, DONE],
            &with(&["call 0 f a", "call 1 get_weather b", r#"args 0 {"x":1}"#, r#"args 1 {"y":2}"#]),
        ),
        ("in the last chunk, with the finish reason", &[&in_last_chunk, DONE], &with(&WHOLE)),
        ("finish reason stop (Ollama, vLLM)", &[&whole, STOP, DONE], &with(&WHOLE)),
    ]);
}

#[test]
fn other_shapes_of_calls() {
    check(&[
        (
            "arguments as an object",
            &[
                r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]}}]}"#,
                CALLS,
                DONE,
            ],
            &["call 0 f a", r#"args 0 {"x":1}"#, "Stop"],
        ),
        (
            "a single call that is no list",
            &[
                r#"{"choices":[{"delta":{"tool_calls":{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}}}]}"#,
                CALLS,
                DONE,
            ],
            &["call 0 f a", r#"args 0 {"x":1}"#, "Stop"],
        ),
        (
            "null calls and null functions",
            &[
                delta!(r#""tool_calls":null,"function_call":null"#),
                delta!(r#""tool_calls":[{"index":0,"function":null}]"#),
                STOP,
                DONE,
            ],
            &["Stop"],
        ),
        (
            "the legacy call in pieces",
            &[
                r#"{"choices":[{"delta":{"function_call":{"name":"f"}}}]}"#,
                r#"{"choices":[{"delta":{"function_call":{"arguments":"{\"x\":"}}}]}"#,
                r#"{"choices":[{"delta":{"function_call":{"arguments":"1}"}},"finish_reason":"function_call"}]}"#,
                DONE,
            ],
            &["call 0 f -", r#"args 0 {"x":"#, "args 0 1}", "Stop"],
        ),
        (
            "text before and after",
            &[
                delta!(r#""content":"a""#),
                &pieces(&[("0", "a", "f", X)]),
                delta!(r#""content":"b""#),
                CALLS,
                DONE,
            ],
            &["text a", "call 0 f a", r#"args 0 {"x":1}"#, "text b", "Stop"],
        ),
        ("no name ever", &[&pieces(&[("0", "a", "-", X)]), CALLS, DONE], &["Malformed"]),
        ("cut before its name", &[&pieces(&[("0", "a", "-", "-")]), delta!("", "length"), DONE], &["Length"]),
    ]);
    let many: Vec<String> = (0..2000).map(|n| pieces(&[("-", &format!("id{n}"), "f", "")])).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(run(&frames(&many)).last().unwrap(), "Malformed");
}
