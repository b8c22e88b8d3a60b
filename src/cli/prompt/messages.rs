//! The words that scripts match. Which prefix an error has depends on how the prompt is run.

/// The heading of a stream in which tools may run.
pub(crate) const BANNER: &str = "Streaming response with tool execution:";

/// Prefixes of errors of a run.
const ERROR_PREFIXES: [&str; 4] =
    ["Error: ", "Stream error: ", "Tools execution failed: ", "Tools stream execution"];

/// How the prompt is run, as far as messages depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    /// The answer is printed while it is generated.
    pub stream: bool,
    /// Tools are run.
    pub tools: bool,
}

impl Mode {
    /// The message for a refused request.
    pub(crate) fn rejected(self, message: &str) -> String {
        match (self.stream, self.tools) {
            (true, true) => format!("Tools stream execution failed: {message}"),
            _ => self.failed(message),
        }
    }

    /// The message for a failed response.
    pub(crate) fn failed(self, message: &str) -> String {
        match (self.stream, self.tools) {
            (true, _) => format!("Stream error: {message}"),
            (false, true) => execution_failed(message),
            (false, false) => format!("Error: {message}"),
        }
    }
}

/// The message for tools that cannot run.
pub(crate) fn execution_failed(message: &str) -> String {
    format!("Tools execution failed: {message}")
}

/// Errors of settings and setup have no prefix yet.
pub(crate) fn with_prefix(message: String) -> String {
    if ERROR_PREFIXES.iter().any(|prefix| message.starts_with(prefix)) {
        message
    } else {
        format!("Error: {message}")
    }
}

/// The message for a flag that the protocol requires.
pub(crate) fn missing_flag(flag: &str, protocol: &str) -> String {
    format!("Error: -{flag} flag is required for {protocol} protocol")
}

/// The answer after tools were run.
pub(crate) fn final_response(text: &str) -> String {
    format!("Final response: {text}")
}

/// The token usage of all responses.
pub(crate) fn tokens(prompt: u64, completion: u64, total: u64) -> String {
    format!("Tokens: {prompt} prompt + {completion} completion = {total} total")
}
