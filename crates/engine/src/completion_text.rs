//! What the model is told of the result of a tool whose work has gone on.

use antwort_tools::shorten;

/// The result of work whose result was not reported in time, and its code.
pub(super) const TIMED_OUT: (&str, &str) =
    ("Tool call timed out: its result was not reported", "tool_timeout");

/// What precedes the name of a call in a message that tells of it, and what follows.
const CALL: (&str, char) = ("(call ", ')');

/// The calls that a text names as messages with results do.
pub(super) fn calls_announced_in(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.split(CALL.0).skip(1);
    behind.filter_map(|rest| rest.split_once(CALL.1)).map(|(call, _)| call)
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
    let call = format!("{}{item}{}", CALL.0, CALL.1);
    match error {
        None => {
            format!("The tool {tool}, which was started before {call}, has finished. Its result:\n\n{text}")
        }
        Some(_) => format!("The tool {tool}, which was started before {call}, has failed:\n\n{text}"),
    }
}
