//! Halves of characters in what a provider sends. Servers that count in UTF-16 cut text between the halves of an
//! emoji: each then stands alone in its chunk as `\ud83d`, which is no text and makes the chunk unreadable.
//!
//! Halves that end one chunk's text and begin the next one's are joined; others become U+FFFD.

use std::borrow::Cow;

use memchr::memchr;

/// Bytes of an escape such as `\ud83d`.
const ESCAPE: usize = 6;
const REPLACEMENT: &str = "\\ufffd";

/// JSON whose escapes are all whole characters, or whose end is still to come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Repaired<'a> {
    /// As it can be read.
    Whole(Cow<'a, str>),
    /// A text in it ends with the first half of a character. [`join`] completes it.
    Half(String),
}

/// Mends one chunk. `more`: others follow, and may begin with what is missing here.
pub(super) fn repair(json: &str, more: bool) -> Repaired<'_> {
    // Most chunks have no escape at all.
    if memchr(b'\\', json.as_bytes()).is_none() {
        return Repaired::Whole(Cow::Borrowed(json));
    }
    let mut mended = String::new();
    let (mut copied, mut open) = (0, false);
    for Lone { at, kind } in lone(json) {
        if more && kind == Kind::FirstAtEnd {
            open = true;
            continue;
        }
        mended.push_str(json.get(copied..at).unwrap_or_default());
        mended.push_str(REPLACEMENT);
        copied = at + ESCAPE;
    }
    if copied == 0 {
        return if open { Repaired::Half(json.to_owned()) } else { Repaired::Whole(Cow::Borrowed(json)) };
    }
    mended.push_str(json.get(copied..).unwrap_or_default());
    if open { Repaired::Half(mended) } else { Repaired::Whole(Cow::Owned(mended)) }
}

/// Completes a chunk that ends within a character by the one behind it, from which the other half is taken, if it
/// begins with one.
pub(super) fn join(half: &str, next: &str) -> (String, String) {
    let first = lone(half).find(|lone| lone.kind == Kind::FirstAtEnd);
    let second = lone(next).find(|lone| lone.kind == Kind::SecondAtStart);
    let (Some(first), Some(second)) = (first, second) else {
        return (repair_all(half), next.to_owned());
    };
    let (end, begin) = (first.at + ESCAPE, second.at + ESCAPE);
    let part = |text: &str, range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    let completed = part(half, 0..end) + &part(next, second.at..begin) + &part(half, end..half.len());
    let rest = part(next, 0..second.at) + &part(next, begin..next.len());
    (repair_all(&completed), rest)
}

/// The chunk, with nothing behind it that could complete it.
pub(super) fn repair_all(json: &str) -> String {
    match repair(json, false) {
        Repaired::Whole(json) => json.into_owned(),
        Repaired::Half(json) => json,
    }
}

/// Half of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lone {
    at: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first half of a character, with which a text ends.
    FirstAtEnd,
    /// The second half of a character, with which a text begins.
    SecondAtStart,
    /// Not to be completed from elsewhere.
    Within,
}

/// The halves of characters in JSON, whose backslashes all stand in strings.
fn lone(json: &str) -> impl Iterator<Item = Lone> + '_ {
    let bytes = json.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + memchr(b'\\', bytes.get(from..)?)?;
            let Some(unit) = unit(bytes, at) else {
                from = at + 2;
                continue;
            };
            from = at + ESCAPE;
            let kind = match unit {
                0xD800..=0xDBFF => match self::unit(bytes, from) {
                    Some(0xDC00..=0xDFFF) => {
                        from += ESCAPE;
                        continue;
                    }
                    _ if bytes.get(from) == Some(&b'"') => Kind::FirstAtEnd,
                    _ => Kind::Within,
                },
                0xDC00..=0xDFFF if at.checked_sub(1).and_then(|i| bytes.get(i)) == Some(&b'"') => {
                    Kind::SecondAtStart
                }
                0xDC00..=0xDFFF => Kind::Within,
                _ => continue,
            };
            return Some(Lone { at, kind });
        }
    })
}

/// The UTF-16 unit of the escape at this place, if there is one.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
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
