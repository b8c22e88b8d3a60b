//! What servers say of their calls, and a stranger's words as they can be shown.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// Bytes of a server's words that are logged.
const MAX_LOG_BYTES: usize = 4 * 1024;
/// Bytes of a server's words that an error has.
const MAX_ERROR_BYTES: usize = 2 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawProgress {
    progress_token: Value,
    #[serde(default)]
    progress: Option<Number>,
    #[serde(default)]
    total: Option<Number>,
    #[serde(default)]
    message: Option<String>,
}

/// Whose progress it is, and what it says.
pub(super) fn progress(raw: &RawValue) -> Option<(i64, Option<String>)> {
    let raw: RawProgress = serde_json::from_str(raw.get()).ok()?;
    let token = match &raw.progress_token {
        Value::String(token) => token.parse().ok()?,
        token => token.as_i64()?,
    };
    let said = raw.message.filter(|message| !message.is_empty()).map(|message| sanitize_for_error(&message));
    Some((token, said.or_else(|| Some(fraction(&raw.progress?, raw.total.as_ref())))))
}

fn fraction(progress: &Number, total: Option<&Number>) -> String {
    match total {
        Some(total) => format!("{progress}/{total}"),
        None => progress.to_string(),
    }
}

/// A stranger's words as they can be logged: not too long, and nothing that moves a terminal's cursor.
pub(super) fn sanitize_for_log(words: &[u8]) -> String {
    sanitize(words, MAX_LOG_BYTES)
}

/// The same, of up to so many bytes.
pub(super) fn sanitize_up_to(words: &[u8], most: usize) -> String {
    sanitize(words, most)
}

/// A stranger's words as they can be part of an error, which models, clients and logs are told.
pub(super) fn sanitize_for_error(words: &str) -> String {
    sanitize(words.as_bytes(), MAX_ERROR_BYTES)
}

fn sanitize(words: &[u8], most: usize) -> String {
    let cut = words.get(..most).unwrap_or(words);
    let mut text = String::with_capacity(cut.len());
    for character in String::from_utf8_lossy(cut).chars() {
        if character.is_control() {
            // Writing to a string cannot fail.
            let _written = write!(text, "{}", character.escape_default());
        } else {
            text.push(character);
        }
    }
    if cut.len() < words.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_are_cut_and_move_no_cursor() {
        let told = sanitize_for_error(&format!("\u{1b}[2J{}", "é".repeat(1 << 20)));
        assert!(told.starts_with("\\u{1b}[2Jé") && told.ends_with('…'), "{}", &told[..20]);
        assert!(told.len() < MAX_ERROR_BYTES + 32, "{}", told.len());
    }
}
