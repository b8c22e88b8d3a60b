//! `calculate`: arithmetic for models, which cannot do it in their heads.
//!
//! Numbers are decimals of 28 digits, so that `0.1 + 0.2` is `0.3`; an expression is evaluated while it is parsed
//! (`parser`), and what names mean is in `functions`. Two meanings of `%` had to be chosen, and both are those of
//! pocket calculators:
//!
//! - before an operand `%` is the remainder (`10 % 3`), else percent (`20%`, `85.50 * 20%`, `20% of 85.50`); before
//!   a sign it is percent, so that `50% - 3` is a difference;
//! - a percentage that is added or subtracted is one of what stands before it: `100 + 10%` is 110. In brackets it
//!   is a number like any other: `100 + (10%)` is 100.1. Two percentages add up: `10% + 5%` is 0.15.

mod functions;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use rust_decimal::Decimal;
use serde_json::{Number, Value, json};

use crate::tools::{Annotations, Arguments, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};

/// Bytes of an expression.
const MAX_LENGTH: usize = 4096;
/// Significant digits of a result that is not whole: fewer than are computed with, so that a third times three is one.
/// What stands before the point is never rounded.
const DIGITS: u32 = 20;

/// The tool.
pub(crate) struct Calculate;

/// What is wrong with an expression, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Flaw(String);

impl Flaw {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn too_large() -> Self {
        Self::new("a number is too large (more than 28 digits)")
    }
}

#[async_trait]
impl Tool for Calculate {
    fn definition(&self) -> ToolDefinition {
        let description = "Evaluates an arithmetic expression exactly. Use it for every calculation. \
            Operators: + - * / ^ (power), % (remainder, or percent behind a number: '20% of 85.50', '100 + 10%'), \
            brackets. Functions: abs, sign, min, max, sum, avg, round(x[, digits]), floor, ceil, trunc, sqrt, cbrt, \
            pow, mod, exp, ln, log (base 10, or log(x, base)), log2, log10, sin, cos, tan, asin, acos, atan \
            (radians). Constants: pi, e, tau. Write numbers without thousands separators or units.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "expression": {"type": "string", "description": "For example '85.50 * 20%' or 'sqrt(2) * (1 + 3)^2'."},
            },
            "required": ["expression"],
        });
        let returns = json!({
            "type": "object",
            "properties": {"expression": {"type": "string"}, "result": {"type": "number"}},
            "required": ["expression", "result"],
        });
        ToolDefinition::new("calculate", description, &parameters)
            .with_returns(&returns)
            .with_annotations(Annotations::READ_ONLY)
            .with_version("1.0.0")
    }

    async fn call(&self, arguments: &Arguments, _context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let expression = arguments.get("expression").and_then(Value::as_str);
        let expression = expression.ok_or_else(|| ToolError::argument("expression parameter required"))?;
        let result =
            evaluate(expression).map_err(|flaw| ToolError::failed(format!("calculation error: {flaw}")))?;
        let mut output = ToolOutput::value(json!({"expression": expression, "result": number(result)}));
        // The model gets all digits, which a binary floating-point number may not have.
        output.for_model = format!(r#"{{"expression":{},"result":{result}}}"#, json!(expression));
        Ok(output)
    }
}

/// The value of an expression.
pub(crate) fn evaluate(expression: &str) -> Result<Decimal, Flaw> {
    if expression.len() > MAX_LENGTH {
        return Err(Flaw::new(format!("the expression is longer than {MAX_LENGTH} bytes")));
    }
    Ok(tidy(parser::evaluate(&lexer::tokens(expression)?)?))
}

fn tidy(result: Decimal) -> Decimal {
    let whole = result.trunc().normalize().mantissa().checked_ilog10().map_or(0, |tens| tens + 1);
    let result = result.normalize();
    let result = match result.scale() {
        0 => result,
        _ => result.round_sf(DIGITS.max(whole + 2)).unwrap_or(result),
    };
    // A negative zero would be written with its sign.
    if result.is_zero() { Decimal::ZERO } else { result.normalize() }
}

fn number(result: Decimal) -> Option<Number> {
    match i64::try_from(result) {
        Ok(whole) if result.scale() == 0 => Some(whole.into()),
        _ => Number::from_f64(to_float(result)),
    }
}

/// The nearest floating-point number. Read from text, which rounds once; arithmetic would twice.
fn to_float(number: Decimal) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
}
