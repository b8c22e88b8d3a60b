//! What the model is told of the result of a tool whose work has gone on.

use crate::tools::shorten;

/// The result of work whose result was not reported in time, and its code.
pub(super) const TIMED_OUT: (&str, &str) =
    ("Tool call timed out: its result was not reported", "tool_timeout");

/// How a message names the call of which it tells.
pub(super) fn announced_as(item: &str) -> String {
    format!("(call {item})")
}

/// A message with a result, of which at most so many bytes are told.
pub(super) fn announcement(
    tool: &str,
    item: &str,
    text: &str,
    error: Option<&str>,
    max_bytes: usize,
) -> String {
    let mut text = text.to_owned();
    shorten(&mut text, max_bytes);
    let call = announced_as(item);
    match error {
        None => {
            format!("The tool {tool}, which was started before {call}, has finished. Its result:\n\n{text}")
        }
        Some(_) => format!("The tool {tool}, which was started before {call}, has failed:\n\n{text}"),
    }
}
