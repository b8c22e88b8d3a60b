//! What happens while it happens, for who sits at the terminal: turns, calls, times and tokens. On standard error, and only if that is
//! a terminal: nothing of it is ever in a pipe or a file.
//!
//! Lines that stay are written when something has begun or ended; one more, which is replaced all the time, says what is being waited for.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::cli::words::{cut, duration};
use antwort_engine::hosted;
use antwort_protocol::event::ResponseEvent;
use antwort_protocol::item::{Item, ItemStatus};
use antwort_protocol::response::{Response, Usage};

/// Characters of arguments on a line, and of names on the line that is replaced.
const MAX_ARGUMENTS: usize = 60;
const MAX_NAMES: usize = 40;
/// How often the line is replaced.
pub(super) const TICK: Duration = Duration::from_millis(200);
/// What is over sooner needs no line.
const QUIET: Duration = Duration::from_millis(400);
/// To the beginning of the line, which is cleared.
const WIPE: &str = "\r\u{1b}[K";

/// What standard error can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Screen {
    colors: bool,
    /// A line can be replaced.
    live: bool,
}

/// The view of a run.
pub(super) struct Progress {
    /// `None`: standard error is no terminal.
    screen: Option<Screen>,
    started: Instant,
    /// Since when the model, or calls, are waited for.
    since: Instant,
    turn: u32,
    /// Calls have ended since the turn began, so what comes later is the next turn's.
    has_results: bool,
    awaits_turn: bool,
    calls: u32,
    /// Since when the calls of the turn are made.
    calls_since: Option<Instant>,
    /// By output index.
    running: BTreeMap<u32, (Instant, String)>,
    deltas: u32,
    usage: Usage,
    has_line: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        let variable = |name: &str| env::var_os(name).unwrap_or_default();
        let live = variable("TERM") != "dumb";
        let colors = live && variable("NO_COLOR").is_empty();
        Self::of(io::stderr().is_terminal().then_some(Screen { colors, live }))
    }

    fn of(screen: Option<Screen>) -> Self {
        let now = Instant::now();
        Self {
            screen,
            started: now,
            since: now,
            turn: 0,
            has_results: false,
            awaits_turn: true,
            calls: 0,
            calls_since: None,
            running: BTreeMap::new(),
            deltas: 0,
            usage: Usage::default(),
            has_line: false,
        }
    }

    /// Whether anything is: events are needed then.
    pub(super) fn is_shown(&self) -> bool {
        self.screen.is_some()
    }

    /// Writes what is to be shown. At once, not through the queue of the log, which may drop it: a line that is not wiped would stay, and
    /// standard output goes to the same terminal. There is something to show only if standard error is one, and is read.
    pub(super) fn print(text: &str) {
        if !text.is_empty() {
            let mut out = io::stderr();
            _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Events that happened together follow. The calls of a turn are shown one after the other, and what its model has said behind a call
    /// comes together with that call's result; what comes by itself later is the next turn's.
    pub(super) fn begin_batch(&mut self) {
        if self.is_between_turns() {
            (self.awaits_turn, self.deltas) = (true, 0);
        }
        self.has_results = false;
    }

    /// Whether the results of all calls are there, and the model has them.
    fn is_between_turns(&self) -> bool {
        self.has_results && self.running.is_empty()
    }

    /// The model is asked.
    pub(super) fn begin_turn(&mut self) {
        (self.awaits_turn, self.since, self.deltas) = (true, Instant::now(), 0);
    }

    /// The lines for an event.
    pub(super) fn show(&mut self, event: &ResponseEvent) -> String {
        if self.screen.is_none() {
            return String::new();
        }
        let lines = match event {
            ResponseEvent::OutputItemAdded { output_index, item } => self.added(*output_index, item),
            ResponseEvent::OutputItemDone { output_index, item } => self.done(*output_index, item),
            ResponseEvent::OutputTextDelta { .. }
            | ResponseEvent::RefusalDelta { .. }
            | ResponseEvent::ReasoningTextDelta { .. }
            | ResponseEvent::SummaryTextDelta { .. }
            | ResponseEvent::FunctionArgumentsDelta { .. }
            | ResponseEvent::CustomInputDelta { .. }
            | ResponseEvent::McpArgumentsDelta { .. } => {
                self.deltas += 1;
                String::new()
            }
            _ => String::new(),
        };
        if lines.is_empty() { lines } else { self.wipe() + &lines }
    }

    fn added(&mut self, index: u32, item: &Item) -> String {
        let begins_turn = std::mem::take(&mut self.awaits_turn);
        if begins_turn {
            self.calls_since = None;
        }
        if let Some(name) = name_of(item) {
            let now = Instant::now();
            self.calls_since.get_or_insert(now);
            self.running.insert(index, (now, name.to_owned()));
        }
        if !begins_turn {
            return String::new();
        }
        self.turn += 1;
        let waited = duration(millis(self.since.elapsed()));
        self.line(&format!("turn {}  first output after {waited}", self.turn))
    }

    fn done(&mut self, index: u32, item: &Item) -> String {
        let Some((since, name)) = self.running.remove(&index) else { return String::new() };
        (self.has_results, self.since) = (true, Instant::now());
        self.calls += 1;
        let (mark, arguments) = match item {
            Item::McpCall(call) if call.error.is_some() || call.status == ItemStatus::Failed => {
                ("✗", &*call.arguments)
            }
            Item::McpCall(call) => ("✓", &*call.arguments),
            _ => ("✓", ""),
        };
        // Calls of one turn run in parallel, from the first on, and are shown in order: the duration of one that ended
        // before the one before it is unknown here.
        let time = match millis(since.elapsed()) {
            0 => String::new(),
            shown => {
                format!("  {}", duration(self.calls_since.map_or(shown, |since| millis(since.elapsed()))))
            }
        };
        let (name, arguments) = (cut(&name, MAX_NAMES, "…"), cut(arguments.trim(), MAX_ARGUMENTS, "…"));
        let call = format!("{name} {arguments}");
        self.line(&format!("  {mark} {}{time}", call.trim_end()))
    }

    /// The line that says what is being waited for, if it has been for a while.
    pub(super) fn tick(&mut self) -> String {
        let Some(Screen { live: true, .. }) = self.screen else { return String::new() };
        let waited = self.since.elapsed();
        if waited < QUIET {
            return String::new();
        }
        let names: Vec<_> = self.running.values().map(|(_, name)| name.as_str()).collect();
        let awaits_turn = self.awaits_turn || self.is_between_turns();
        let what = match (names.is_empty(), awaits_turn) {
            (false, _) => cut(&names.join(", "), MAX_NAMES, "…"),
            (true, true) => "waiting for the model".to_owned(),
            (true, false) => format!("about {} tokens", self.deltas),
        };
        let turn = self.turn + u32::from(awaits_turn);
        self.has_line = true;
        format!("{WIPE}{}", self.dimmed(&format!("turn {turn}  {what}  {}", duration(millis(waited)))))
    }

    /// Takes the line away, before anything else is written to the terminal.
    pub(super) fn wipe(&mut self) -> String {
        if std::mem::take(&mut self.has_line) { WIPE.to_owned() } else { String::new() }
    }

    /// A response has ended.
    pub(super) fn add(&mut self, response: &Response) {
        let Some(usage) = response.usage else { return };
        self.usage.input_tokens += usage.input_tokens;
        self.usage.output_tokens += usage.output_tokens;
        self.usage.input_tokens_details.cached_tokens += usage.input_tokens_details.cached_tokens;
    }

    /// The last line: all of it.
    pub(super) fn end(&mut self) -> String {
        if self.screen.is_none() {
            return String::new();
        }
        let plural = |count: u32, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let mut facts = vec![plural(self.turn, "turn")];
        facts.extend((self.calls > 0).then(|| plural(self.calls, "call")));
        facts.push(duration(millis(self.started.elapsed())));
        let Usage { input_tokens, output_tokens, .. } = self.usage;
        if input_tokens + output_tokens > 0 {
            let cached = self.usage.input_tokens_details.cached_tokens;
            let cached = if cached > 0 { format!(" ({cached} cached)") } else { String::new() };
            facts.push(format!("in {input_tokens}{cached}, out {output_tokens} tokens"));
        }
        self.wipe() + &self.line(&facts.join("  "))
    }

    fn line(&self, text: &str) -> String {
        format!("{}\n", self.dimmed(text))
    }

    fn dimmed(&self, text: &str) -> String {
        if self.screen.is_some_and(|screen| screen.colors) {
            format!("\u{1b}[2m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The tool that the gateway runs for this item.
fn name_of(item: &Item) -> Option<&str> {
    match item {
        Item::McpCall(call) => Some(&call.name),
        item => hosted::caller_of(item),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Progress, Screen};
    use antwort_protocol::event::ResponseEvent;
    use antwort_protocol::item::Item;

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

    /// Two calls of one turn, of which the second is shown together with the result of the first; and a call of the next one.
    fn shown(mut progress: Progress) -> Vec<String> {
        let batches = [
            vec![added(1, "calculate")],
            vec![done(1, "calculate", "completed"), added(2, "look\u{1b}[2Jup")],
            vec![done(2, "look\u{1b}[2Jup", "failed")],
            vec![added(3, "calculate")],
        ];
        let mut text = String::new();
        for batch in batches {
            progress.begin_batch();
            batch.iter().for_each(|event| text += &progress.show(event));
        }
        text += &progress.end();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn turns_and_calls_have_a_line_each() {
        let lines = shown(Progress::of(Some(Screen { colors: false, live: false })));
        let begins = [
            "turn 1  first output after ",
            "  ✓ calculate {\"a\":1}",
            "  ✗ look\\u{1b}[2Jup {\"a\":1}",
            "turn 2  first",
            "2 turns  2 calls  ",
        ];
        assert_eq!(lines.len(), begins.len(), "{lines:?}");
        for (line, begin) in lines.iter().zip(begins) {
            assert!(line.starts_with(begin), "{lines:?}");
        }
        assert_eq!(shown(Progress::of(None)), [""; 0]);
        let dim = shown(Progress::of(Some(Screen { colors: true, live: true })));
        assert!(dim[0].starts_with("\u{1b}[2mturn 1") && dim[0].ends_with("\u{1b}[0m"), "{dim:?}");
    }
}
