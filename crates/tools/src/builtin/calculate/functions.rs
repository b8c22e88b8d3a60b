//! Functions and constants.
//!
//! Sums, comparisons, rounding and square roots use decimal arithmetic. Logarithms and trigonometry use floating point,
//! which is more exact here than the decimal library's series: about 15 digits.

use rust_decimal::{Decimal, MathematicalOps, RoundingStrategy};

use super::expression_error::ExpressionError;

/// All function names, to tell an unknown name from a wrong number of arguments.
const NAMES: &[&str] = &[
    "abs", "sign", "min", "max", "sum", "avg", "round", "floor", "ceil", "trunc", "sqrt", "cbrt", "pow",
    "mod", "exp", "ln", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan",
];

/// Maximum `digits` of `round`.
const MAX_DECIMALS: u32 = 28;

/// Evaluates a function.
pub(super) fn call(name: &str, arguments: &[Decimal]) -> Result<Decimal, ExpressionError> {
    match (name, arguments) {
        ("abs", [x]) => Ok(x.abs()),
        ("sign", [x]) if x.is_zero() => Ok(Decimal::ZERO),
        ("sign", [x]) if x.is_sign_negative() => Ok(Decimal::NEGATIVE_ONE),
        ("sign", [_]) => Ok(Decimal::ONE),
        ("min", [first, rest @ ..]) => Ok(rest.iter().fold(*first, |least, x| least.min(*x))),
        ("max", [first, rest @ ..]) => Ok(rest.iter().fold(*first, |most, x| most.max(*x))),
        ("sum", [_, ..]) => sum(arguments),
        ("avg", [_, ..]) => {
            sum(arguments)?.checked_div(Decimal::from(arguments.len())).ok_or_else(ExpressionError::too_large)
        }
        ("round", [x]) => Ok(rounded(*x, 0)),
        ("round", [x, digits]) => {
            let digits =
                u32::try_from(*digits).ok().filter(|n| digits.fract().is_zero() && *n <= MAX_DECIMALS);
            let digits = digits.ok_or_else(|| {
                ExpressionError::new("the second argument of round must be a whole number from 0 to 28")
            })?;
            Ok(rounded(*x, digits))
        }
        ("floor", [x]) => Ok(x.floor()),
        ("ceil", [x]) => Ok(x.ceil()),
        ("trunc", [x]) => Ok(x.trunc()),
        ("sqrt", [x]) if x.is_zero() => Ok(Decimal::ZERO),
        ("sqrt", [x]) => x.sqrt().ok_or_else(|| undefined(name)),
        ("pow", [base, exponent]) => power(*base, *exponent),
        ("mod", [_, b]) if b.is_zero() => Err(ExpressionError::new("division by zero")),
        ("mod", [a, b]) => a.checked_rem(*b).ok_or_else(ExpressionError::too_large),
        ("log", [x, base]) => {
            let quotient = logarithm(name, *x)? / logarithm(name, *base)?;
            from_float(quotient)
        }
        ("ln" | "log" | "log2" | "log10", [x]) => {
            logarithm(name, *x)?;
            let x = to_float(*x);
            from_float(match name {
                "ln" => x.ln(),
                "log2" => x.log2(),
                _ => x.log10(),
            })
        }
        (_, [x]) => in_floating_point(name, to_float(*x)),
        _ if NAMES.contains(&name) => Err(wrong_arguments(name)),
        _ => Err(unknown(name)),
    }
}

/// Looks up a constant.
pub(super) fn constant(name: &str) -> Result<Decimal, ExpressionError> {
    match name {
        "pi" => Ok(Decimal::PI),
        "tau" => Ok(Decimal::TWO_PI),
        "e" => Ok(Decimal::E),
        _ if NAMES.contains(&name) => {
            Err(ExpressionError::new(format!("'{name}' is a function: write its arguments in brackets")))
        }
        _ => Err(unknown(name)),
    }
}

/// Exponentiation: exact for whole exponents, otherwise in floating point.
pub(super) fn power(base: Decimal, exponent: Decimal) -> Result<Decimal, ExpressionError> {
    if base.is_zero() && exponent.is_sign_negative() && !exponent.is_zero() {
        return Err(ExpressionError::new("division by zero"));
    }
    if !exponent.fract().is_zero() {
        if base.is_sign_negative() && !base.is_zero() {
            return Err(ExpressionError::new(
                "a negative number raised to a fractional power is not a real number",
            ));
        }
        return from_float(to_float(base).powf(to_float(exponent)));
    }
    // With an exponent beyond 64 bits only bases 0, 1 and -1 neither overflow nor vanish.
    let Ok(whole) = i64::try_from(exponent) else {
        return from_float(to_float(base).powf(to_float(exponent)));
    };
    if let Some(result) = base.checked_powi(whole) {
        return Ok(result);
    }
    // The library reports underflow like overflow; floating point tells them apart: underflow gives zero.
    from_float(to_float(base).powf(to_float(exponent)))
}

/// The nearest double. Parsed from text, which rounds once; arithmetic conversion would round twice.
pub(super) fn to_float(number: Decimal) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
}

/// Converts a floating-point result.
pub(super) fn from_float(number: f64) -> Result<Decimal, ExpressionError> {
    if number.is_nan() {
        return Err(ExpressionError::new("the result is not a real number"));
    }
    Decimal::try_from(number).map_err(|_| ExpressionError::too_large())
}

fn in_floating_point(name: &str, x: f64) -> Result<Decimal, ExpressionError> {
    from_float(match name {
        "exp" => x.exp(),
        "cbrt" => x.cbrt(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        // No decimal is exactly a right angle; this close to one the tangent is noise.
        "tan" if x.cos().abs() < 1e-15 => return Err(undefined(name)),
        "tan" => x.tan(),
        "asin" | "acos" if x.abs() > 1.0 => return Err(undefined(name)),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        _ if NAMES.contains(&name) => return Err(wrong_arguments(name)),
        _ => return Err(unknown(name)),
    })
}

/// The natural logarithm of a positive number.
fn logarithm(name: &str, x: Decimal) -> Result<f64, ExpressionError> {
    if x <= Decimal::ZERO { Err(undefined(name)) } else { Ok(to_float(x).ln()) }
}

fn sum(numbers: &[Decimal]) -> Result<Decimal, ExpressionError> {
    numbers
        .iter()
        .try_fold(Decimal::ZERO, |sum, x| sum.checked_add(*x))
        .ok_or_else(ExpressionError::too_large)
}

/// Rounds halves away from zero, as on paper.
fn rounded(x: Decimal, decimals: u32) -> Decimal {
    x.round_dp_with_strategy(decimals, RoundingStrategy::MidpointAwayFromZero)
}

fn undefined(name: &str) -> ExpressionError {
    ExpressionError::new(format!("{name} is not defined for this argument"))
}

fn wrong_arguments(name: &str) -> ExpressionError {
    ExpressionError::new(format!("wrong number of arguments for {name}"))
}

fn unknown(name: &str) -> ExpressionError {
    ExpressionError::new(format!("unknown name '{name}'"))
}
