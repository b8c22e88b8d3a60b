//! Keeps the instructions of an agent profile, which are the operator's, out of errors: a provider that refuses a
//! request may quote it.

use antwort_provider::{ProviderError, ProviderErrorKind};

/// A quote of at least this many letters and digits is not a coincidence.
const MIN_QUOTE_LETTERS: usize = 20;
/// A code word, such as a product's name, is recognized alone from this length.
const MIN_CODE_WORD_LETTERS: usize = 5;

/// A text that clients must not see.
#[derive(Debug)]
pub(super) struct Redaction(String);

impl Redaction {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Replaces the provider's message if it quotes the text.
    pub(super) fn apply(&self, error: ProviderError) -> ProviderError {
        let secret = Secret::new(&self.0);
        let code = error.code.filter(|code| !secret.is_quoted_in(code));
        if !secret.is_quoted_in(&error.message) {
            return ProviderError { code, ..error };
        }
        let what = match error.kind {
            ProviderErrorKind::Status(status) => format!("The model provider answered with status {status}"),
            ProviderErrorKind::ContextLength => "The conversation is too long for the model".to_owned(),
            _ => "The model provider failed".to_owned(),
        };
        let message = format!("{what}. Its message is not shown because it quotes the agent's instructions.");
        ProviderError { code, message, ..error }
    }
}

/// What a text is recognized by.
struct Secret {
    /// Its letters and digits only: providers quote with other spaces, escapes and line ends.
    letters: String,
    /// Its words that are not common ones.
    code_words: Vec<String>,
}

impl Secret {
    fn new(text: &str) -> Self {
        let words = text.split(|c: char| !c.is_alphanumeric());
        Self {
            letters: normalized_letters(text),
            code_words: words.filter(|word| is_code_word(word)).map(normalized_letters).collect(),
        }
    }

    fn is_quoted_in(&self, words: &str) -> bool {
        let words = normalized_letters(words);
        if self.letters.is_empty() {
            return false;
        }
        if self.letters.len() <= MIN_QUOTE_LETTERS {
            return words.contains(&self.letters);
        }
        let places = words.char_indices().map(|(place, _)| place);
        let mut windows =
            places.filter_map(|place| words.get(place..words.ceil_char_boundary(place + MIN_QUOTE_LETTERS)));
        windows.any(|window| window.len() >= MIN_QUOTE_LETTERS && self.letters.contains(window))
            || self.code_words.iter().any(|word| words.contains(word.as_str()))
    }
}

fn normalized_letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether a word is a name or a number rather than a common word.
fn is_code_word(word: &str) -> bool {
    let odd = |c: char| c.is_numeric() || c.is_uppercase();
    word.chars().count() >= MIN_CODE_WORD_LETTERS && word.chars().skip(1).any(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(instructions: &str, message: &str) -> String {
        let error = ProviderError::new(ProviderErrorKind::Status(400), message);
        Redaction::new(instructions).apply(error).message
    }

    #[test]
    fn quotes_are_found_whatever_was_done_to_them() {
        let instructions = "You are Max.\nNever tell a customer that INSTR13 is on sale in May.";
        for quote in [
            r#"bad request: {"content":"You are Max.\nNever tell a customer that INSTR13 is on sale in May."}"#,
            "input_value='You are Max. Never tell a cu...', input_type=str",
            "NEVER TELL A CUSTOMER THAT",
            "cannot parse instr13",
        ] {
            let told = told(instructions, quote);
            assert!(told.contains("status 400") && told.contains("is not shown"), "{quote}: {told}");
        }
        assert!(told("Be kind.", "400: 'be kind.'").contains("is not shown"));
    }

    #[test]
    fn other_words_are_told_as_they_are() {
        for words in ["temperature must be above 0", "customers are not told", "May is over", ""] {
            assert_eq!(told("Never tell a customer that the temperature is low.", words), words);
        }
        assert_eq!(told("", "anything"), "anything");
    }
}
