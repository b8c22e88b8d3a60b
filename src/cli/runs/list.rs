//! A page of runs as a table.

use super::api::{Outcome, Page, Summary};
use super::terminal::Terminal;
use crate::cli::words::{cost, cut, duration, moment, plain};

/// Characters of a status with its reason, and of a model.
const MAX_STATUS: usize = 32;
const MAX_MODEL: usize = 24;
/// Fewer say nothing of a text.
const LEAST_TEXT: usize = 12;
const HEADINGS: [&str; 9] = ["ID", "STATUS", "MODEL", "IN", "OUT", "TURNS", "CALLS", "COST", "TIME"];
const UNKNOWN: &str = "-";

/// The newest first. What there is room for behind the figures: when, and what was answered.
pub(super) fn table(page: &Page, terminal: &Terminal) -> String {
    if page.data.is_empty() {
        return "no responses".to_owned();
    }
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(page.data.iter().map(|run| cells(run, terminal.glyphs.ellipsis)));
    let widths: Vec<usize> = (0..HEADINGS.len()).map(|column| width(&rows, column)).collect();
    let figures = widths.iter().sum::<usize>() + 2 * widths.len();
    let with_moment = terminal.width >= figures + moment(0).len();
    let room = terminal.width.saturating_sub(figures + moment(0).len() + 2);
    let mut lines = Vec::with_capacity(rows.len());
    for (row, run) in rows.iter().zip([None].into_iter().chain(page.data.iter().map(Some))) {
        let mut line = aligned(row, &widths);
        if with_moment {
            let created = |run: &Summary| moment(run.created_at.saturating_mul(1000));
            line += &format!("  {:23}", run.map_or_else(|| "CREATED".to_owned(), created));
        }
        if with_moment && room >= LEAST_TEXT {
            let text = run.map_or("TEXT", |run| run.text.as_deref().unwrap_or_default());
            line = line + "  " + &cut(&text.replace('\n', " "), room, terminal.glyphs.ellipsis);
        }
        let line = line.trim_end();
        let has_failed = run.is_some_and(|run| run.outcome.status == "failed");
        lines.push(if has_failed { terminal.alarm(line) } else { line.to_owned() });
    }
    if let (true, Some(last)) = (page.has_more, &page.last_id) {
        lines.push(format!("older ones: --after {}", plain(last)));
    }
    lines.join("\n")
}

fn cells(run: &Summary, ellipsis: &str) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
    let usage = run.outcome.usage;
    vec![
        plain(&run.id),
        cut(&status(&run.outcome), MAX_STATUS, ellipsis),
        cut(&run.outcome.model, MAX_MODEL, ellipsis),
        number(usage.map(|usage| usage.input_tokens)),
        number(usage.map(|usage| usage.output_tokens)),
        number(run.turns),
        number(run.calls),
        run.cost_usd.map_or_else(|| UNKNOWN.to_owned(), cost),
        run.duration_ms.map_or_else(|| UNKNOWN.to_owned(), duration),
    ]
}

/// The status, and why it is that.
pub(super) fn status(outcome: &Outcome) -> String {
    let failure = outcome.error.as_ref().and_then(|error| error.code.as_deref());
    let reason = failure.or(outcome.incomplete_details.as_ref().map(|details| &*details.reason));
    reason.map_or_else(|| outcome.status.clone(), |reason| format!("{}: {reason}", outcome.status))
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
}

/// Words to the left, figures to the right.
fn aligned(row: &[String], widths: &[usize]) -> String {
    let cell = |(column, (text, width)): (usize, (&String, usize))| match column {
        0..3 => format!("{text:<width$}"),
        _ => format!("{text:>width$}"),
    };
    row.iter().zip(widths.iter().copied()).enumerate().map(cell).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::api::Page;
    use super::super::terminal::{BLOCKS, Terminal};
    use super::table;

    fn page() -> Page {
        let usage = json!({"input_tokens": 1200, "output_tokens": 7, "total_tokens": 1207});
        let page = json!({"object": "list", "has_more": true, "first_id": "resp_1", "last_id": "resp_2", "data": [
            {"object": "response.summary", "id": "resp_1", "status": "completed", "model": "m\u{1b}[2J", "created_at": 1_700_000_000,
             "usage": usage, "duration_ms": 2415, "cost_usd": 0.0012, "turns": 2, "calls": 3, "text": "First line\nsecond"},
            {"object": "response.summary", "id": "resp_2", "status": "failed", "model": "m", "created_at": 1_700_000_000,
             "error": {"code": "upstream_error", "message": "x"}, "usage": null},
        ]});
        serde_json::from_value(page).expect("a page")
    }

    #[test]
    fn a_row_says_what_there_is_room_for() {
        let wide = table(&page(), &Terminal { width: 160, glyphs: &BLOCKS, colors: false });
        let lines: Vec<_> = wide.lines().collect();
        assert!(lines[0].starts_with("ID      STATUS"), "{wide}");
        for part in [
            "completed",
            "m\\u{1b}[2J",
            "1200",
            "2.41 s",
            "$0.0012",
            "2023-11-14 22:13:20 UTC  First line second",
        ] {
            assert!(lines[1].contains(part), "{part} in\n{wide}");
        }
        assert!(lines[2].contains("failed: upstream_error  m ") && lines[2].contains(" -  "), "{wide}");
        assert_eq!(lines[3], "older ones: --after resp_2");
        let narrow = table(&page(), &Terminal { width: 60, glyphs: &BLOCKS, colors: true });
        assert!(!narrow.contains("UTC") && narrow.contains("\u{1b}[31mresp_2"), "{narrow}");
    }
}
