//! The rule for names that models are given.

use crate::parse::ParseError;

/// Maximum length of a function's and of a namespace's name.
pub(super) const MAX_NAME_CHARS: usize = 128;

/// Checks a name that is sent to the model: `^[a-zA-Z0-9_-]+$`.
pub(crate) fn check_name(field: &str, name: &str, max: usize) -> Result<(), ParseError> {
    let problem = if name.is_empty() {
        ("string_below_min_length", "must not be empty.".to_owned())
    } else if name.len() > max && name.chars().count() > max {
        ("string_above_max_length", format!("at most {max} characters are allowed."))
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
        ("invalid_value", "only letters, digits, '_' and '-' are allowed.".to_owned())
    } else {
        return Ok(());
    };
    Err(ParseError::invalid(field, problem.1).with_code(problem.0))
}
