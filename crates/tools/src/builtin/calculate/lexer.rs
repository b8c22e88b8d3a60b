//! The lexer: numbers, names and operators.

use rust_decimal::Decimal;

use super::expression_error::ExpressionError;

/// A token of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// An unsigned number.
    Number(Decimal),
    /// A lower-case name: function, constant, `of` or `mod`.
    Name(String),
    /// One of `+ - * / % ^ ( ) ,`; `**` is `^`.
    Sign(char),
}

/// Maximum bytes of a name; longer ones are unknown in any case.
const MAX_NAME: usize = 16;
/// Numbers with larger exponents are zero or out of range.
const MAX_EXPONENT: u32 = 60;

/// Splits an expression into tokens.
pub(super) fn tokens(expression: &str) -> Result<Vec<Token>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '0'..='9' | '.' => number(rest)?,
            'a'..='z' | 'A'..='Z' => name(rest)?,
            '*' if rest.starts_with("**") => (Token::Sign('^'), 2),
            '+' | '-' | '*' | '/' | '%' | '^' | '(' | ')' | ',' => (Token::Sign(first), 1),
            // Unicode operators, which models also write.
            '×' | '·' => (Token::Sign('*'), first.len_utf8()),
            '÷' => (Token::Sign('/'), first.len_utf8()),
            '−' => (Token::Sign('-'), first.len_utf8()),
            'π' => (Token::Name("pi".into()), first.len_utf8()),
            other => {
                return Err(ExpressionError::new(format!("unexpected character '{}'", other.escape_debug())));
            }
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

fn name(text: &str) -> Result<(Token, usize), ExpressionError> {
    let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let name = text.get(..length.min(MAX_NAME + 1)).unwrap_or_default();
    if length > MAX_NAME {
        return Err(ExpressionError::new(format!("unknown name '{name}…'")));
    }
    Ok((Token::Name(name.to_ascii_lowercase()), length))
}

/// Digits with at most one decimal point and an optional exponent.
fn number(text: &str) -> Result<(Token, usize), ExpressionError> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let after = |length: usize| text.get(length..).unwrap_or_default();
    let mut length = digits(text);
    if after(length).starts_with('.') {
        length += 1 + digits(after(length + 1));
    }
    let mantissa = text.get(..length).unwrap_or_default();
    if mantissa == "." || after(length).starts_with('.') {
        return Err(ExpressionError::new("a number has a misplaced decimal point"));
    }
    let unreadable = || ExpressionError::new(format!("the number {mantissa} is out of range"));
    let mut number = mantissa.trim_end_matches('.').parse::<Decimal>().map_err(|_| unreadable())?;
    if let Some((exponent, written)) = exponent(after(length)) {
        length += written;
        number = scaled(number, exponent).ok_or_else(ExpressionError::too_large)?;
    }
    Ok((Token::Number(number), length))
}

/// Parses `e5`, `E+5` or `e-5` and returns its length. An `e` without digits is the constant, not an exponent.
fn exponent(text: &str) -> Option<(i64, usize)> {
    let rest = text.strip_prefix(['e', 'E'])?;
    let (negative, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix('+').unwrap_or(rest)),
    };
    let digits = rest.get(..rest.bytes().take_while(u8::is_ascii_digit).count())?;
    if digits.is_empty() {
        return None;
    }
    // An exponent that does not even parse is treated like one that is too large.
    let exponent = i64::from(digits.parse::<u32>().unwrap_or(u32::MAX).min(MAX_EXPONENT));
    Some((if negative { -exponent } else { exponent }, text.len() - rest.len() + digits.len()))
}

fn scaled(mut number: Decimal, exponent: i64) -> Option<Decimal> {
    for _ in 0..exponent.abs() {
        number = match exponent > 0 {
            true => number.checked_mul(Decimal::TEN)?,
            false => number.checked_div(Decimal::TEN)?,
        };
    }
    Some(number)
}
