use serde_json::json;

use super::super::api::{Outcome, Trace};
use super::super::terminal::{ASCII, BLOCKS, Terminal};
use super::draw;

fn trace() -> Trace {
    let usage = json!({"input_tokens": 120, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 42, "total_tokens": 162});
    let call = |name: &str, from: i64, to: i64, outcome: &str, more: serde_json::Value| {
        let mut call = json!({"call_id": "c", "name": name, "executor": "mcp:docs", "attempts": 1, "retried_at": [], "started_at": from,
            "ended_at": to, "outcome": outcome, "error": null, "cached": false, "fallback": null, "truncated": false});
        call.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        call
    };
    let trace = json!({"object": "response.trace", "id": "resp_1", "started_at": 0, "ended_at": 4000, "turns": [
        {"index": 0, "provider": "main", "model": "gpt", "attempts": 2, "retried_at": [400], "sent_at": 0, "first_byte_at": 800,
         "first_token_at": 1200, "ended_at": 2000, "usage": usage, "cost_usd": 0.001, "calls": [
            call("search\u{1b}[2J", 2000, 2400, "completed", json!({"cached": true, "truncated": true})),
            call("lookup", 2000, 3000, "failed", json!({"error": "tool_timeout", "attempts": 2, "retried_at": [2500]}))]},
        {"index": 1, "provider": "main", "model": "gpt", "attempts": 1, "retried_at": [], "sent_at": 3000, "first_byte_at": 3000,
         "first_token_at": 3000, "ended_at": 4000, "usage": null, "cost_usd": null, "calls": []}],
        "waits": [], "limits": [{"name": "max_turns", "at": 4000}]});
    serde_json::from_value(trace).expect("a trace")
}

fn outcome() -> Outcome {
    let outcome = json!({"status": "incomplete", "model": "gpt", "incomplete_details": {"reason": "max_turns"},
        "usage": {"input_tokens": 120, "output_tokens": 42}});
    serde_json::from_value(outcome).expect("an outcome")
}

#[test]
fn turns_and_calls_are_bars_in_proportion_to_their_time() {
    let picture = draw(&trace(), &outcome(), &Terminal { width: 124, glyphs: &BLOCKS, colors: false });
    let lines: Vec<_> = picture.lines().collect();
    assert_eq!(lines[0], "resp_1  1970-01-01 00:00:00 UTC");
    assert_eq!(lines[1], "incomplete: max_turns  gpt  4.00 s  2 turns  2 calls  in 120, out 42");
    let bars: Vec<String> =
        lines[5..9].iter().map(|line| line.chars().filter(|c| "░▒█▆╎✗".contains(*c)).collect()).collect();
    let count = |row: usize, glyph: char| bars[row].matches(glyph).count() as f64;
    let whole = count(0, '░') + count(0, '▒') + count(0, '█') + 1.0;
    for (glyph, share) in [('▒', 0.2), ('█', 0.4)] {
        assert!((count(0, glyph) / whole - share).abs() < 0.06, "{glyph} in\n{picture}");
    }
    assert!(bars[0].starts_with('░') && bars[0].contains('╎') && bars[0].ends_with('█'), "{picture}");
    assert!(
        lines[6].contains("search\\u{1b}[2J") && lines[6].contains("from the cache, cut for the model"),
        "{picture}"
    );
    assert!(
        bars[2].ends_with('✗') && lines[7].contains("1.00 s, FAILED tool_timeout, 2 attempts"),
        "{picture}"
    );
    let begin = |row: usize| lines[row].chars().position(|c| "░▒█▆".contains(c));
    assert_eq!(begin(6), begin(7), "parallel calls begin together\n{picture}");
    assert!(begin(8) > begin(7), "{picture}");
    assert!(picture.contains("\nlimit max_turns reached after 4.00 s\n"), "{picture}");
    assert!(lines.iter().all(|line| line.chars().count() <= 124), "{picture}");
}

#[test]
fn a_narrow_terminal_has_the_words_below_and_ascii_is_ascii() {
    let picture = draw(&trace(), &outcome(), &Terminal { width: 60, glyphs: &ASCII, colors: true });
    assert!(picture.is_ascii(), "{picture}");
    assert!(
        picture.contains("\n    \u{1b}[31m1.00 s, FAILED tool_timeout, 2 attempts\u{1b}[0m\n"),
        "{picture}"
    );
    let plain = picture.replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
    let drawn: Vec<_> = plain.lines().skip(2).filter(|line| !line.contains("first byte")).collect();
    assert!(drawn.iter().all(|line| line.len() <= 60), "{plain}");
}

#[test]
fn hours_of_waiting_are_left_out_and_said() {
    let mut trace = trace();
    let hours = 3 * 3_600_000;
    trace.waits =
        serde_json::from_value(json!([{"kind": "client", "from": 3000, "to": 3000 + hours}])).expect("waits");
    let turn = trace.turns.last_mut().expect("a turn");
    for at in [&mut turn.sent_at]
        .into_iter()
        .chain([&mut turn.first_byte_at, &mut turn.first_token_at, &mut turn.ended_at].into_iter().flatten())
    {
        *at += hours;
    }
    trace.ended_at = Some(4000 + hours);
    let picture = draw(&trace, &outcome(), &Terminal { width: 124, glyphs: &BLOCKS, colors: false });
    assert!(picture.contains("3 h for outputs of the client's functions"), "{picture}");
    assert!(picture.ends_with("⫽ the axis leaves out 3 h of waiting"), "{picture}");
    let last = picture.lines().find(|line| line.starts_with("turn 2")).expect("a row");
    assert!(last.matches('█').count() > 5, "{picture}");
}

/// Neither the calls that were approved before, nor a summary.
#[test]
fn only_turns_of_the_loop_are_counted() {
    let turn = |attempts: u64, is_compaction: bool, from: i64| {
        json!({"index": 0, "is_compaction": is_compaction, "provider": "main", "model": "gpt", "attempts": attempts, "retried_at": [],
            "sent_at": from, "first_byte_at": from, "first_token_at": from, "ended_at": from + 900, "usage": null, "cost_usd": null,
            "calls": []})
    };
    let trace: Trace = serde_json::from_value(json!({"id": "resp_1", "started_at": 0, "ended_at": 5000,
        "turns": [turn(0, false, 1000), turn(1, false, 2000), turn(1, true, 3000), turn(1, false, 4000)],
        "waits": [{"kind": "mcp_list_tools", "from": 0, "to": 900}], "limits": []}))
    .expect("a trace");
    let picture = draw(&trace, &outcome(), &Terminal { width: 124, glyphs: &BLOCKS, colors: false });
    let begins: Vec<_> = picture
        .lines()
        .skip(5)
        .map_while(|line| line.split("  ").next().filter(|label| !label.is_empty()))
        .collect();
    assert_eq!(begins, ["wait", "approved", "turn 1", "compaction", "turn 2"], "{picture}");
    assert!(
        picture.contains("  2 turns  ") && picture.contains("for MCP servers to list their tools"),
        "{picture}"
    );
}

#[test]
fn a_failed_run_says_why_and_one_without_turns_can_be_drawn() {
    let trace: Trace = serde_json::from_value(
        json!({"id": "resp_1", "started_at": 5, "ended_at": null, "turns": [], "waits": [], "limits": []}),
    )
    .expect("a trace");
    let outcome: Outcome = serde_json::from_value(
        json!({"status": "failed", "model": "gpt", "error": {"code": "upstream_error", "message": "It\u{7} broke"}}),
    )
    .expect("an outcome");
    let picture = draw(&trace, &outcome, &Terminal { width: 80, glyphs: &BLOCKS, colors: false });
    assert!(picture.contains("failed: upstream_error: It\\u{7} broke"), "{picture}");
}
