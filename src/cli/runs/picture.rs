//! The account of a run as a picture: a row for each turn, call and wait, bars on one time axis, words behind them.

use super::api::{Call, Outcome, Trace, Turn, Wait};
use super::axis::Axis;
use super::list::status;
use super::terminal::{Glyphs, Terminal};
use crate::cli::words::{between, cost, cut, duration, moment, plain};

/// Characters of what a row is about, and of what is said of it beside the bar.
const MAX_LABEL: usize = 30;
const MAX_WORDS: usize = 80;
/// A narrower axis has the words below the bars.
const LEAST_AXIS: usize = 24;

/// One line of the picture.
struct Row {
    label: String,
    /// From, to, and the character between.
    bars: Vec<(i64, i64, char)>,
    /// When it was tried again.
    again: Vec<i64>,
    /// When it failed.
    failed: Option<i64>,
    words: String,
}

/// The picture of a run.
pub(super) fn draw(trace: &Trace, outcome: &Outcome, terminal: &Terminal) -> String {
    let end = trace.ended_at.unwrap_or_else(|| latest(trace));
    let rows = rows(trace, end, terminal.glyphs);
    let label = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or_default();
    let words = rows.iter().map(|row| row.words.chars().count()).max().unwrap_or_default().min(MAX_WORDS);
    let beside = terminal.width.saturating_sub(label + words + 4);
    let is_wide = beside >= LEAST_AXIS;
    let columns = if is_wide { beside } else { terminal.width.saturating_sub(label + 2) };
    let waits: Vec<_> = trace.waits.iter().map(|wait| (wait.from, wait.to.unwrap_or(end))).collect();
    let axis = Axis::new(trace.started_at, end, &waits, columns);
    let mut lines = heading(trace, outcome, end);
    lines.push(String::new());
    lines.extend(
        scale(&axis, columns, terminal.glyphs)
            .map(|line| format!("{:label$}  {line}", "").trim_end().to_owned()),
    );
    for row in &rows {
        lines.extend(drawn(row, &axis, (label, columns, is_wide), terminal));
    }
    lines.push(String::new());
    lines.extend(ending(trace, outcome, terminal));
    lines.push(legend(&axis, terminal.glyphs));
    lines.join("\n")
}

/// Of a run whose end is not known, the last that is.
fn latest(trace: &Trace) -> i64 {
    let turns = trace
        .turns
        .iter()
        .flat_map(|turn| [Some(turn.sent_at), turn.first_byte_at, turn.first_token_at, turn.ended_at]);
    let calls = trace
        .turns
        .iter()
        .flat_map(|turn| &turn.calls)
        .flat_map(|call| [Some(call.started_at), call.ended_at]);
    turns.chain(calls).flatten().max().unwrap_or(trace.started_at)
}

fn heading(trace: &Trace, outcome: &Outcome, end: i64) -> Vec<String> {
    let calls: usize = trace.turns.iter().map(|turn| turn.calls.len()).sum();
    let costs: Option<f64> =
        trace.turns.iter().filter(|turn| turn.attempts > 0).map(|turn| turn.cost_usd).sum();
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut facts = vec![
        plain(&status(outcome)),
        plain(&outcome.model),
        duration(between(trace.started_at, end)),
        plural(trace.turns.iter().filter(|turn| turn.is_counted()).count(), "turn"),
        plural(calls, "call"),
    ];
    facts.extend(outcome.usage.map(|usage| usage.words()));
    facts.extend(costs.filter(|_| !trace.turns.is_empty()).map(cost));
    vec![format!("{}  {}", plain(&trace.id), moment(trace.started_at)), facts.join("  ")]
}

/// The rows in the order of their beginnings; the calls of a turn stay below it.
fn rows(trace: &Trace, end: i64, glyphs: &Glyphs) -> Vec<Row> {
    let mut number = 0;
    let turns = trace.turns.iter().map(|turn| {
        number += usize::from(turn.is_counted());
        (turn.sent_at, turn_rows(turn, number, end, glyphs))
    });
    let waits = trace.waits.iter().map(|wait| (wait.from, vec![wait_row(wait, end, glyphs)]));
    let mut groups: Vec<_> = turns.chain(waits).collect();
    groups.sort_by_key(|(from, _)| *from);
    groups.into_iter().flat_map(|(_, rows)| rows).collect()
}

fn turn_rows(turn: &Turn, number: usize, end: i64, glyphs: &Glyphs) -> Vec<Row> {
    let ended = turn.ended_at.unwrap_or(end);
    let token = turn.first_token_at.unwrap_or(ended);
    let byte = turn.first_byte_at.unwrap_or(token);
    let bars = vec![
        (turn.sent_at, byte, glyphs.waiting),
        (byte, token, glyphs.answering),
        (token, ended, glyphs.writing),
    ];
    let mut words = vec![duration(between(turn.sent_at, ended))];
    words.extend(turn.usage.map(|usage| usage.words()));
    words.extend(turn.rate().map(|rate| format!("{rate}/s")));
    words.extend(turn.cost_usd.map(cost));
    if turn.attempts > 1 {
        let reasons = turn.retry_reasons.iter().map(|reason| plain(reason)).collect::<Vec<_>>().join(", ");
        let why = if reasons.is_empty() { String::new() } else { format!(" ({reasons})") };
        words.push(format!("{} attempts{why}", turn.attempts));
    }
    let made = turn.attempts > 0;
    let what = match (made, turn.is_compaction) {
        (false, _) => "approved".to_owned(),
        (true, true) => "compaction".to_owned(),
        (true, false) => format!("turn {number}"),
    };
    let label = format!("{what}  {} {}", plain(&turn.provider), plain(&turn.model));
    let inference = Row {
        label: cut(&label, MAX_LABEL, glyphs.ellipsis),
        bars: if made { bars } else { Vec::new() },
        again: turn.retried_at.clone(),
        failed: None,
        words: if made { words.join(", ") } else { "approved calls, no inference".to_owned() },
    };
    [inference].into_iter().chain(turn.calls.iter().map(|call| call_row(call, end, glyphs))).collect()
}

fn call_row(call: &Call, end: i64, glyphs: &Glyphs) -> Row {
    let ended = call.ended_at.unwrap_or(end);
    let executor =
        call.executor.as_deref().map_or_else(String::new, |executor| format!(" ({})", plain(executor)));
    let has_failed = matches!(&*call.outcome, "failed" | "unknown");
    let mut words = vec![duration(between(call.started_at, ended))];
    words.push(match &*call.outcome {
        "completed" => String::new(),
        "failed" => format!("FAILED {}", call.error.as_deref().unwrap_or_default()),
        "unknown" => "RESULT UNKNOWN".to_owned(),
        "async" => "goes on after its answer".to_owned(),
        other => other.to_owned(),
    });
    words.push(if call.attempts > 1 { format!("{} attempts", call.attempts) } else { String::new() });
    words.push(if call.cached { "from the cache".to_owned() } else { String::new() });
    words.extend(call.fallback.as_ref().map(|executor| format!("instead of {executor}")));
    words.push(if call.truncated { "cut for the model".to_owned() } else { String::new() });
    words.retain(|word| !word.trim().is_empty());
    Row {
        label: cut(&format!("  {}{executor}", plain(&call.name)), MAX_LABEL, glyphs.ellipsis),
        bars: vec![(call.started_at, ended, glyphs.call)],
        again: call.retried_at.clone(),
        failed: has_failed.then_some(ended),
        words: plain(&words.join(", ")),
    }
}

fn wait_row(wait: &Wait, end: i64, glyphs: &Glyphs) -> Row {
    let until = wait.to.unwrap_or(end);
    let what = match &*wait.kind {
        "client" => "outputs of the client's functions",
        "elicitation" => "answers of the user",
        "callback" => "the result of an asynchronous tool",
        "queue" => "a place in the queue",
        "mcp_list_tools" => "MCP servers to list their tools",
        other => other,
    };
    Row {
        label: "wait".to_owned(),
        bars: vec![(wait.from, until, glyphs.pause)],
        again: Vec::new(),
        failed: None,
        words: format!("{} for {}", duration(between(wait.from, until)), plain(what)),
    }
}

/// Two lines: times, and ticks below them.
fn scale(axis: &Axis, columns: usize, glyphs: &Glyphs) -> [String; 2] {
    const TICKS: usize = 4;
    let (mut times, mut ticks) = (vec![' '; columns], vec![' '; columns]);
    for tick in 0..=TICKS {
        let column = (columns * tick / TICKS).min(columns - 1);
        let text = duration(if tick == 0 { 0 } else { axis.time(columns * tick / TICKS) });
        let length = text.chars().count();
        // The last one ends where the axis ends.
        let begin = if tick == TICKS { columns.saturating_sub(length) } else { column };
        let is_free = times.iter().skip(begin.saturating_sub(1)).take(length + 1).all(|c| *c == ' ');
        if is_free {
            times.iter_mut().skip(begin).zip(text.chars()).for_each(|(place, c)| *place = c);
        }
        ticks.iter_mut().skip(column).take(1).for_each(|place| *place = glyphs.tick);
    }
    [times, ticks].map(|line| line.into_iter().collect())
}

fn drawn(
    row: &Row,
    axis: &Axis,
    (label, columns, is_wide): (usize, usize, bool),
    terminal: &Terminal,
) -> Vec<String> {
    let glyphs = terminal.glyphs;
    let mut places = vec![' '; columns];
    let mut put = |from: usize, to: usize, c: char| {
        places.iter_mut().take(to).skip(from).for_each(|place| *place = c);
    };
    let is_instant = row.bars.iter().all(|(from, to, _)| axis.column(*from) == axis.column(*to));
    for (number, (from, to, c)) in row.bars.iter().enumerate() {
        let (from, to) = (axis.column(*from), axis.column(*to));
        // A bar is seen, however short it is; within a turn its last part is.
        let is_last = number + 1 == row.bars.len();
        put(from, if is_instant && is_last { from + 1 } else { to }, *c);
    }
    row.again.iter().map(|at| axis.column(*at)).for_each(|column| put(column, column + 1, glyphs.again));
    if let Some(column) = row.failed.map(|at| axis.column(at)) {
        put(column, column + 1, glyphs.failed);
    }
    for column in axis.gaps().filter(|_| row.label == "wait") {
        put(column, column + 1, glyphs.gap);
    }
    let bar: String = places.into_iter().collect();
    let words =
        cut(&row.words, if is_wide { MAX_WORDS } else { terminal.width.saturating_sub(4) }, glyphs.ellipsis);
    let alarm = |text: &str| if row.failed.is_some() { terminal.alarm(text) } else { text.to_owned() };
    let first = format!("{:label$}  {}", row.label, alarm(&bar));
    match is_wide {
        true => vec![format!("{first}  {}", alarm(&words)).trim_end().to_owned()],
        false => vec![first.trim_end().to_owned(), format!("    {}", alarm(&words))],
    }
}

/// Why it ended as it did.
fn ending(trace: &Trace, outcome: &Outcome, terminal: &Terminal) -> Vec<String> {
    let limit = |limit: &super::api::Limit| {
        format!(
            "limit {} reached after {}",
            plain(&limit.name),
            duration(between(trace.started_at, limit.at))
        )
    };
    let mut lines: Vec<_> = trace.limits.iter().map(limit).collect();
    if let Some(error) = &outcome.error {
        let said = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
        lines.push(terminal.alarm(&format!("failed: {}: {}", said(&error.code), said(&error.message))));
    }
    lines
}

fn legend(axis: &Axis, glyphs: &Glyphs) -> String {
    let mut legend = format!(
        "{} to the first byte  {} to the first token  {} output  {} call  {} again  {} failed",
        glyphs.waiting, glyphs.answering, glyphs.writing, glyphs.call, glyphs.again, glyphs.failed
    );
    if axis.left_out() > 0 {
        legend += &format!("\n{} the axis leaves out {} of waiting", glyphs.gap, duration(axis.left_out()));
    }
    legend
}

#[cfg(test)]
mod tests;
