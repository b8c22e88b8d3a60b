use std::borrow::Cow;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

type Owned = (Option<String>, String);

/// Feeds chunks one after the other and pulls after each.
fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut decoder = Decoder::new(1 << 20);
    let mut events = Vec::new();
    let mut pull = |decoder: &mut Decoder| {
        while let Some(event) = decoder.next_event().unwrap() {
            events.push((event.name.map(Cow::into_owned), event.data.into_owned()));
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
fn naive(stream: &[u8]) -> Vec<Event<'static>> {
    let (mut events, mut event, mut data) = (Vec::new(), Event::default(), Vec::new());
    for line in normalized(stream).split('\n').chain([""]) {
        let (field, value) = match line.split_once(':') {
            _ if line.starts_with('{') => ("data", line),
            Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            None => (line, ""),
        };
        match field {
            "" if line.is_empty() => {
                let data = Cow::Owned(std::mem::take(&mut data).join("\n"));
                events.push(Event { data, ..std::mem::take(&mut event) });
            }
            "data" => data.push(value.to_owned()),
            "event" => {
                event.name = Some(Cow::Owned(value.to_owned()))
                    .filter(|name: &Cow<'_, str>| !name.is_empty() && name != "message");
            }
            "id" if value.contains('\0') => {}
            "id" => event.id = Some(value.to_owned()).filter(|id| !id.is_empty()),
            "retry" => {
                event.retry = value.parse().ok().map(Duration::from_millis).or(event.retry);
            }
            _ => {}
        }
    }
    events.retain(|event| *event != Event::default());
    events
}

fn normalized(stream: &[u8]) -> String {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    String::from_utf8_lossy(stream).replace("\r\n", "\n").replace('\r', "\n")
}

/// What the crate makes of the whole stream at once: names and data.
fn by_crate(stream: &[u8]) -> Vec<Owned> {
    use eventsource_stream::Eventsource;
    use futures_util::{FutureExt, StreamExt, stream};

    let text = normalized(stream).replace("\n{", "\ndata:{");
    let first = if text.starts_with('{') { "\ndata:" } else { "\n" };
    let whole = stream::iter([Ok::<_, std::convert::Infallible>(format!("{first}{text}\n\n"))]);
    let events = whole.eventsource().collect::<Vec<_>>().now_or_never().unwrap();
    let events = events.into_iter().map(Result::unwrap).filter(|event| !event.data.is_empty());
    events.map(|event| (Some(event.event).filter(|name| name != "message"), event.data)).collect()
}

/// Feeds pieces one after the other to a decoder that skips what is too large, and pulls after each.
fn skipping<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Decoded<'static>> {
    let mut decoder = SkippingDecoder::new(limit);
    let mut all = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        while let Some(decoded) = decoder.next_event() {
            all.push(match decoded {
                Decoded::Event(event) => Decoded::Event(owned(event)),
                Decoded::Oversized(event, excerpt) => Decoded::Oversized(owned(event), excerpt),
            });
        }
    }
    all
}

fn owned(event: Event<'_>) -> Event<'static> {
    Event {
        name: event.name.map(|name| Cow::Owned(name.into_owned())),
        data: Cow::Owned(event.data.into_owned()),
        id: event.id,
        retry: event.retry,
    }
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
        ("several lines and carriage returns", b"data: a\r\ndata: b\r\rdata:\ndata: c\r\r", &["a\nb", "\nc"]),
        ("a name", b"event: e\ndata: a\n\nevent: e\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("a name behind the data", b"data: a\nevent: e\n\n", &["a"]),
        ("a mark in the middle", b"data: a\n\n\xEF\xBB\xBFdata: b\n\n\xEF\xBB\xBF\ndata: c\n\n", &["a", "c"]),
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

/// Bytes that reading an event of so many lines allocates.
fn allocated_for(line: &str, lines: usize) -> u64 {
    let event = format!("{}\n", line.repeat(lines));
    let mut decoder = SkippingDecoder::new(event.len());
    let allocated = allocation_counter::measure(|| {
        for piece in event.as_bytes().chunks(3) {
            decoder.feed(piece);
            drop(decoder.next_event());
        }
    });
    allocated.bytes_total
}

#[test]
fn an_event_of_many_lines_costs_linear_memory_traffic() {
    for line in ["data:x\n", "data\r\n", "id: 1\n", "x\n", ":\n", "retry: 1\n"] {
        let (small, large) = (allocated_for(line, 1_000), allocated_for(line, 8_000));
        assert!(large < small.max(1024) * 20, "{line:?}: {small} for 1,000 lines, {large} for 8,000");
    }
}

#[test]
fn an_event_without_end_is_held_within_the_limit() {
    for line in ["data: xxxxxxxx", "data: xxxxxxxx\n", ":xxxxxxx", ":xxxxxxx\n", "id: 1\n", "\n", "\r"] {
        let mut decoder = SkippingDecoder::new(10_000);
        let piece = line.repeat(100);
        let mut stray = 0;
        for _ in 0..5_000 {
            decoder.feed(piece.as_bytes());
            assert!(!matches!(decoder.next_event(), Some(Decoded::Event(_))), "{line:?}");
            stray += decoder.take_stray_bytes();
            assert!(decoder.0.buffer.capacity() <= 64 * 1024, "{line:?}");
        }
        let is_event = line.contains("data") || line.contains("id");
        assert!(decoder.is_skipping() || stray > 400_000, "{line:?}: {stray}");
        assert!(!is_event || decoder.is_skipping(), "{line:?}");
    }
}

#[test]
fn of_what_is_skipped_the_ends_of_the_data_and_the_other_fields_are_known() {
    let long = "y".repeat(5_000);
    let stream = format!(
        ": hi\n\nid: 1\nretry: 50\ndata:\n\nevent: message\r\ndata: {{\"a\":\ndata: 1}}\r\n\r\n\
         id: 2\ndata: begin{long}\ndata: {long}end\nretry: 7\n: {long}\n\ndata: last\n\n"
    );
    for piece in [1, 3, 64, 700, 100_000] {
        let decoded = skipping(100, stream.as_bytes().chunks(piece));
        let [first, second, third, last] = decoded.as_slice() else { panic!("{decoded:?}") };
        let retry = Some(Duration::from_millis(50));
        assert_eq!(*first, Decoded::Event(Event { id: Some("1".to_owned()), retry, ..Event::default() }));
        let data = |data: &'static str| Decoded::Event(Event { data: data.into(), ..Event::default() });
        assert_eq!(*second, data("{\"a\":\n1}"));
        let Decoded::Oversized(event, excerpt) = third else { panic!("{third:?}") };
        let retry = Some(Duration::from_millis(7));
        assert_eq!(*event, Event { id: Some("2".to_owned()), retry, ..Event::default() });
        assert!(
            excerpt.head.starts_with(b"beginyyy") && excerpt.tail.ends_with(b"yyyend"),
            "pieces of {piece}"
        );
        assert_eq!((excerpt.head.len(), excerpt.tail.len()), (512, 512), "pieces of {piece}");
        assert_eq!(*last, data("last"));
    }
}

/// Streams made of what decides: field names, colons, line ends, braces, marks, odd bytes.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data".to_vec()),
        Just(b"data: ".to_vec()),
        Just(b"data: x\n\n".to_vec()),
        Just(b"event: e".to_vec()),
        Just(b"event: message\n".to_vec()),
        Just(b"id: 7".to_vec()),
        Just(b"retry: 5".to_vec()),
        Just(b":".to_vec()),
        Just(b" ".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"{".to_vec()),
        Just(b"\xEF\xBB\xBF".to_vec()),
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

/// Cuts a stream into pieces of these sizes, and the rest.
fn cut<'a>(stream: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = stream;
    let mut pieces = Vec::new();
    for size in sizes {
        let (piece, tail) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces.push(rest);
    pieces
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..20, 0..60)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_cut_gives_what_the_crate_and_a_naive_decoder_give(stream in streams(), sizes in sizes()) {
        let expected: Vec<Owned> = naive(&stream)
            .into_iter()
            .filter(|event| !event.data.is_empty())
            .map(|event| (event.name.map(Cow::into_owned), event.data.into_owned()))
            .collect();
        prop_assert_eq!(&decode(cut(&stream, &sizes)), &expected);
        prop_assert_eq!(&by_crate(&stream), &expected);
    }

    #[test]
    fn any_cut_keeps_ids_and_retries(mut stream in streams(), sizes in sizes()) {
        stream.extend_from_slice(b"\n\n");
        let expected: Vec<_> = naive(&stream).into_iter().map(Decoded::Event).collect();
        prop_assert_eq!(skipping(1 << 20, cut(&stream, &sizes)), expected);
    }

    #[test]
    fn the_fast_path_reads_a_block_as_the_crate_does(stream in streams()) {
        let mut blocks = BlockSplitter::new(1 << 20);
        blocks.feed(&stream);
        blocks.finish_input();
        while let Some(Split::Block(block)) = blocks.next_block() {
            let bytes = blocks.bytes(block);
            if let Some(event) = PlainEvent::find(bytes, block).and_then(|plain| plain.read(bytes, block)) {
                prop_assert_eq!(event, parse::parse(bytes).0);
            }
        }
    }

    #[test]
    fn what_is_too_large_is_so_at_any_cut(stream in streams(), sizes in sizes(), limit in 0_usize..50) {
        prop_assert_eq!(skipping(limit, cut(&stream, &sizes)), skipping(limit, [stream.as_slice()]));
        let strict = |pieces: Vec<&[u8]>| {
            let (mut decoder, mut events) = (Decoder::new(limit), Vec::new());
            for piece in pieces {
                decoder.feed(piece);
                while let Some(event) = decoder.next_event().transpose() {
                    let Ok(event) = event else { return (events, true) };
                    events.push(owned(event));
                }
            }
            (events, false)
        };
        prop_assert_eq!(strict(cut(&stream, &sizes)), strict(vec![&stream]));
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
