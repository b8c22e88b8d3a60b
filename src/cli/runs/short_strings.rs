//! JSON whose long strings are cut off as it is read, so that a few fields of a large object take little memory.

use std::io::{self, Read};

/// Bytes of a string that are kept.
const MAX_STRING_BYTES: usize = 64 << 10;
/// Bytes of an escape such as `\u00e9` behind its backslash, within which no string is cut.
const ESCAPE_BYTES: usize = 5;

pub(super) struct ShortStrings<R> {
    from: R,
    in_string: bool,
    /// Bytes of this string that were kept.
    kept: usize,
    /// Bytes of it since the last backslash.
    since_escape: usize,
    is_cut: bool,
}

impl<R: Read> ShortStrings<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, in_string: false, kept: 0, since_escape: usize::MAX, is_cut: false }
    }

    /// Whether a byte is kept.
    fn take(&mut self, byte: u8) -> bool {
        if !self.in_string {
            (self.in_string, self.kept, self.since_escape, self.is_cut) =
                (byte == b'"', 0, usize::MAX, false);
            return true;
        }
        let is_escaped = self.since_escape == 0;
        self.since_escape = self.since_escape.saturating_add(1);
        if byte == b'"' && !is_escaped {
            self.in_string = false;
            return true;
        }
        let begins_escape = byte == b'\\' && !is_escaped;
        // Neither within a character nor within an escape.
        let may_cut = begins_escape || byte & 0xC0 != 0x80 && self.since_escape > ESCAPE_BYTES;
        self.is_cut |= may_cut && self.kept >= MAX_STRING_BYTES;
        if begins_escape {
            self.since_escape = 0;
        }
        self.kept += usize::from(!self.is_cut);
        !self.is_cut
    }
}

impl<R: Read> Read for ShortStrings<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.from.read(to)?;
            let mut kept = 0;
            for place in 0..read {
                let Some(byte) = to.get(place).copied() else { break };
                if self.take(byte)
                    && let Some(slot) = to.get_mut(kept)
                {
                    *slot = byte;
                    kept += 1;
                }
            }
            // Nothing kept is not the end.
            if kept > 0 || read == 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn long_strings_are_cut_between_characters_and_all_else_stays() {
        for (long, least) in
            [("x", 65_536), ("\u{e9}", 32_768), ("\\\"", 32_000), ("\\u00e9", 10_000), ("\\\\", 32_000)]
        {
            let text = format!(r#"{{"a":"{}","b \"c":["d\\",1],"e":""}}"#, long.repeat(200_000));
            for chunk in [1, 7, 64 << 10] {
                let mut short = String::new();
                let read = ShortStrings::new(Chunks(text.as_bytes(), chunk)).read_to_string(&mut short);
                assert!(read.is_ok() && short.len() < 70_000, "{long} {chunk}: {}", short.len());
                let value: Value =
                    serde_json::from_str(&short).unwrap_or_else(|error| panic!("{long}: {error}"));
                let kept = value["a"].as_str().unwrap().chars().count();
                assert!(kept >= least, "{long}: {kept}");
                assert_eq!((&value["b \"c"], &value["e"]), (&json!(["d\\", 1]), &json!("")));
            }
        }
    }

    /// Gives so many bytes at a time.
    struct Chunks<'a>(&'a [u8], usize);

    impl Read for Chunks<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let end = self.1.min(to.len());
            self.0.read(&mut to[..end])
        }
    }
}
