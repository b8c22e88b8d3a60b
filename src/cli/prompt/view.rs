//! A run while it is made: words as they come, and on a terminal a line for every tool that the gateway runs.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Instant;

use super::{PromptArgs, Protocol};
use crate::cli::{piece, say};
use crate::protocol::event::Event;
use crate::protocol::item::{Item, ItemStatus};

/// Characters of arguments and errors that fit into a line.
const SHOWN: usize = 60;

/// Shows events.
pub(super) struct View {
    stream: bool,
    terminal: bool,
    /// Words stand in a line that has not ended.
    writing: bool,
    turn: usize,
    /// Calls that run, by place in the output.
    running: BTreeMap<u32, Instant>,
    /// Calls of this turn that are over.
    over: usize,
}

impl View {
    pub(super) fn new(args: &PromptArgs) -> Self {
        let terminal = io::stdout().is_terminal();
        if args.stream && !args.json() && args.execute_tools && args.protocol == Protocol::Tools {
            say("Streaming response with tool execution:");
        }
        Self { stream: args.stream, terminal, writing: false, turn: 1, running: BTreeMap::new(), over: 0 }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::OutputItemAdded { output_index, item } => self.added(*output_index, item),
            Event::OutputItemDone { output_index, item } => self.done(*output_index, item),
            Event::OutputTextDelta { delta, .. } | Event::RefusalDelta { delta, .. } if self.stream => {
                self.writing = true;
                piece(&harmless(delta));
            }
            _ => {}
        }
    }

    /// Ends the line that words stand in.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.writing) {
            piece("\n");
        }
    }

    fn added(&mut self, index: u32, item: &Item) {
        self.end();
        // Calls of one turn are all there before the first of them is over.
        if self.running.is_empty() && self.over > 0 {
            self.turn += 1;
            self.over = 0;
            if self.terminal {
                say(&dim(&format!("turn {}", self.turn)));
            }
        }
        if is_ours(item) {
            self.running.insert(index, Instant::now());
        }
    }

    fn done(&mut self, index: u32, item: &Item) {
        let Some(since) = self.running.remove(&index) else { return };
        self.over += 1;
        if !self.terminal {
            return;
        }
        self.end();
        if let Some(line) = line(item) {
            say(&dim(&format!("  {line}  {} ms", since.elapsed().as_millis())));
        }
    }
}

/// Whether the gateway runs it.
fn is_ours(item: &Item) -> bool {
    matches!(item, Item::McpCall(_) | Item::WebSearchCall(_) | Item::FileSearchCall(_))
}

/// `✓ calculate {"expression":"2+2"}`
fn line(item: &Item) -> Option<String> {
    match item {
        Item::McpCall(call) => {
            let failed = call.error.is_some() || call.status == ItemStatus::Failed;
            let mark = if failed { '✗' } else { '✓' };
            Some(format!("{mark} {} {}", call.name, shortened(&call.arguments)))
        }
        Item::WebSearchCall(_) => Some("✓ web_search".into()),
        Item::FileSearchCall(_) => Some("✓ file_search".into()),
        _ => None,
    }
}

/// In one line, and no longer than fits: what models write may hold anything, escapes of terminals too.
fn shortened(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = plain.clone().take(SHOWN).collect();
    if plain.count() > SHOWN {
        short.push('…');
    }
    short
}

/// What models write may steer a terminal; in a pipe it stays as it is.
pub(super) fn harmless(text: &str) -> String {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if io::stdout().is_terminal() { text.replace(steers, "\u{fffd}") } else { text.to_owned() }
}

fn dim(text: &str) -> String {
    format!("\u{1b}[2m{text}\u{1b}[0m")
}
