//! Progress notifications, and sanitizing of untrusted text.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// Maximum bytes of a server's text in a log line.
const MAX_LOG_BYTES: usize = 4 * 1024;
/// Maximum bytes of a server's text in an error.
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

/// Parses a progress notification: token and message.
pub(super) fn progress(raw: &RawValue) -> Option<(i64, Option<String>)> {
    let raw: RawProgress = serde_json::from_str(raw.get()).ok()?;
    let token = match &raw.progress_token {
        Value::String(token) => token.parse().ok()?,
        token => token.as_i64()?,
    };
    let message =
        raw.message.filter(|message| !message.is_empty()).map(|message| sanitize_for_error(&message));
    Some((token, message.or_else(|| Some(fraction(&raw.progress?, raw.total.as_ref())))))
}

fn fraction(progress: &Number, total: Option<&Number>) -> String {
    match total {
        Some(total) => format!("{progress}/{total}"),
        None => progress.to_string(),
    }
}

/// Sanitizes untrusted text for logs: bounded, without control characters.
pub(super) fn sanitize_for_log(text: &[u8]) -> String {
    sanitize(text, MAX_LOG_BYTES)
}

/// As [`sanitize_for_log`], with another limit.
pub(super) fn sanitize_up_to(text: &[u8], max_bytes: usize) -> String {
    sanitize(text, max_bytes)
}

/// Sanitizes untrusted text for errors, which models, clients and logs see.
pub(super) fn sanitize_for_error(text: &str) -> String {
    sanitize(text.as_bytes(), MAX_ERROR_BYTES)
}

fn sanitize(bytes: &[u8], max_bytes: usize) -> String {
    let cut = bytes.get(..max_bytes).unwrap_or(bytes);
    let mut text = String::with_capacity(cut.len());
    for character in String::from_utf8_lossy(cut).chars() {
        if character.is_control() {
            // Writing to a string cannot fail.
            let _written = write!(text, "{}", character.escape_default());
        } else {
            text.push(character);
        }
    }
    if cut.len() < bytes.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_are_cut_and_move_no_cursor() {
        let sanitized = sanitize_for_error(&format!("\u{1b}[2J{}", "é".repeat(1 << 20)));
        assert!(sanitized.starts_with("\\u{1b}[2Jé") && sanitized.ends_with('…'), "{}", &sanitized[..20]);
        assert!(sanitized.len() < MAX_ERROR_BYTES + 32, "{}", sanitized.len());
    }
}
