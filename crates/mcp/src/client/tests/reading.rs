//! Bytes, lines, events, and what is told of what is too long.

use super::super::lines::{Line, Lines};
use super::super::notices::sanitize_for_log;
use super::super::pending::{PendingRequest, RequestKind, ServerAnswer};
use super::super::results::{self, CallAnswer};
use super::*;
use crate::content;
use antwort_net::sse::Excerpt;
use serde_json::value::RawValue;

/// All that comes out of bytes that come in pieces of this size; lines that were skipped as `None`.
fn lines(limit: usize, bytes: &[u8], piece: usize) -> Vec<Option<Vec<u8>>> {
    let mut lines = Lines::new(limit);
    let mut all = Vec::new();
    for piece in bytes.chunks(piece) {
        lines.feed(piece);
        while let Some(line) = lines.next() {
            all.push(match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::Skipped(_) => None,
            });
        }
    }
    all
}

#[test]
fn a_line_that_is_too_long_is_skipped_however_it_comes() {
    let bytes = b"one\r\n\nfive5\nmuch too long\ntwo\nunfinished";
    let expected = [Some("one"), Some(""), Some("five5"), None, Some("two")];
    let expected: Vec<_> = expected.iter().map(|line| line.map(|line| line.as_bytes().to_vec())).collect();
    for piece in 1..bytes.len() {
        assert_eq!(lines(5, bytes, piece), expected, "pieces of {piece}");
    }
}

#[test]
fn of_what_was_skipped_the_beginning_and_the_end_are_known() {
    let mut long = vec![b'x'; 10_000];
    long[..5].copy_from_slice(b"begin");
    long.extend_from_slice(b"end\n");
    for piece in [1, 7, 600, 20_000] {
        let mut lines = Lines::new(100);
        let mut found = None;
        for piece in long.chunks(piece) {
            lines.feed(piece);
            if let Some(Line::Skipped(line)) = lines.next() {
                found = Some(line);
            }
        }
        let skipped = found.unwrap();
        assert!(skipped.head.starts_with(b"begin"), "pieces of {piece}");
        assert!(skipped.tail.ends_with(b"xend"), "pieces of {piece}");
        assert!(skipped.head.len() <= 512 && skipped.tail.len() <= 512);
    }
}

/// Files a slot under the id 7.
fn waiting() -> (Arc<MessageRouter>, Arc<PendingRequest>) {
    let wire = MessageRouter::new(&at("http://h", HttpKind::Auto), 100, false);
    let slot = PendingRequest::new(RequestKind::Call, Progress::none());
    let params = rmcp::model::CallToolRequestParams::new("x");
    let mut request = rmcp::model::CallToolRequest::new(params);
    request.extensions.insert(super::super::pending::RequestTag(Arc::clone(&slot)));
    let request = rmcp::model::ClientRequest::CallToolRequest(request);
    let message = rmcp::model::ClientJsonRpcMessage::request(request, rmcp::model::RequestId::Number(7));
    assert_eq!(wire.pending.register(&message), Some(7));
    (wire, slot)
}

#[test]
fn whose_answer_is_too_long_is_known_by_its_beginning_or_its_end() {
    let known = [
        r#"{"jsonrpc":"2.0","id":7,"result":{"id":9,"#,
        r#"{ "id" : "7" , "result":"#,
        r#"{"result":{"id":9,"t":"\"id\":9,{[","u":"}"},"id":7,"jsonrpc""#,
        r#"..."}]},"jsonrpc":"2.0","id":7}"#,
        r#"data: {"id":7,"result":{"#,
    ];
    for text in known {
        let (wire, slot) = waiting();
        assert_eq!(wire.skip(&Excerpt::from_bytes(text.as_bytes()), None), Some(7), "{text}");
        assert!(matches!(slot.take(), Some(Err(McpError::TooLarge { limit: 100 }))));
    }
    let unknown =
        [r#"{"result":{"id":7,"#, r#"..."id":7}}}"#, r#"{"id":8,"result":"#, r#"{"x":"\"id\":7"#, "", "id"];
    for text in unknown {
        let (wire, slot) = waiting();
        assert_eq!(wire.skip(&Excerpt::from_bytes(text.as_bytes()), None), None, "{text}");
        assert!(slot.take().is_none());
    }
}

#[test]
fn an_answer_that_fits_an_event_but_is_longer_than_a_message_may_be_is_too_large() {
    let (wire, slot) = waiting();
    let text = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[],"x":"{}"}}}}"#, "y".repeat(100));
    assert!(text.len() > wire.limit && text.len() < wire.max_event_bytes());
    let placeholder = message_router::Dispatch::Answered { id: 7, result: "{}".into() };
    assert_eq!(wire.dispatch(text.as_bytes(), None).unwrap(), placeholder);
    assert!(matches!(slot.take(), Some(Err(McpError::TooLarge { limit: 100 }))));
}

#[test]
fn an_answer_is_known_by_its_id_also_as_text() {
    for id in ["7", "\"7\""] {
        let (wire, slot) = waiting();
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
        assert!(matches!(
            wire.dispatch(text.as_bytes(), None),
            Ok(message_router::Dispatch::Answered { id: 7, .. })
        ));
        assert!(matches!(slot.take(), Some(Ok(ServerAnswer::Call(CallAnswer::Done(_))))));
    }
}

#[test]
fn an_error_that_does_not_say_whose_it_is_is_whoevers_request_it_answers() {
    let (wire, slot) = waiting();
    let text = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#;
    assert_eq!(wire.dispatch(text, None).unwrap(), message_router::Dispatch::Handled);
    assert!(slot.take().is_none());
    wire.dispatch(text, Some(7)).unwrap();
    assert!(matches!(slot.take(), Some(Err(McpError::Protocol { code: -32700, .. }))));
}

#[test]
fn a_slot_is_not_filed_once_nobody_waits() {
    let (wire, slot) = waiting();
    assert_eq!(wire.pending.len(), 1);
    wire.pending.abandon(7, None, &slot);
    assert_eq!(wire.pending.len(), 0);
    let text = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#;
    assert_eq!(wire.dispatch(text, None).unwrap(), message_router::Dispatch::Handled);
}

#[test]
fn a_strangers_words_cannot_move_the_cursor_or_fill_the_log() {
    assert_eq!(sanitize_for_log(b"a\x1b[31m\nb\xff"), "a\\u{1b}[31m\\nb\u{fffd}");
    assert!(sanitize_for_log(&[b'x'; 100_000]).len() < 5000);
}

#[test]
fn structured_content_keeps_the_digits_of_its_numbers() {
    let read = |json: &str| match results::read(&RawValue::from_string(json.to_owned()).unwrap()).unwrap() {
        CallAnswer::Done(result) => result,
        other => panic!("it is a result: {other:?}"),
    };
    let exact = read(r#"{"content": [], "structuredContent": {"id": 123456789012345678901234567890}}"#);
    assert_eq!(exact.exact_structured.as_deref(), Some(r#"{"id":123456789012345678901234567890}"#));
    assert!(exact.structured.as_ref().unwrap()["id"].is_f64(), "for whoever needs no more than that");
    assert_eq!(content::to_output(exact, false).for_model, r#"{"id":123456789012345678901234567890}"#);
    let plain = read(r#"{"structuredContent": {"id": 7}}"#);
    assert_eq!(
        (plain.exact_structured.as_ref(), plain.structured.as_ref().unwrap()["id"].as_u64()),
        (None, Some(7))
    );
}
