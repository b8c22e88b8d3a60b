//! Prints the text of a run as it arrives, on standard output.

use std::io::{self, IsTerminal};

use super::arguments::{PromptArgs, Protocol};
use crate::cli::prompt::messages::BANNER;
use antwort_protocol::event::ResponseEvent;
use antwort_util::display::is_unsafe;

/// Renders events as text.
pub(super) struct EventPrinter {
    /// Text is printed as it arrives.
    stream: bool,
    /// Standard output is a terminal.
    terminal: bool,
    /// Text is on an unfinished line.
    writing: bool,
}

impl EventPrinter {
    pub(super) fn new(args: &PromptArgs) -> Self {
        Self::of(args.stream, io::stdout().is_terminal())
    }

    fn of(stream: bool, terminal: bool) -> Self {
        Self { stream, terminal, writing: false }
    }

    /// The text for an event.
    pub(super) fn show(&mut self, event: &ResponseEvent) -> String {
        match event {
            ResponseEvent::OutputItemAdded { .. } => self.end(),
            ResponseEvent::OutputTextDelta { delta, .. } | ResponseEvent::RefusalDelta { delta, .. }
                if self.stream =>
            {
                self.writing = true;
                if self.terminal { replace_control_chars(delta) } else { delta.clone() }
            }
            _ => String::new(),
        }
    }

    /// Whether the terminal's cursor is behind text of the model.
    pub(super) fn is_writing(&self) -> bool {
        self.writing && self.terminal
    }

    /// Ends an unfinished line.
    pub(super) fn end(&mut self) -> String {
        if std::mem::take(&mut self.writing) { "\n".into() } else { String::new() }
    }
}

/// The heading of a stream in which tools may run.
pub(super) fn banner(args: &PromptArgs) -> Option<&'static str> {
    let runs = args.stream && !args.json() && args.execute_tools && args.protocol == Protocol::Tools;
    runs.then_some(BANNER)
}

/// Text of models may contain terminal escape sequences.
fn replace_control_chars(text: &str) -> String {
    text.replace(|c: char| is_unsafe(c) && !matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}'), "\u{fffd}")
}

/// Text for standard output: escaped on a terminal, unchanged in a pipe.
pub(super) fn for_reader(text: String) -> String {
    if io::stdout().is_terminal() { replace_control_chars(&text) } else { text }
}

#[cfg(test)]
mod tests {
    use super::EventPrinter;
    use antwort_protocol::event::ResponseEvent;

    #[test]
    fn a_pipe_gets_the_words_as_they_are_and_a_terminal_none_of_its_own() {
        let words = ResponseEvent::OutputTextDelta {
            item_id: "msg_1".into(),
            output_index: 9,
            content_index: 0,
            delta: "Four\u{1b}[31m".into(),
            logprobs: Vec::new(),
        };
        let shown = |mut view: EventPrinter| view.show(&words) + &view.end() + &view.end();
        assert_eq!(shown(EventPrinter::of(true, false)), "Four\u{1b}[31m\n");
        assert_eq!(shown(EventPrinter::of(false, false)), "");
        assert_eq!(shown(EventPrinter::of(true, true)), "Four\u{fffd}[31m\n");
    }
}
