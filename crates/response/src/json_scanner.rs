//! Finds the end of a JSON value whose text arrives in pieces, looking at each byte once.

use serde::de::IgnoredAny;

/// How much of an object or a list has arrived, by its brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonScanner {
    /// Nothing but white space has arrived.
    #[default]
    Empty,
    /// The value has begun, and its brackets are not all closed.
    Partial {
        /// Open brackets.
        depth: u32,
        /// The text ends within a string.
        in_string: bool,
        /// The text ends within an escape sequence.
        escaped: bool,
    },
    /// The value is complete; what follows is something else.
    Complete,
}

impl JsonScanner {
    /// Takes in the next piece of the text.
    pub fn advance(&mut self, text: &str) {
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

/// Whether a growing text is exactly one object or list. Scans only what was added since the last question, and
/// parses the text once, when its brackets are closed.
#[derive(Debug, Default)]
pub(crate) struct JsonCompleteness {
    extent: JsonScanner,
    looked_at: usize,
    is_valid: bool,
    /// Bytes that were looked at in all.
    #[cfg(test)]
    work: usize,
}

impl JsonCompleteness {
    /// Whether the text, which extends that of the last call, is complete.
    pub(crate) fn is_complete(&mut self, text: &str) -> bool {
        let new = text.as_bytes().get(self.looked_at..).unwrap_or_default();
        #[cfg(test)]
        {
            self.work += new.len();
        }
        for (place, byte) in (self.looked_at..).zip(new) {
            if self.extent == JsonScanner::Complete {
                // JSON has no other white space.
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
        /// Each question once parsed the whole text: quadratic in the length of a call's arguments.
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
