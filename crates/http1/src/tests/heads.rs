//! The head of a response.

use proptest::prelude::*;

use crate::body::Body;
use crate::error::InvalidResponse;
use crate::head::{HeadReader, ResponseHead};
use crate::limits::{MAX_HEAD_BYTES, MAX_INFORMATIONAL};

fn read(bytes: &[u8]) -> Result<Option<ResponseHead>, InvalidResponse> {
    Ok(HeadReader::default().push(bytes)?.map(|(head, _)| head))
}

/// Framing and whether the connection is kept, of a head with these lines.
fn framing(lines: &str) -> Result<(String, bool), InvalidResponse> {
    let head = read(format!("{lines}\r\n\r\n").as_bytes())?.unwrap();
    let body = match head.body {
        Body::Length(length) => length.to_string(),
        Body::Chunked(_) => "chunked".to_owned(),
        Body::UntilClose => "until close".to_owned(),
    };
    Ok((body, head.keep_alive))
}

#[test]
fn framing_follows_the_headers() {
    for (lines, body, keep_alive) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5", "5", true),
        ("HTTP/1.1 200\r\nContent-Length:5", "5", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5", "5", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5, 5", "5", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked", "chunked", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5", "chunked", false),
        ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked", "chunked", false),
        ("HTTP/1.1 200 OK", "until close", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close", "5", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: x, Close", "5", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 5", "5", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive", "5", true),
        ("HTTP/1.1 204 No Content", "0", true),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5", "0", true),
    ] {
        assert_eq!(framing(lines), Ok((body.to_owned(), keep_alive)), "{lines:?}");
    }
}

#[test]
fn invalid_heads_are_refused() {
    for lines in [
        "HTTP/1.1 200 OK\r\ncontent-length: -1",
        "HTTP/1.1 200 OK\r\ncontent-length: +1",
        "HTTP/1.1 200 OK\r\ncontent-length: 1 2",
        "HTTP/1.1 200 OK\r\ncontent-length:",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2",
        "HTTP/1.1 200 OK\r\ncontent-length: 1, 2",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "HTTP/1.1 200 OK\r\ntransfer-encoding:",
        "HTTP/1.1 200 OK\r\ntransfer-encoding : chunked",
        "HTTP/1.1 200 OK\r\n folded: x",
        "HTTP/1.1 101 Switching Protocols",
        "HTTP/1.1 099 What",
        "HTTP/2.0 200 OK",
        "200 OK",
        "<html>",
    ] {
        assert!(framing(lines).is_err(), "{lines:?}");
    }
}

#[test]
fn informational_responses_are_skipped_up_to_a_limit() {
    let informational = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let head = read(format!("{}{last}", informational.repeat(MAX_INFORMATIONAL)).as_bytes());
    assert_eq!(head.unwrap().unwrap().status, 200);
    let head = read(informational.repeat(MAX_INFORMATIONAL + 1).as_bytes());
    assert_eq!(head.unwrap_err(), InvalidResponse::Informational);
}

#[test]
fn heads_are_bounded_in_bytes_and_headers() {
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(MAX_HEAD_BYTES));
    assert_eq!(read(endless.as_bytes()).unwrap_err(), InvalidResponse::HeadTooLarge);
    assert_eq!(read(format!("{endless}\r\n\r\n").as_bytes()).unwrap_err(), InvalidResponse::HeadTooLarge);
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101));
    assert_eq!(read(many.as_bytes()).unwrap_err(), InvalidResponse::Head(httparse::Error::TooManyHeaders));
}

/// The first head in bytes that come in pieces of these lengths, and where the bytes behind it begin.
fn push_in_pieces(bytes: &[u8], lengths: &[usize]) -> Result<Option<(String, usize)>, InvalidResponse> {
    let mut reader = HeadReader::default();
    let (mut read, mut lengths) = (0, lengths.iter().cycle());
    while read < bytes.len() {
        let end = (read + lengths.next().unwrap()).min(bytes.len());
        if let Some((head, length)) = reader.push(&bytes[read..end])? {
            return Ok(Some((format!("{head:?}"), read + length)));
        }
        read = end;
    }
    Ok(None)
}

proptest! {
    #[test]
    fn fuzz_a_head_is_found_however_it_is_cut(
        informational in 0_usize..3,
        headers in prop::collection::vec("[a-z]{1,9}: [ -~]{0,20}", 0..6),
        framing in prop_oneof![Just("content-length: 3"), Just("transfer-encoding: chunked"), Just("retry-after: 1")],
        bare_line_feeds in any::<bool>(),
        behind in "[ -~]{0,9}",
        lengths in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let mut text = "HTTP/1.1 100 Continue\r\n\r\n".repeat(informational);
        text.push_str("HTTP/1.1 200 OK\r\n");
        for header in &headers {
            text.push_str(&format!("x-{header}\r\n"));
        }
        text.push_str(&format!("{framing}\r\n\r\n"));
        if bare_line_feeds {
            text = text.replace("\r\n", "\n");
        }
        let end = text.len();
        text.push_str(&behind);
        let whole = push_in_pieces(text.as_bytes(), &[text.len()]);
        prop_assert_eq!(whole.as_ref().unwrap().as_ref().unwrap().1, end);
        prop_assert_eq!(push_in_pieces(text.as_bytes(), &lengths), whole);
    }

    #[test]
    fn fuzz_any_bytes_are_a_head_or_an_error(
        start in prop_oneof![Just(&b""[..]), Just(&b"HTTP/1.1 200 OK\r\n"[..]), Just(&b"HTTP/1.1 100 C\r\n\r\n"[..])],
        rest in prop::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), Just(b'a'), any::<u8>()],
            0..60,
        ),
        lengths in prop::collection::vec(1_usize..9, 1..5),
    ) {
        let bytes = [start, &rest].concat();
        // When an error is found depends on the pieces, whether one is found does not, once the head is complete.
        let whole = push_in_pieces(&bytes, &[bytes.len().max(1)]);
        let cut = push_in_pieces(&bytes, &lengths);
        if let Ok(Some(found)) = whole {
            prop_assert_eq!(cut, Ok(Some(found)));
        }
    }
}
