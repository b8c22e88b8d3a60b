//! Durations in Go's format: `30s`, `1m30s`, `1.5s`, `250µs`.

use std::time::Duration;

/// Parses a duration; `None`: invalid or negative.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, Duration::ZERO);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(number_end);
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let value: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(value * seconds).ok()?)?;
        rest = behind;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5s", 1500),
            ("100ms", 100),
            ("1h0m0s", 3_600_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "30", "s", "-1s", "1 s", "1d", "..s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
