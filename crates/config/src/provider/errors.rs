//! The words of a provider's errors, besides those that the gateway knows.

use regex::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};

/// How a provider tells its errors.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ProviderErrors {
    /// Patterns of messages that mean that a prompt is longer than the context window, added to the built-in ones.
    pub context_overflow: Vec<ErrorPattern>,
}

/// A regular expression for messages, case ignored.
#[derive(Debug, Clone)]
pub struct ErrorPattern(Regex);

impl ErrorPattern {
    /// Compiles a pattern. The error says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("is empty, and would match every message".to_owned());
        }
        let compiled = RegexBuilder::new(pattern).case_insensitive(true).build();
        compiled.map(Self).map_err(|error| format!("is not a regular expression: {error}"))
    }

    /// Whether it is found in a message.
    pub fn is_match(&self, message: &str) -> bool {
        self.0.is_match(message)
    }
}

impl Serialize for ErrorPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_ignores_case_and_a_broken_one_says_what_is_wrong() {
        assert!(ErrorPattern::new("too (long|LARGE)").unwrap().is_match("That is Too Large."));
        assert!(ErrorPattern::new("(").unwrap_err().contains("unclosed group"));
        assert!(ErrorPattern::new("").is_err());
    }
}
