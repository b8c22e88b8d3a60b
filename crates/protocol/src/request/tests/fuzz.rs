//! Whatever arrives, the parser answers: with a request, or with a 400 that says what is wrong.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::dialect::Dialect;
use crate::item::{InputItem, Item, OpaqueItem};
use crate::request::CreateResponse;

/// A body that touches most readers: the ground from which mutations start.
const SEED: &str = r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"h\u00e9"},
{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"low"},{"type":"input_file","file_data":"AA"}]},
{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"s"}]},{"id":"x"},
{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[]},
{"type":"web_search_call","action":{"type":"search","sources":[]}},{"type":"mcp_call","server_label":"s","name":"n",
"arguments":"","error":{"type":"http_error","code":1,"message":""}},{"type":"additional_tools","tools":[{"type":"local_shell"}]}],
"tools":[{"type":"function","name":"f","parameters":{"a":[{}]}},{"type":"mcp","server_label":"l","server_url":"u","require_approval":
{"never":{"read_only":true}}},{"type":"namespace","name":"n","tools":[{"type":"custom","name":"c","format":{"type":"text"}}]},
{"type":"file_search","vector_store_ids":["v"],"filters":{"type":"or","filters":[{"type":"eq","key":"k","value":true}]}}],
"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]},"text":{"format":{"type":"json_schema",
"name":"a","schema":{}},"verbosity":"low"},"reasoning":{"effort":"low"},"include":["reasoning.encrypted_content"],
"metadata":{"a":"b"},"temperature":0.5,"top_logprobs":3,"max_output_tokens":9,"stream":true,"stream_options":{},"seed":[1]}"#;

/// A body of items that are only carried: their text is edited where a client left something out.
const CARRIED: &str = r#"{"model":"m","input":[ { "type" : "antwort:shell_call", "call_id":"c","action":{"commands":["ls"]}, "later":[{}] },
{"status":null,"type":"program","call_id":"c","code":"x","fingerprint":"f","id":null},{"id":"ig_1","result":"\u00e9\/","type":"image_generation_call"},
{"status":"completed","type":"antwort:program","call_id":"c","code":"x","fingerprint":"f","id":"p"}]}"#;

/// Pieces that mean something in JSON or in this API.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "é",
    "\"type\":null,",
    "\"type\":\"message\",",
    "\"id\":\"\",",
    "[[[[",
    "{\"a\":",
];

#[derive(Debug, Clone)]
enum Change {
    Delete(Index, usize),
    Insert(Index, &'static str),
    Copy(Index, Index, usize),
    Flip(Index, u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Change::Delete(at, length)),
        (any::<Index>(), proptest::sample::select(PIECES)).prop_map(|(at, piece)| Change::Insert(at, piece)),
        (any::<Index>(), any::<Index>(), 1..80_usize).prop_map(|(to, from, n)| Change::Copy(to, from, n)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Flip(at, byte)),
    ]
}

fn apply(body: &mut Vec<u8>, change: &Change) {
    if body.is_empty() {
        return;
    }
    let end = |at: usize, length: usize| (at + length).min(body.len());
    match change {
        Change::Delete(at, length) => {
            let at = at.index(body.len());
            body.drain(at..end(at, *length));
        }
        Change::Insert(at, piece) => {
            let at = at.index(body.len());
            body.splice(at..at, piece.bytes());
        }
        Change::Copy(to, from, length) => {
            let (to, from) = (to.index(body.len()), from.index(body.len()));
            let piece = body[from..end(from, *length)].to_vec();
            body.splice(to..to, piece);
        }
        Change::Flip(at, byte) => {
            let at = at.index(body.len());
            body[at] = *byte;
        }
    }
}

/// Parses, and checks that an error is one that a client can use.
fn answers(body: &[u8]) {
    match CreateResponse::parse(body) {
        Ok(request) => {
            let _ = request.check_unknown_fields(|_| false);
            let _ = serde_json::to_string(&(&request.tools, &request.tool_choice)).unwrap();
            for item in &request.input {
                if let InputItem::Item(item) = item {
                    is_carried_unharmed(item);
                }
            }
        }
        Err(error) => {
            assert_eq!(error.kind.status(), 400);
            assert!(!error.code().is_empty() && !error.body.message.is_empty());
            assert!(error.body.message.len() < 4096, "{error}");
        }
    }
}

/// The edited text of an item that is only carried is JSON, and the same item.
fn is_carried_unharmed(item: &Item) {
    let Item::Opaque(carried) = item else { return };
    let read = |text: &str| match serde_json::from_str(text) {
        Ok(Item::Opaque(item)) => item,
        other => panic!("{other:?}: {text}"),
    };
    assert_eq!(read(carried.json().get()), *carried);
    let about = |item: &OpaqueItem| (item.id().clone(), item.kind());
    for begins in [false, true] {
        let foreign = serde_json::to_string(&item.in_dialect(Dialect::OpenResponses, begins)).unwrap();
        assert!(foreign.contains(r#""antwort:"#) && foreign.contains(r#""status""#), "{foreign}");
        assert_eq!(about(&read(&foreign)), about(carried));
    }
}

#[test]
fn the_seeds_are_accepted() {
    for seed in [SEED, CARRIED] {
        CreateResponse::parse(seed.as_bytes()).unwrap();
        answers(seed.as_bytes());
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes(body in proptest::collection::vec(any::<u8>(), 0..512)) {
        answers(&body);
    }

    #[test]
    fn arbitrary_pieces(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..64)) {
        answers(pieces.concat().as_bytes());
    }

    #[test]
    fn mutated_bodies(changes in proptest::collection::vec(change(), 1..6)) {
        for seed in [SEED, CARRIED] {
            let mut body = seed.as_bytes().to_vec();
            for change in &changes {
                apply(&mut body, change);
            }
            answers(&body);
        }
    }
}
