//! Parsers of plain values: strings, booleans, numbers within limits, names of an enumeration.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::parse::{self, ParseError};

/// Reads a string.
pub(super) fn string(raw: &RawValue) -> Result<String, ParseError> {
    parse::read(raw)
}

/// Reads a non-empty string.
pub(super) fn non_empty_string(raw: &RawValue) -> Result<String, ParseError> {
    let text = string(raw)?;
    if text.is_empty() {
        return Err(ParseError::invalid("", "must not be empty.").with_code("string_below_min_length"));
    }
    Ok(text)
}

/// Reads a string of at most `max` characters.
pub(super) fn bounded_string(raw: &RawValue, max: usize) -> Result<String, ParseError> {
    let text = string(raw)?;
    check_length("", &text, max)?;
    Ok(text)
}

/// Checks that a text has at most `max` characters.
pub(super) fn check_length(path: &str, text: &str, max: usize) -> Result<(), ParseError> {
    // Counting characters is expensive: a text never has more characters than bytes.
    if text.len() > max && text.chars().count() > max {
        return Err(ParseError::invalid(path, format!("at most {max} characters are allowed."))
            .with_code("string_above_max_length"));
    }
    Ok(())
}

/// Reads a boolean.
pub(super) fn boolean(raw: &RawValue) -> Result<bool, ParseError> {
    parse::read(raw)
}

/// Reads a number within inclusive limits.
pub(super) fn decimal(raw: &RawValue, min: f64, max: f64) -> Result<f64, ParseError> {
    let number: f64 = parse::read(raw)?;
    if number < min {
        let problem = format!("expected at least {min}, got {}.", parse::truncate_for_display(raw.get()));
        return Err(ParseError::invalid("", problem).with_code("decimal_below_min_value"));
    }
    if number > max {
        let problem = format!("expected at most {max}, got {}.", parse::truncate_for_display(raw.get()));
        return Err(ParseError::invalid("", problem).with_code("decimal_above_max_value"));
    }
    Ok(number)
}

/// Reads an integer within inclusive limits. JSON has one kind of numbers: `100.0` is an integer.
pub(super) fn integer(raw: &RawValue, min: u64, max: u64) -> Result<u64, ParseError> {
    let text = raw.get();
    let out_of_range = |code, bound: &str, limit: u64| {
        let problem = format!("expected {bound} {limit}, got {}.", parse::truncate_for_display(text));
        Err(ParseError::invalid("", problem).with_code(code))
    };
    match read_integer(raw)? {
        Some(number) if number > max => out_of_range("integer_above_max_value", "at most", max),
        Some(number) if number >= min => Ok(number),
        _ => out_of_range("integer_below_min_value", "at least", min),
    }
}

/// The integer; `None` if it is below 0. A value beyond 64 bits exceeds every limit.
fn read_integer(raw: &RawValue) -> Result<Option<u64>, ParseError> {
    let text = raw.get();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let below = text.starts_with('-') && digits.bytes().any(|b| b != b'0');
        return Ok(if below { None } else { Some(digits.parse().unwrap_or(u64::MAX)) });
    }
    let got = match parse::json_type(raw) {
        "a number" => match text.parse::<f64>() {
            // Casts of floats saturate at the limits of the integer.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
            Ok(number) if number.fract() == 0.0 => return Ok((number >= 0.0).then_some(number as u64)),
            Ok(number) if number.is_infinite() => return Ok((number > 0.0).then_some(u64::MAX)),
            _ => text,
        },
        other => other,
    };
    Err(ParseError::wrong_type("", format!("expected an integer, got {}.", parse::truncate_for_display(got))))
}

/// Reads one of the names of an enumeration.
pub(super) fn enum_value<T: DeserializeOwned>(raw: &RawValue) -> Result<T, ParseError> {
    // serde would also accept `{"auto":null}` for `"auto"`.
    if !raw.get().starts_with('"') {
        let problem = format!("expected a string, got {}.", parse::json_type(raw));
        return Err(ParseError::wrong_type("", problem));
    }
    parse::read(raw)
}

/// Reads a list of non-empty strings.
pub(super) fn non_empty_strings(raw: &RawValue) -> Result<Vec<String>, ParseError> {
    parse::elements(raw)?
        .iter()
        .enumerate()
        .map(|(i, raw)| non_empty_string(raw).map_err(|e| e.at(i)))
        .collect()
}

/// Accepts any object.
pub(super) fn any_object(raw: &RawValue) -> Result<(), ParseError> {
    if raw.get().starts_with('{') {
        return Ok(());
    }
    Err(ParseError::wrong_type("", format!("expected an object, got {}.", parse::json_type(raw))))
}
