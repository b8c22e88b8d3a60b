//! `calculate`: exact arithmetic for models.
//!
//! Numbers are decimals of 28 digits, so `0.1 + 0.2` is `0.3`. Expressions are evaluated while they are parsed
//! (`parser`); functions and constants are in `functions`. `%` follows pocket calculators:
//!
//! - before an operand it is the remainder (`10 % 3`), otherwise percent (`20%`, `85.50 * 20%`, `20% of 85.50`); before
//!   a sign it is percent, so `50% - 3` is a difference;
//! - adding or subtracting a percentage is relative to the left operand: `100 + 10%` is 110. In brackets it is a plain
//!   number: `100 + (10%)` is 100.1. Two percentages add up: `10% + 5%` is 0.15.

mod expression_error;
mod functions;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use rust_decimal::Decimal;
use serde_json::{Number, Value, json};

use expression_error::ExpressionError;
use functions::to_float;

use crate::{Annotations, Arguments, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};

/// Maximum bytes of an expression.
const MAX_LENGTH: usize = 4096;
/// Significant digits of a fractional result: fewer than are computed, so that `1/3*3` is 1. Digits before the
/// decimal point are never rounded.
const DIGITS: u32 = 20;

/// The tool.
pub(crate) struct Calculate;

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
            evaluate(expression).map_err(|error| ToolError::failed(format!("calculation error: {error}")))?;
        let mut output = ToolOutput::value(json!({"expression": expression, "result": number(result)}));
        // The model gets all digits; the structured JSON number is a double and may have fewer.
        output.for_model = format!(r#"{{"expression":{},"result":{result}}}"#, json!(expression));
        Ok(output)
    }
}

/// Evaluates an expression.
pub(crate) fn evaluate(expression: &str) -> Result<Decimal, ExpressionError> {
    if expression.len() > MAX_LENGTH {
        return Err(ExpressionError::new(format!("the expression is longer than {MAX_LENGTH} bytes")));
    }
    Ok(normalize(parser::evaluate(&lexer::tokens(expression)?)?))
}

fn normalize(result: Decimal) -> Decimal {
    let whole = result.trunc().normalize().mantissa().checked_ilog10().map_or(0, |tens| tens + 1);
    let result = result.normalize();
    let result = match result.scale() {
        0 => result,
        _ => result.round_sf(DIGITS.max(whole + 2)).unwrap_or(result),
    };
    // Avoids "-0".
    if result.is_zero() { Decimal::ZERO } else { result.normalize() }
}

fn number(result: Decimal) -> Option<Number> {
    match i64::try_from(result) {
        Ok(whole) if result.scale() == 0 => Some(whole.into()),
        _ => Number::from_f64(to_float(result)),
    }
}
