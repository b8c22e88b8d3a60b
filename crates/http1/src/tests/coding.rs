//! The chunked coding.

use proptest::prelude::*;

use crate::chunked::ChunkedDecoder;
use crate::error::InvalidResponse;
use crate::limits::MAX_OVERHEAD_BYTES;

/// The payload of a body that comes in these pieces, and what of the last piece was not its own; `None`: it is unfinished.
fn decode(pieces: &[&[u8]]) -> Result<Option<(Vec<u8>, usize)>, InvalidResponse> {
    let mut decoder = ChunkedDecoder::new();
    let (mut payload, mut surplus) = (Vec::new(), 0);
    for piece in pieces {
        let mut bytes = piece.to_vec();
        let decoded = decoder.decode(&mut bytes)?;
        assert!(decoded.payload <= decoded.consumed && decoded.consumed <= bytes.len());
        assert!(decoded.consumed == bytes.len() || decoder.is_over());
        payload.extend_from_slice(&bytes[..decoded.payload]);
        surplus += bytes.len() - decoded.consumed;
    }
    Ok(decoder.is_over().then_some((payload, surplus)))
}

#[test]
fn sizes_extensions_and_trailers_are_understood() {
    for (body, payload) in [
        ("0\r\n\r\n", ""),
        ("3\r\nabc\r\n0\r\n\r\n", "abc"),
        ("00000003\r\nabc\r\n000\r\n\r\n", "abc"),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("3;name=value;other=\"x\"\r\nabc\r\n0;last\r\n\r\n", "abc"),
        ("3 \t\r\nabc\r\n0\r\n\r\n", "abc"),
        ("3 ; x\r\nabc\r\n0\r\n\r\n", "abc"),
        ("3\r\n\r\n\r\r\n0\r\n\r\n", "\r\n\r"),
        ("1\r\na\r\n0\r\ndigest: 1\r\nother:\r\n\r\n", "a"),
    ] {
        let decoded = decode(&[body.as_bytes()]);
        assert_eq!(decoded, Ok(Some((payload.as_bytes().to_vec(), 0))), "{body:?}");
    }
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    for body in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "+3\r\nabc",
        "0x3\r\nabc",
        " 3\r\nabc",
        "3\nabc\n0\n\n",
        "3 3\r\nabc",
        "3;a\nabc\r\n",
        "3\r\r\nabc",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\rx",
        "0\r\n\n",
        "0\r\na: b\nc: d\r\n\r\n",
        "0\r\na: b\rc: d\r\n\r\n",
        "0\r\n\rx",
        "10000000000000000\r\n",
        "ffffffffffffffff0\r\n",
    ] {
        assert!(decode(&[body.as_bytes()]).is_err(), "{body:?}");
    }
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let long = "x".repeat(MAX_OVERHEAD_BYTES + 1);
    let chunks = "1;xxxx\r\na\r\n".repeat(MAX_OVERHEAD_BYTES / 4 + 1);
    for body in
        [format!("1;{long}\r\n"), format!("1{}\r\n", long.replace('x', " ")), format!("0\r\n{long}"), chunks]
    {
        assert_eq!(decode(&[body.as_bytes()]), Err(InvalidResponse::ChunkOverhead));
    }
}

/// Bytes cut into pieces of these lengths, over and over.
fn cut<'a>(bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((*lengths.next().unwrap()).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

fn a_chunk() -> impl Strategy<Value = (Vec<u8>, bool, &'static str)> {
    let extension = prop_oneof![Just(""), Just(";a"), Just(" ;b=\"c\""), Just("\t")];
    (prop::collection::vec(any::<u8>(), 1..40), any::<bool>(), extension)
}

proptest! {
    #[test]
    fn fuzz_payload_comes_through_however_it_is_cut(
        chunks in prop::collection::vec(a_chunk(), 0..12),
        trailers in prop::collection::vec("[a-z]{1,8}: [ -~]{0,8}", 0..3),
        surplus in prop::collection::vec(any::<u8>(), 0..4),
        lengths in prop::collection::vec(1_usize..30, 1..6),
    ) {
        let mut body = Vec::new();
        let mut payload = Vec::new();
        for (data, upper, extension) in chunks {
            let size = if upper { format!("{:X}", data.len()) } else { format!("{:x}", data.len()) };
            body.extend_from_slice(format!("{size}{extension}\r\n").as_bytes());
            body.extend_from_slice(&data);
            body.extend_from_slice(b"\r\n");
            payload.extend_from_slice(&data);
        }
        body.extend_from_slice(b"0\r\n");
        for trailer in trailers {
            body.extend_from_slice(format!("{trailer}\r\n").as_bytes());
        }
        body.extend_from_slice(b"\r\n");
        body.extend_from_slice(&surplus);
        prop_assert_eq!(decode(&cut(&body, &lengths)), Ok(Some((payload, surplus.len()))));
    }

    #[test]
    fn fuzz_any_bytes_decode_the_same_however_they_are_cut(
        bytes in prop::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'2'), Just(b';'), Just(b' '), any::<u8>()],
            0..60,
        ),
        lengths in prop::collection::vec(1_usize..9, 1..5),
    ) {
        prop_assert_eq!(decode(&cut(&bytes, &lengths)), decode(&[&bytes]));
    }
}
