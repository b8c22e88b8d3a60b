//! How much of a JSON value has come, where its text comes in pieces: each byte is looked at once.

use serde::de::IgnoredAny;

/// How much of an object or a list has come, by its brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum JsonScanner {
    /// Nothing.
    #[default]
    Empty,
    /// Its beginning.
    Partial {
        /// Brackets that are open.
        depth: u32,
        /// It ends within a string.
        in_string: bool,
        /// It ends within an escape of that.
        escaped: bool,
    },
    /// All of it; what follows is something else.
    Complete,
}

impl JsonScanner {
    /// Takes in more of the text.
    pub(crate) fn advance(&mut self, text: &str) {
        for byte in text.bytes() {
            *self = self.after(byte);
        }
    }

    fn after(self, byte: u8) -> Self {
        let (depth, in_string, escaped) = match self {
            Self::Complete => return self,
            Self::Empty if byte.is_ascii_whitespace() => return self,
            Self::Empty => (0, false, false),
            Self::Partial { depth, in_string, escaped } => (depth, in_string, escaped),
        };
        let part = |depth, in_string, escaped| Self::Partial { depth, in_string, escaped };
        match byte {
            _ if escaped => part(depth, true, false),
            b'\\' if in_string => part(depth, true, true),
            b'"' => part(depth, !in_string, false),
            _ if in_string => part(depth, true, false),
            b'{' | b'[' => part(depth + 1, false, false),
            b'}' | b']' if depth <= 1 => Self::Complete,
            b'}' | b']' => part(depth - 1, false, false),
            _ => part(depth, false, false),
        }
    }
}

/// Whether a text that grows is an object or a list, and nothing else. Costs what has come since it was asked last, and
/// nothing where nobody asks: the text is parsed once, where its brackets close.
#[derive(Debug, Default)]
pub(crate) struct JsonCompleteness {
    extent: JsonScanner,
    looked_at: usize,
    is_valid: bool,
    /// Bytes that were looked at, over all.
    #[cfg(test)]
    work: usize,
}

impl JsonCompleteness {
    /// Whether the text is complete. It is the one of the last time, with more behind it.
    pub(crate) fn is_complete(&mut self, text: &str) -> bool {
        let new = text.as_bytes().get(self.looked_at..).unwrap_or_default();
        #[cfg(test)]
        {
            self.work += new.len();
        }
        for (place, byte) in (self.looked_at..).zip(new) {
            if self.extent == JsonScanner::Complete {
                // JSON has no other spaces.
                self.is_valid &= matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
                continue;
            }
            self.extent = self.extent.after(*byte);
            if self.extent == JsonScanner::Complete {
                #[cfg(test)]
                {
                    self.work += place;
                }
                let value = text.get(..=place).unwrap_or_default();
                self.is_valid = serde_json::from_str::<IgnoredAny>(value).is_ok();
            }
        }
        self.looked_at = text.len();
        self.is_valid
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each question parsed all that had come: the square of what a call has, where something waits behind it.
        #[test]
        fn each_byte_is_looked_at_twice_at_most_and_the_answer_is_that_of_a_parser(
            pieces in prop::collection::vec(r#"[\[\]{}":,a1\\ \n]{0,6}|\{"a":|"b\\"c"|\}"#, 0..40),
            opening in prop::sample::select(vec!["{", "[", " {\"a\":", "{}", "}", ""]),
        ) {
            let mut completeness = JsonCompleteness::default();
            let mut text = opening.to_owned();
            for piece in pieces {
                text.push_str(&piece);
                let is_list = text.trim_start().starts_with(['{', '[']);
                let expected = is_list && serde_json::from_str::<IgnoredAny>(&text).is_ok();
                prop_assert_eq!(completeness.is_complete(&text), expected, "{}", text);
                prop_assert_eq!(completeness.is_complete(&text), expected, "asked again: {}", text);
            }
            prop_assert!(completeness.work <= 2 * text.len());
        }
    }
}
