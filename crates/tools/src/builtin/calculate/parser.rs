//! A precedence-climbing parser that evaluates while it parses, without a syntax tree.
//!
//! From loosest to tightest: `+ -`, `* / % of mod`, unary sign, `^` (right-associative), percent. `-2^2` is −4, `2^-1`
//! is 0.5, `2^3^2` is 512.

use rust_decimal::Decimal;

use super::expression_error::ExpressionError;
use super::functions::{self, power};
use super::lexer::Token;

/// Maximum nesting depth of brackets, signs and powers.
const MAX_DEPTH: usize = 100;

/// Binding power of an operator to its left and right.
type BindingPower = (u8, u8);
const SUM: BindingPower = (1, 2);
const PRODUCT: BindingPower = (3, 4);
const SIGN: u8 = 5;
const POWER: BindingPower = (8, 7);

/// Evaluates an expression.
pub(super) fn evaluate(tokens: &[Token]) -> Result<Decimal, ExpressionError> {
    if tokens.is_empty() {
        return Err(ExpressionError::new("the expression is empty"));
    }
    let mut parser = Parser { rest: tokens, depth: 0 };
    let value = parser.expression(0)?.number;
    match parser.rest.first() {
        None => Ok(value),
        Some(token) => Err(unexpected(token)),
    }
}

struct Parser<'a> {
    rest: &'a [Token],
    depth: usize,
}

/// A value, and whether it was written as a percentage.
#[derive(Clone, Copy)]
struct Operand {
    number: Decimal,
    /// A bare percentage: `10%`, but neither `2 * 10%` nor `(10%)`.
    percentage: bool,
}

impl From<Decimal> for Operand {
    fn from(number: Decimal) -> Self {
        Self { number, percentage: false }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Of,
    Power,
}

impl Parser<'_> {
    /// An operand and all following operators that bind at least as tightly as `min_power`.
    fn expression(&mut self, min_power: u8) -> Result<Operand, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExpressionError::new("the expression is nested too deeply"));
        }
        let mut left = self.operand()?;
        while let Some((operator, (on_left, on_right))) = self.operator()? {
            if on_left < min_power {
                break;
            }
            self.skip();
            let right = self.expression(on_right)?;
            left = apply(operator, left, right)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Operand, ExpressionError> {
        let Some((first, rest)) = self.rest.split_first() else {
            return Err(ExpressionError::new("the expression ends where an operand is expected"));
        };
        self.rest = rest;
        let mut operand = match first {
            Token::Number(number) => Operand::from(*number),
            Token::Sign('-') => {
                let operand = self.expression(SIGN)?;
                return Ok(Operand { number: -operand.number, ..operand });
            }
            Token::Sign('+') => return self.expression(SIGN),
            Token::Sign('(') => {
                let inner = self.expression(0)?.number;
                self.expect(')')?;
                inner.into()
            }
            Token::Name(name) if self.rest.first() == Some(&Token::Sign('(')) => {
                self.skip();
                functions::call(name, &self.arguments()?)?.into()
            }
            Token::Name(name) => functions::constant(name)?.into(),
            Token::Sign(_) => return Err(unexpected(first)),
        };
        while self.at_percent() {
            self.skip();
            let number =
                operand.number.checked_div(Decimal::ONE_HUNDRED).ok_or_else(ExpressionError::too_large)?;
            operand = Operand { number, percentage: true };
        }
        Ok(operand)
    }

    /// The arguments of a function, after its opening bracket.
    fn arguments(&mut self) -> Result<Vec<Decimal>, ExpressionError> {
        let mut arguments = Vec::new();
        if self.rest.first() == Some(&Token::Sign(')')) {
            self.skip();
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression(0)?.number);
            if self.rest.first() != Some(&Token::Sign(',')) {
                self.expect(')')?;
                return Ok(arguments);
            }
            self.skip();
        }
    }

    /// The next operator; `None` at the end of the (sub)expression.
    fn operator(&self) -> Result<Option<(Operator, BindingPower)>, ExpressionError> {
        let found = match self.rest.first() {
            None | Some(Token::Sign(')' | ',')) => return Ok(None),
            Some(Token::Sign('+')) => (Operator::Add, SUM),
            Some(Token::Sign('-')) => (Operator::Subtract, SUM),
            Some(Token::Sign('*')) => (Operator::Multiply, PRODUCT),
            Some(Token::Sign('/')) => (Operator::Divide, PRODUCT),
            Some(Token::Sign('%')) => (Operator::Remainder, PRODUCT),
            Some(Token::Sign('^')) => (Operator::Power, POWER),
            Some(Token::Name(name)) if name == "of" => (Operator::Of, PRODUCT),
            Some(Token::Name(name)) if name == "mod" => (Operator::Remainder, PRODUCT),
            Some(token) => return Err(unexpected(token)),
        };
        Ok(Some(found))
    }

    /// Whether the next token is a percent sign rather than a remainder: no operand follows it.
    fn at_percent(&self) -> bool {
        match self.rest {
            [Token::Sign('%'), Token::Name(name), ..] => matches!(name.as_str(), "of" | "mod"),
            [Token::Sign('%'), Token::Number(_) | Token::Sign('('), ..] => false,
            [Token::Sign('%'), ..] => true,
            _ => false,
        }
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn expect(&mut self, sign: char) -> Result<(), ExpressionError> {
        match self.rest.first() {
            Some(token) if *token == Token::Sign(sign) => {
                self.skip();
                Ok(())
            }
            Some(token) => Err(unexpected(token)),
            None => Err(ExpressionError::new(format!("'{sign}' is missing at the end"))),
        }
    }
}

fn unexpected(token: &Token) -> ExpressionError {
    ExpressionError::new(match token {
        Token::Number(number) => format!("unexpected number {number}: an operator is missing before it"),
        Token::Name(name) => format!("unexpected name '{name}': an operator is missing before it"),
        Token::Sign(sign) => format!("unexpected '{sign}'"),
    })
}

fn apply(operator: Operator, left: Operand, right: Operand) -> Result<Operand, ExpressionError> {
    let (a, b) = (left.number, right.number);
    let share = right.percentage && !left.percentage;
    let result = match operator {
        Operator::Add if share => a.checked_mul(b).and_then(|share| a.checked_add(share)),
        Operator::Subtract if share => a.checked_mul(b).and_then(|share| a.checked_sub(share)),
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide | Operator::Remainder if b.is_zero() => {
            return Err(ExpressionError::new("division by zero"));
        }
        Operator::Divide => a.checked_div(b),
        Operator::Remainder => a.checked_rem(b),
        Operator::Of if left.percentage => a.checked_mul(b),
        Operator::Of => return Err(ExpressionError::new("'of' must follow a percentage")),
        Operator::Power => return power(a, b).map(Operand::from),
    };
    result.map(Operand::from).ok_or_else(ExpressionError::too_large)
}
