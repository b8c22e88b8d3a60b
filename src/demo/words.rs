//! What the script finds in a text: words, names behind a word, a calculation.

/// Characters of a text that are quoted.
const MAX_QUOTED: usize = 120;

/// The words of a text, in lower case.
pub(super) fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    parts.map(str::to_lowercase).collect()
}

/// The name, which has a capital letter, behind some words: `Oslo` in "the weather in Oslo?" behind "in".
pub(super) fn named_after(text: &str, words: &str) -> Option<String> {
    // In ASCII, so that places in both texts are the same.
    let lower = text.to_ascii_lowercase();
    lower.match_indices(words).find_map(|(at, _)| {
        let alone = lower.get(..at)?.chars().next_back().is_none_or(|c| !c.is_alphanumeric());
        let name: String = text
            .get(at + words.len()..)?
            .strip_prefix(' ')?
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '-' || *c == '\'')
            .collect();
        (alone && name.chars().next().is_some_and(char::is_uppercase)).then_some(name)
    })
}

/// A text in quotation marks, its beginning if it is long.
pub(super) fn quoted(text: &str) -> String {
    let text = text.trim();
    let shown: String = text.chars().take(MAX_QUOTED).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    format!("\"{shown}{rest}\"")
}

/// The arithmetic in a text: `6 * 7` in "What is 6 * 7?".
pub(super) fn calculation(text: &str) -> Option<String> {
    let parts = text.split(|c: char| !(c.is_ascii_digit() || " +-*/().%^".contains(c)));
    let mut found = parts.map(|part| part.trim_matches(|c: char| " .".contains(c)));
    found.find(|part| is_calculation(part)).map(str::to_owned)
}

/// Whether there is arithmetic in a text.
pub(super) fn has_calculation(text: &str) -> bool {
    calculation(text).is_some()
}

/// Two numbers at least, with an operator between them.
fn is_calculation(text: &str) -> bool {
    let Some((left, right)) = text.split_once(['+', '-', '*', '/', '%', '^']) else { return false };
    [left, right].iter().all(|side| side.contains(|c: char| c.is_ascii_digit()))
}
