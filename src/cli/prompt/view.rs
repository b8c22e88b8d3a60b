//! Prints a run as it progresses: text as it arrives, and on a terminal one line per tool call of the gateway.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Instant;

use super::arguments::{PromptArgs, Protocol};
use crate::compat::prompt::messages::BANNER;
use crate::engine::hosted;
use crate::protocol::event::ResponseEvent;
use crate::protocol::item::{Item, ItemStatus};

/// Characters of arguments and errors per line.
const MAX_LINE_CHARS: usize = 60;

/// Renders events as text.
pub(super) struct EventPrinter {
    /// Text is printed as it arrives.
    stream: bool,
    /// Standard output is a terminal: tool calls are printed.
    terminal: bool,
    /// Text is on an unfinished line.
    writing: bool,
    /// Calls in progress, by output index.
    running: BTreeMap<u32, Instant>,
}

impl EventPrinter {
    pub(super) fn new(args: &PromptArgs) -> Self {
        Self::of(args.stream, io::stdout().is_terminal())
    }

    fn of(stream: bool, terminal: bool) -> Self {
        Self { stream, terminal, writing: false, running: BTreeMap::new() }
    }

    /// The text for an event.
    pub(super) fn show(&mut self, event: &ResponseEvent) -> String {
        match event {
            ResponseEvent::OutputItemAdded { output_index, item } => self.added(*output_index, item),
            ResponseEvent::OutputItemDone { output_index, item } => self.done(*output_index, item),
            ResponseEvent::OutputTextDelta { delta, .. } | ResponseEvent::RefusalDelta { delta, .. }
                if self.stream =>
            {
                self.writing = true;
                if self.terminal { replace_control_chars(delta) } else { delta.clone() }
            }
            _ => String::new(),
        }
    }

    /// Ends an unfinished line.
    pub(super) fn end(&mut self) -> String {
        if std::mem::take(&mut self.writing) { "\n".into() } else { String::new() }
    }

    fn added(&mut self, index: u32, item: &Item) -> String {
        if is_server_side(item) {
            self.running.insert(index, Instant::now());
        }
        self.end()
    }

    fn done(&mut self, index: u32, item: &Item) -> String {
        let Some(since) = self.running.remove(&index) else { return String::new() };
        let Some(line) = line(item).filter(|_| self.terminal) else { return String::new() };
        // Calls of one turn run in parallel and are printed in order: the duration of one that finished before its turn
        // is unknown here.
        let time = match since.elapsed().as_millis() {
            0 => String::new(),
            millis => format!("  {millis} ms"),
        };
        self.end() + &dim(&format!("  {line}{time}"))
    }
}

/// The heading of a stream in which tools may run.
pub(super) fn banner(args: &PromptArgs) -> Option<&'static str> {
    let runs = args.stream && !args.json() && args.execute_tools && args.protocol == Protocol::Tools;
    runs.then_some(BANNER)
}

/// Whether the gateway runs this item's tool.
fn is_server_side(item: &Item) -> bool {
    matches!(item, Item::McpCall(_)) || hosted::caller_of(item).is_some()
}

/// `✓ calculate {"expression":"2+2"}`
fn line(item: &Item) -> Option<String> {
    match item {
        Item::McpCall(call) => {
            let failed = call.error.is_some() || call.status == ItemStatus::Failed;
            let mark = if failed { '✗' } else { '✓' };
            Some(format!("{mark} {} {}", call.name, shortened(&call.arguments)))
        }
        item => hosted::caller_of(item).map(|tool| format!("✓ {tool}")),
    }
}

/// As one line of limited length.
fn shortened(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = plain.clone().take(MAX_LINE_CHARS).collect();
    if plain.count() > MAX_LINE_CHARS {
        short.push('…');
    }
    short
}

/// Text of models may contain terminal escape sequences.
fn replace_control_chars(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}")
}

/// Text for standard output: escaped on a terminal, unchanged in a pipe.
pub(super) fn for_reader(text: String) -> String {
    if io::stdout().is_terminal() { replace_control_chars(&text) } else { text }
}

fn dim(text: &str) -> String {
    format!("\u{1b}[2m{text}\u{1b}[0m\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::EventPrinter;
    use crate::protocol::event::ResponseEvent;
    use crate::protocol::item::Item;

    fn call(name: &str, status: &str) -> Box<Item> {
        let call = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "antwort", "name": name, "status": status,
            "arguments": "{\"a\":1}\n"});
        serde_json::from_str(&call.to_string()).expect("an item")
    }

    fn added(output_index: u32, name: &str) -> ResponseEvent {
        ResponseEvent::OutputItemAdded { output_index, item: call(name, "in_progress") }
    }

    fn done(output_index: u32, name: &str, status: &str) -> ResponseEvent {
        ResponseEvent::OutputItemDone { output_index, item: call(name, status) }
    }

    fn words(delta: &str) -> ResponseEvent {
        ResponseEvent::OutputTextDelta {
            item_id: "msg_1".into(),
            output_index: 9,
            content_index: 0,
            delta: delta.into(),
            logprobs: Vec::new(),
        }
    }

    fn shown(mut view: EventPrinter) -> String {
        let events = [
            words("Let me see."),
            added(1, "calculate"),
            done(1, "calculate", "completed"),
            added(2, "lookup"),
            done(2, "lookup", "failed"),
            words("Four\u{1b}[31m"),
        ];
        let text: String = events.iter().map(|event| view.show(event)).collect();
        text + &view.end()
    }

    #[test]
    fn a_pipe_gets_words_and_a_terminal_the_tools_too() {
        assert_eq!(shown(EventPrinter::of(true, false)), "Let me see.\nFour\u{1b}[31m\n");
        assert_eq!(shown(EventPrinter::of(false, false)), "");
        let terminal = shown(EventPrinter::of(true, true)).replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
        let lines: Vec<_> = terminal.lines().collect();
        assert_eq!((lines.len(), lines[0]), (4, "Let me see."), "{terminal}");
        assert!(lines[1].starts_with("  ✓ calculate {\"a\":1} "), "{terminal}");
        assert!(lines[2].starts_with("  ✗ lookup {\"a\":1} "), "{terminal}");
        assert_eq!(lines[3], "Four\u{fffd}[31m");
    }
}
