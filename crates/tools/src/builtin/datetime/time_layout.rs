//! Go time layouts: the reference time `Mon Jan 2 15:04:05 MST 2006` (UTC-7, day 2 of the year) in the desired format.
//! Text that is not part of the reference time is copied.

use std::fmt::Write as _;

use jiff::Zoned;

/// A component of the reference time.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Equivalent to a strftime directive.
    Directive(&'static str),
    /// An abbreviated English name; not a component if a lower-case letter follows, as in `Mondrian`.
    Short(&'static str),
    /// Day of the month or year, padded with spaces.
    Padded(&'static str, usize),
    /// UTC offset.
    Offset { zulu: bool, colons: bool, parts: usize },
}

use Part::{Directive, Offset, Padded, Short};

/// If one text is a prefix of another, the longer one comes first.
const PARTS: &[(&str, Part)] = &[
    ("January", Directive("%B")),
    ("Jan", Short("%b")),
    ("Monday", Directive("%A")),
    ("Mon", Short("%a")),
    ("MST", Directive("%Z")),
    ("2006", Directive("%Y")),
    ("002", Directive("%j")),
    ("01", Directive("%m")),
    ("02", Directive("%d")),
    ("03", Directive("%I")),
    ("04", Directive("%M")),
    ("05", Directive("%S")),
    ("06", Directive("%y")),
    ("15", Directive("%H")),
    ("__2", Padded("%-j", 3)),
    ("_2", Padded("%-d", 2)),
    ("1", Directive("%-m")),
    ("2", Directive("%-d")),
    ("3", Directive("%-I")),
    ("4", Directive("%-M")),
    ("5", Directive("%-S")),
    ("PM", Directive("%p")),
    ("pm", Directive("%P")),
    ("-07:00:00", Offset { zulu: false, colons: true, parts: 3 }),
    ("-070000", Offset { zulu: false, colons: false, parts: 3 }),
    ("-07:00", Offset { zulu: false, colons: true, parts: 2 }),
    ("-0700", Offset { zulu: false, colons: false, parts: 2 }),
    ("-07", Offset { zulu: false, colons: false, parts: 1 }),
    ("Z07:00:00", Offset { zulu: true, colons: true, parts: 3 }),
    ("Z070000", Offset { zulu: true, colons: false, parts: 3 }),
    ("Z07:00", Offset { zulu: true, colons: true, parts: 2 }),
    ("Z0700", Offset { zulu: true, colons: false, parts: 2 }),
    ("Z07", Offset { zulu: true, colons: false, parts: 1 }),
];

/// Formats a time by a layout.
pub(crate) fn format(time: &Zoned, layout: &str) -> String {
    let mut out = String::with_capacity(layout.len() + 16);
    let mut rest = layout;
    while let Some(first) = rest.chars().next() {
        let taken = write_fraction(&mut out, time, rest).or_else(|| write_part(&mut out, time, rest));
        let taken = taken.unwrap_or_else(|| {
            out.push(first);
            first.len_utf8()
        });
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Formats the component at the start of a layout; returns the length consumed.
fn write_part(out: &mut String, time: &Zoned, layout: &str) -> Option<usize> {
    // An underscore and the year, not a padded day followed by `006`.
    if layout.starts_with("_2006") {
        return None;
    }
    let begins = |(text, part): &&(&str, Part)| {
        let follows = layout.strip_prefix(text);
        let lower = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
        follows.is_some_and(|rest| !matches!(part, Short(_)) || !lower(rest))
    };
    let (text, part) = PARTS.iter().find(begins)?;
    match part {
        Directive(directive) | Short(directive) => out.push_str(&time.strftime(directive).to_string()),
        Padded(directive, width) => {
            let number = time.strftime(directive).to_string();
            out.extend(std::iter::repeat_n(' ', width.saturating_sub(number.len())));
            out.push_str(&number);
        }
        Offset { zulu, colons, parts } => write_offset(out, time, *zulu, *colons, *parts),
    }
    Some(text.len())
}

fn write_offset(out: &mut String, time: &Zoned, zulu: bool, colons: bool, parts: usize) {
    let seconds = time.offset().seconds();
    if zulu && seconds == 0 {
        out.push('Z');
        return;
    }
    out.push(if seconds < 0 { '-' } else { '+' });
    let seconds = seconds.unsigned_abs();
    for (at, number) in [seconds / 3600, seconds / 60 % 60, seconds % 60].into_iter().take(parts).enumerate()
    {
        if colons && at > 0 {
            out.push(':');
        }
        // Writing to a string cannot fail.
        let _written = write!(out, "{number:02}");
    }
}

/// Formats fractional seconds: `.000` or `,000` with as many digits, `.999` without trailing zeros.
fn write_fraction(out: &mut String, time: &Zoned, layout: &str) -> Option<usize> {
    let separator = layout.chars().next().filter(|c| matches!(c, '.' | ','))?;
    let digits = layout.get(1..)?;
    let digit = digits.chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let behind = digits.trim_start_matches(digit);
    // Another number, such as the day in `01.02`.
    if behind.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let count = digits.len() - behind.len();
    let nanoseconds = format!("{:09}", time.subsec_nanosecond());
    let mut written = nanoseconds.get(..count.min(9)).unwrap_or_default().to_owned();
    if digit == '9' {
        written.truncate(written.trim_end_matches('0').len());
    }
    if !written.is_empty() {
        out.push(separator);
        out.push_str(&written);
    }
    Some(1 + count)
}
