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
        let name = name(text.get(at + words.len()..)?.strip_prefix(' ')?);
        alone.then_some(name).filter(|name| !name.is_empty())
    })
}

/// The name at the beginning of a text, of one word or several: "New York". Empty: there is none.
pub(super) fn name(text: &str) -> String {
    let mut name = String::new();
    for word in text.split(' ') {
        let end = word.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '\'').unwrap_or(word.len());
        let part = word.get(..end).unwrap_or_default();
        let is_first = name.is_empty();
        // "I" is no part of one.
        if !part.starts_with(char::is_uppercase) || (!is_first && part.len() < 2) {
            break;
        }
        name.push_str(if is_first { "" } else { " " });
        name.push_str(part);
        if end < word.len() {
            break;
        }
    }
    name
}

/// A text in quotation marks, its beginning if it is long.
pub(super) fn quoted(text: &str) -> String {
    let text = text.trim();
    let shown: String = text.chars().take(MAX_QUOTED).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    format!("\"{shown}{rest}\"")
}

/// The arithmetic in a text: `6 * 7` in "What is 6 * 7?", `85.50 * 20 / 100` in "a 20% tip on $85.50".
pub(super) fn calculation(text: &str) -> Option<String> {
    if let Some(share) = share(text) {
        return Some(share);
    }
    let parts = text.split(|c: char| !(c.is_ascii_digit() || " +-*/().%^".contains(c)));
    let mut found = parts.map(|part| part.trim_matches(|c: char| " .".contains(c)));
    found.find(|part| is_calculation(part)).map(str::to_owned)
}

/// Whether there is arithmetic in a text.
pub(super) fn has_calculation(text: &str) -> bool {
    calculation(text).is_some()
}

/// A part of a hundred of a number that comes later.
fn share(text: &str) -> Option<String> {
    let (before, behind) = text.split_once('%')?;
    let is_other = |c: char| !(c.is_ascii_digit() || c == '.');
    let percent = before.trim_end().rsplit(is_other).next().filter(|percent| !percent.is_empty())?;
    // A remainder has its number at once.
    let behind = behind.trim_start().strip_prefix(char::is_alphabetic)?;
    let number = behind.split(is_other).find(|part| part.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(format!("{} * {percent} / 100", number.trim_end_matches('.')))
}

/// A year, a month and a day.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split(['-', '/', '.']).collect();
    parts.len() == 3
        && parts.iter().all(|part| (1..=4).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit()))
}

/// Two numbers at least, with an operator between them.
fn is_calculation(text: &str) -> bool {
    if is_date(text) {
        return false;
    }
    let Some((left, right)) = text.split_once(['+', '-', '*', '/', '%', '^']) else { return false };
    [left, right].iter().all(|side| side.contains(|c: char| c.is_ascii_digit()))
}
