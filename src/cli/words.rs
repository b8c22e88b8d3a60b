//! Durations, costs and moments in few characters, and texts of others cut to a width.

pub(super) use antwort_util::display::one_line as plain;

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

/// `$3.20`, `$0.012`, `$0.00003`, as on the page.
pub(super) fn cost(usd: f64) -> String {
    match usd {
        0.0 => "$0".to_owned(),
        ..0.000_001 => "< $0.000001".to_owned(),
        ..0.01 => format!("${usd:.6}").trim_end_matches('0').to_owned(),
        ..1.0 => format!("${usd:.3}"),
        _ => format!("${usd:.2}"),
    }
}

/// A time of the day and its date, UTC.
pub(super) fn moment(ms: i64) -> String {
    let text = jiff::Timestamp::from_second(ms.div_euclid(1000)).map(|moment| moment.to_string());
    text.unwrap_or_default().replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::{cost, cut, duration};

    #[test]
    fn small_costs_are_not_rounded_to_nothing() {
        for (usd, expected) in [
            (0.0, "$0"),
            (0.000_000_3, "< $0.000001"),
            (0.000_030_4, "$0.00003"),
            (0.001_24, "$0.00124"),
            (0.25, "$0.250"),
            (3.2, "$3.20"),
        ] {
            assert_eq!(cost(usd), expected);
        }
    }

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
    fn a_text_is_cut_with_the_ellipsis() {
        assert_eq!(cut("lookup_weather", 8, "…"), "lookup_…");
        assert_eq!(cut("lookup_weather", 8, "..."), "looku...");
        assert_eq!(cut("short", 8, "…"), "short");
    }
}
