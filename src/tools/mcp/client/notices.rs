//! What servers say unasked: how far a call has come, and what they would have logged.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// Bytes of a server's words that are logged.
const LOGGED: usize = 4 * 1024;

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

#[derive(Deserialize)]
struct RawLog {
    #[serde(default)]
    level: String,
    #[serde(default)]
    logger: Option<String>,
    #[serde(default)]
    data: Value,
}

/// Whose progress it is, and what it says.
pub(super) fn progress(raw: &RawValue) -> Option<(i64, Option<String>)> {
    let raw: RawProgress = serde_json::from_str(raw.get()).ok()?;
    let token = match &raw.progress_token {
        Value::String(token) => token.parse().ok()?,
        token => token.as_i64()?,
    };
    let said = raw.message.filter(|message| !message.is_empty());
    Some((token, said.or_else(|| Some(fraction(&raw.progress?, raw.total.as_ref())))))
}

fn fraction(progress: &Number, total: Option<&Number>) -> String {
    match total {
        Some(total) => format!("{progress}/{total}"),
        None => progress.to_string(),
    }
}

/// Logs what a server would have logged.
pub(super) fn log(server: &str, raw: &RawValue) {
    if !tracing::enabled!(target: "antwort::mcp", tracing::Level::ERROR) {
        return;
    }
    let Ok(log) = serde_json::from_str::<RawLog>(raw.get()) else { return };
    let text = match &log.data {
        Value::String(text) => shown(text.as_bytes()),
        data => shown(data.to_string().as_bytes()),
    };
    let logger = log.logger.map(|logger| shown(logger.as_bytes()));
    match log.level.as_str() {
        "emergency" | "alert" | "critical" | "error" => {
            tracing::error!(target: "antwort::mcp", server, logger, "{text}");
        }
        "warning" => tracing::warn!(target: "antwort::mcp", server, logger, "{text}"),
        "notice" | "info" => tracing::info!(target: "antwort::mcp", server, logger, "{text}"),
        _ => tracing::debug!(target: "antwort::mcp", server, logger, "{text}"),
    }
}

/// A stranger's words as they can be logged: not too long, and nothing that moves a terminal's cursor.
pub(super) fn shown(words: &[u8]) -> String {
    let cut = words.get(..LOGGED).unwrap_or(words);
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
