//! Durations, costs and moments in few characters, and texts of others without what a terminal would obey.

/// A text on one line, in which characters that a terminal or the eye would be misled by are escaped: controls, marks of
/// direction, and characters without a width.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
                plain.extend(c.escape_unicode());
            }
            c if c.is_control() => plain.extend(c.escape_unicode()),
            c => plain.push(c),
        }
    }
    plain
}

/// At most so many characters of a plain text.
pub(super) fn cut(text: &str, most: usize, ellipsis: &str) -> String {
    let plain = plain(text);
    if plain.chars().count() <= most {
        return plain;
    }
    let kept = most.saturating_sub(ellipsis.chars().count());
    plain.chars().take(kept).chain(ellipsis.chars()).take(most).collect()
}

/// `830 ms`, `2.41 s`, `3 min 20 s`, `3 h 2 min`, `2 d 4 h`.
pub(super) fn duration(ms: u64) -> String {
    let pair = |value: u64, unit: &str, rest: u64, small: &str| {
        if rest == 0 { format!("{value} {unit}") } else { format!("{value} {unit} {rest} {small}") }
    };
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{}.{:02} s", seconds, ms % 1000 / 10),
        10..60 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60..3600 => pair(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => pair(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// The time between two instants; none is negative, whatever clocks did.
pub(super) fn between(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or_default()
}

/// `$0.0012`, `$3.20`.
pub(super) fn cost(usd: f64) -> String {
    if usd >= 1.0 { format!("${usd:.2}") } else { format!("${usd:.4}") }
}

/// A time of the day and its date, UTC.
pub(super) fn moment(ms: i64) -> String {
    let text = jiff::Timestamp::from_second(ms.div_euclid(1000)).map(|moment| moment.to_string());
    text.unwrap_or_default().replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::{cut, duration, plain};

    #[test]
    fn durations_have_two_units_at_most() {
        for (ms, expected) in [
            (0, "0 ms"),
            (830, "830 ms"),
            (2415, "2.41 s"),
            (12_360, "12.3 s"),
            (200_000, "3 min 20 s"),
            (10_920_000, "3 h 2 min"),
            (7_200_000, "2 h"),
            (187_200_000, "2 d 4 h"),
        ] {
            assert_eq!(duration(ms), expected);
        }
    }

    #[test]
    fn a_terminal_is_told_nothing_by_others() {
        assert_eq!(plain("a\u{1b}[31m\r\n\u{202e}b\u{9b}ü"), "a\\u{1b}[31m\\u{d}\\u{a}\\u{202e}b\\u{9b}ü");
        assert_eq!(cut("lookup_weather", 8, "…"), "lookup_…");
        assert_eq!(cut("lookup_weather", 8, "..."), "looku...");
        assert_eq!(cut("short", 8, "…"), "short");
    }
}
