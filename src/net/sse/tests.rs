use std::time::Instant;

use proptest::prelude::*;

use super::*;

type Owned = (Option<String>, String);

/// Feeds chunks one after the other and pulls after each.
fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut decoder = Decoder::new(1 << 20);
    let mut events = Vec::new();
    let mut pull = |decoder: &mut Decoder| {
        while let Some(event) = decoder.next_event().unwrap() {
            events.push((event.name.map(str::to_owned), event.data.into_owned()));
        }
    };
    for chunk in chunks {
        decoder.feed(chunk);
        pull(&mut decoder);
    }
    decoder.end();
    pull(&mut decoder);
    events
}

fn data(stream: &[u8]) -> Vec<String> {
    decode([stream]).into_iter().map(|(_, data)| data).collect()
}

/// The same rules, written for the eye: whole input, all lines, one after the other.
fn naive(stream: &[u8]) -> Vec<Owned> {
    let stream = stream.strip_prefix(BOM).unwrap_or(stream);
    let text = String::from_utf8_lossy(stream).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut name, mut data) = (Vec::new(), None, String::new());
    for line in text.split('\n').chain([""]) {
        if line.is_empty() {
            let (name, data) = (name.take(), std::mem::take(&mut data));
            if !data.is_empty() {
                events.push((name, data));
            }
            continue;
        }
        let (field, value) =
            if line.starts_with('{') { ("data", line) } else { line.split_once(':').unwrap_or((line, "")) };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" if data.is_empty() => data.push_str(value),
            "data" => data.extend(["\n", value]),
            "event" => name = Some(value.to_owned()).filter(|name| !name.is_empty()),
            _ => {}
        }
    }
    events
}

#[test]
fn frames_of_the_wild() {
    let rows: &[(&str, &[u8], &[&str])] = &[
        ("line feeds", b"data: a\n\ndata: b\n\n", &["a", "b"]),
        ("carriage returns and line feeds", b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("carriage returns alone", b"data: a\r\rdata: b\r\r", &["a", "b"]),
        ("all mixed", b"data: a\r\n\ndata: b\r\r\ndata: c\n\r", &["a", "b", "c"]),
        ("byte order mark", b"\xEF\xBB\xBFdata: a\n\n", &["a"]),
        ("no space behind the colon", b"data:a\n\ndata:  b\n\n", &["a", " b"]),
        ("comments and heartbeats", b": OPENROUTER PROCESSING\n\n:\n\ndata: a\n: ping\n\n", &["a"]),
        ("several lines", b"data: a\ndata: b\n\n", &["a\nb"]),
        ("empty data", b"data:\n\ndata\n\nevent: ping\n\ndata: a\n\n", &["a"]),
        ("id and retry", b"id: 1\nretry: 10\ndata: a\n\n", &["a"]),
        ("unknown fields", b"dat: x\ndatas: y\nfoo\ndata: a\n\n", &["a"]),
        ("no blank line at the end", b"data: a\n\ndata: [DONE]\n", &["a", "[DONE]"]),
        ("no line feed at the end", b"data: a\n\ndata: [DONE]", &["a", "[DONE]"]),
        ("bare JSON between events", b"data: a\n\n{\"error\":{}}\n", &["a", "{\"error\":{}}"]),
        ("no UTF-8", b"data: \xFF\xC3\n\n", &["\u{FFFD}\u{FFFD}"]),
        ("nothing", b"", &[]),
        ("half a byte order mark", b"\xEF\xBB", &[]),
    ];
    for (name, stream, expected) in rows {
        assert_eq!(data(stream), *expected, "{name}");
        assert_eq!(decode(stream.chunks(1)), decode([*stream]), "{name}, byte by byte");
    }
}

#[test]
fn names_belong_to_one_event() {
    let events = decode([&b"event: error\ndata: a\n\nevent: lost\n\ndata: b\n\n"[..]]);
    assert_eq!(events, [(Some("error".to_owned()), "a".to_owned()), (None, "b".to_owned())]);
}

#[test]
fn a_character_may_be_split_between_chunks() {
    let stream = "data: é€😀\n\n".as_bytes();
    for cut in 0..stream.len() {
        let (a, b) = stream.split_at(cut);
        assert_eq!(decode([a, b])[0].1, "é€😀");
    }
}

#[test]
fn too_large_is_an_error_that_stays() {
    for stream in ["data: 123456789".to_owned(), "data: 12345\n".repeat(3), ":".repeat(11)] {
        let mut decoder = Decoder::new(10);
        decoder.feed(b"data: ok\n\n");
        decoder.feed(stream.as_bytes());
        assert_eq!(decoder.next_event().unwrap().unwrap().data, "ok");
        assert_eq!(decoder.next_event(), Err(TooLarge { limit: 10 }), "{stream}");
        decoder.feed(b"\n\ndata: b\n\n");
        assert_eq!(decoder.next_event(), Err(TooLarge { limit: 10 }));
    }
}

#[test]
fn steady_state_allocates_nothing() {
    let mut decoder = Decoder::new(1 << 20);
    let frame = format!("data: {}\n\n", "x".repeat(200));
    let mut places = std::collections::HashSet::new();
    for _ in 0..1000 {
        decoder.feed(frame.as_bytes());
        let event = decoder.next_event().unwrap().unwrap();
        places.insert(event.data.as_ptr());
        assert!(matches!(event.data, Cow::Borrowed(_)));
        assert_eq!(decoder.next_event().unwrap(), None);
    }
    assert_eq!(places.len(), 1);
}

#[test]
fn a_huge_event_in_tiny_chunks_takes_linear_time() {
    let time = |size: usize| {
        let mut decoder = Decoder::new(size + 16);
        let start = Instant::now();
        decoder.feed(b"data: ");
        for _ in 0..size / 16 {
            decoder.feed(b"0123456789abcdef");
            assert_eq!(decoder.next_event().unwrap(), None);
        }
        decoder.feed(b"\n\n");
        assert_eq!(decoder.next_event().unwrap().unwrap().data.len(), size);
        start.elapsed()
    };
    // Quadratic time would make the larger one 1,024 times slower; linear is 32. The bound is far from both.
    let (small, large) = (time(1 << 15), time(1 << 20));
    assert!(large < small * 300, "{small:?} for 32 KiB, {large:?} for 1 MiB");
}

/// Streams made of what decides: field names, colons, line ends, braces, marks, odd bytes.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data".to_vec()),
        Just(b"data: ".to_vec()),
        Just(b"event: e".to_vec()),
        Just(b":".to_vec()),
        Just(b" ".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"{".to_vec()),
        Just(BOM.to_vec()),
        Just("é€😀".as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// As many cases as `PROPTEST_CASES` says; 2,000 if it says nothing.
fn config() -> ProptestConfig {
    let said = std::env::var_os("PROPTEST_CASES").is_some();
    if said { ProptestConfig::default() } else { ProptestConfig::with_cases(2000) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_chunking_gives_what_the_naive_decoder_gives(stream in streams(), cuts in prop::collection::vec(0_usize..20, 0..60)) {
        let mut rest = stream.as_slice();
        let mut chunks = Vec::new();
        for cut in cuts {
            let (chunk, tail) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = tail;
        }
        chunks.push(rest);
        prop_assert_eq!(decode(chunks), naive(&stream));
    }

    #[test]
    fn arbitrary_bytes_never_panic(stream in prop::collection::vec(any::<u8>(), 0..400), limit in 0_usize..50) {
        let mut decoder = Decoder::new(limit);
        for chunk in stream.chunks(7) {
            decoder.feed(chunk);
            while let Ok(Some(event)) = decoder.next_event() {
                prop_assert!(!event.data.is_empty());
            }
        }
        decoder.end();
        while let Ok(Some(_)) = decoder.next_event() {}
    }
}
