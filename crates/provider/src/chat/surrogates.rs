//! Repairs lone surrogates in a provider's JSON. Servers that count in UTF-16 split text within a surrogate pair: each half
//! is then alone in its chunk as an escape such as `\ud83d`, which makes the chunk invalid.
//!
//! Halves at the end of one chunk's text and the beginning of the next one's are joined; others become U+FFFD.

use std::borrow::Cow;

use memchr::memchr;

/// Length of an escape such as `\ud83d` in bytes.
const ESCAPE_LEN: usize = 6;
const REPLACEMENT: &str = "\\ufffd";

/// JSON without lone surrogates, or with one that the next chunk may complete.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Repaired<'a> {
    /// Valid as it is.
    Whole(Cow<'a, str>),
    /// A text in it ends with the first half of a surrogate pair. [`join`] completes it.
    Half(String),
}

/// Repairs one chunk. `more`: another chunk follows, and may begin with the missing half.
pub(super) fn repair(json: &str, more: bool) -> Repaired<'_> {
    // Most chunks have no escape at all.
    if memchr(b'\\', json.as_bytes()).is_none() {
        return Repaired::Whole(Cow::Borrowed(json));
    }
    let mut repaired = String::new();
    let (mut copied, mut open) = (0, false);
    for LoneSurrogate { at, kind } in lone_surrogates(json) {
        if more && kind == SurrogateKind::FirstAtEnd {
            open = true;
            continue;
        }
        repaired.push_str(json.get(copied..at).unwrap_or_default());
        repaired.push_str(REPLACEMENT);
        copied = at + ESCAPE_LEN;
    }
    if copied == 0 {
        return if open { Repaired::Half(json.to_owned()) } else { Repaired::Whole(Cow::Borrowed(json)) };
    }
    repaired.push_str(json.get(copied..).unwrap_or_default());
    if open { Repaired::Half(repaired) } else { Repaired::Whole(Cow::Owned(repaired)) }
}

/// Completes a chunk that ends with half a pair: takes the other half from the beginning of the next chunk, if it is there.
pub(super) fn join(half: &str, next: &str) -> (String, String) {
    let first = lone_surrogates(half).find(|lone| lone.kind == SurrogateKind::FirstAtEnd);
    let second = lone_surrogates(next).find(|lone| lone.kind == SurrogateKind::SecondAtStart);
    let (Some(first), Some(second)) = (first, second) else {
        return (repair_all(half), next.to_owned());
    };
    let (end, begin) = (first.at + ESCAPE_LEN, second.at + ESCAPE_LEN);
    let part = |text: &str, range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    let completed = part(half, 0..end) + &part(next, second.at..begin) + &part(half, end..half.len());
    let rest = part(next, 0..second.at) + &part(next, begin..next.len());
    (repair_all(&completed), rest)
}

/// Repairs the last chunk, which no other can complete.
pub(super) fn repair_all(json: &str) -> String {
    match repair(json, false) {
        Repaired::Whole(json) => json.into_owned(),
        Repaired::Half(json) => json,
    }
}

/// An escape of a lone surrogate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoneSurrogate {
    at: usize,
    kind: SurrogateKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SurrogateKind {
    /// The first half of a pair, at the end of a text.
    FirstAtEnd,
    /// The second half of a pair, at the beginning of a text.
    SecondAtStart,
    /// Cannot be completed by another chunk.
    Within,
}

/// The lone surrogates in JSON.
fn lone_surrogates(json: &str) -> impl Iterator<Item = LoneSurrogate> + '_ {
    let bytes = json.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + memchr(b'\\', bytes.get(from..)?)?;
            let Some(unit) = unit(bytes, at) else {
                from = at + 2;
                continue;
            };
            from = at + ESCAPE_LEN;
            let kind = match unit {
                0xD800..=0xDBFF => match self::unit(bytes, from) {
                    Some(0xDC00..=0xDFFF) => {
                        from += ESCAPE_LEN;
                        continue;
                    }
                    _ if bytes.get(from) == Some(&b'"') => SurrogateKind::FirstAtEnd,
                    _ => SurrogateKind::Within,
                },
                0xDC00..=0xDFFF if at.checked_sub(1).and_then(|i| bytes.get(i)) == Some(&b'"') => {
                    SurrogateKind::SecondAtStart
                }
                0xDC00..=0xDFFF => SurrogateKind::Within,
                _ => continue,
            };
            return Some(LoneSurrogate { at, kind });
        }
    })
}

/// The UTF-16 code unit of the escape at this position, if there is one.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + ESCAPE_LEN)?.strip_prefix(b"\\u")?;
    let digits =
        std::str::from_utf8(escape).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(json: &str) -> String {
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
    }

    #[test]
    fn a_half_of_a_character_becomes_the_replacement_character() {
        for (json, expected) in [
            (r#""a""#, "a"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\uD83D\uDE00\n\u00e9""#, "😀\né"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ud83d b""#, "\u{fffd} b"),
            (r#""a\ude00b""#, "a\u{fffd}b"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d\"\\""#, "\\ud83d\"\\"),
            (r#""\ud83d\"""#, "\u{fffd}\""),
        ] {
            assert_eq!(text(&repair_all(json)), expected, "{json}");
        }
    }

    #[test]
    fn a_character_cut_between_two_chunks_is_joined() {
        let Repaired::Half(half) = repair(r#"{"a":"x\ud83d","b":1}"#, true) else { panic!("whole") };
        let (first, second) = join(&half, r#"{"a":"\ude00y","b":2}"#);
        assert_eq!(
            (first.as_str(), second.as_str()),
            (r#"{"a":"x\ud83d\ude00","b":1}"#, r#"{"a":"y","b":2}"#)
        );
        let (first, second) = join(&half, r#"{"a":"y"}"#);
        assert_eq!((first.as_str(), second.as_str()), (r#"{"a":"x\ufffd","b":1}"#, r#"{"a":"y"}"#));
        assert_eq!(repair(r#"{"a":"\ud83d b"}"#, true), Repaired::Whole(r#"{"a":"\ufffd b"}"#.into()));
    }

    proptest! {
        /// Whatever units of UTF-16 a text is made of and wherever it is cut, what comes out is what a decoder
        /// makes of the whole.
        #[test]
        fn any_cut_of_any_text_reads_as_the_whole(
            units in prop::collection::vec(
                prop::sample::select(vec![0x61_u16, 0xE9, 0xD83D, 0xDE00, 0xFFFD, 0x22, 0x5C]), 0..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let json = |units: &[u16]| {
                let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
                format!("\"{escaped}\"")
            };
            let (before, behind) = units.split_at(cut.index(units.len() + 1));
            let (first, second) = match repair(&json(before), true) {
                Repaired::Whole(first) => (first.into_owned(), json(behind)),
                Repaired::Half(half) => join(&half, &json(behind)),
            };
            let read = text(&first) + &text(&repair_all(&second));
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }
    }
}
