//! Expressions and their values, and mistakes and how they are told.

mod fuzz;

use super::*;

fn shown(expression: &str) -> String {
    match evaluate(expression) {
        Ok(value) => value.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn values_of_operators() {
    for (expression, value) in [
        ("1+2*3", "7"),
        ("85.50*0.20", "17.1"),
        ("(1+2)*3", "9"),
        ("0.1+0.2", "0.3"),
        ("10-4-3", "3"),
        ("100/10/2", "5"),
        ("7/2", "3.5"),
        ("1/3", "0.33333333333333333333"),
        ("1/3*3", "1"),
        ("1e22 * 1.5 + 1", "15000000000000000000001"),
        ("12345678901234567890123 * 1.0", "12345678901234567890123"),
        ("12345678901234567890123 / 10", "1234567890123456789012.3"),
        ("2^64", "18446744073709551616"),
        ("2^95", "39614081257132168796771975168"),
        ("10^28", "10000000000000000000000000000"),
        ("-9223372036854775808^1", "-9223372036854775808"),
        ("2^10", "1024"),
        ("2**10", "1024"),
        ("2^3^2", "512"),
        ("2^-1", "0.5"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("(-2)^3", "-8"),
        ("2^0.5", "1.414213562373095"),
        ("4^0.5", "2"),
        ("0^0", "1"),
        ("0.5^1000", "0"),
        ("(-1)^1000000001", "-1"),
        ("1^99999999999999999999", "1"),
        ("1.0001^10000", "2.718145926825224864"),
        ("--5", "5"),
        ("-+-5", "5"),
        ("3 - -2", "5"),
        ("3*-2", "-6"),
        ("-0", "0"),
        ("10 % 3", "1"),
        ("-10 % 3", "-1"),
        ("10.5 mod 3", "1.5"),
        ("mod(10, 4)", "2"),
        ("20%", "0.2"),
        ("20% of 85.50", "17.1"),
        ("20 % OF 85.50", "17.1"),
        ("85.50 * 20%", "17.1"),
        ("85.50 + 20%", "102.6"),
        ("100 - 10%", "90"),
        ("100 + 10% + 10%", "121"),
        ("100 + (10%)", "100.1"),
        ("10% + 5%", "0.15"),
        ("100 + 10% of 50", "105"),
        ("50% - 3", "-2.5"),
        ("200%%", "0.02"),
        ("10%(3)", "1"),
        ("2^50%", "1.414213562373095"),
    ] {
        assert_eq!(shown(expression), value, "{expression}");
    }
}

#[test]
fn values_of_functions_constants_and_spellings() {
    for (expression, value) in [
        ("abs(-3.2)", "3.2"),
        ("sign(-3) + sign(0) + sign(9)", "0"),
        ("min(3, 1, 2)", "1"),
        ("max(3, 1+9, 2)", "10"),
        ("sum(1,2,3)", "6"),
        ("avg(1,2)", "1.5"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(3.14159, 2)", "3.14"),
        ("floor(-1.5)", "-2"),
        ("ceil(-1.5)", "-1"),
        ("trunc(-1.5)", "-1"),
        ("sqrt(16)", "4"),
        ("sqrt(2)", "1.4142135623730950488"),
        ("cbrt(27)", "3"),
        ("SQRT(0)", "0"),
        ("pow(2, 8)", "256"),
        ("ln(e)", "1"),
        ("log(1000)", "3"),
        ("log10(0.01)", "-2"),
        ("log2(8)", "3"),
        ("log(8, 2)", "3"),
        ("exp(0)", "1"),
        ("exp(-200)", "0"),
        ("sin(0)", "0"),
        ("sin(pi/6)", "0.5"),
        ("cos(pi)", "-1"),
        ("tan(π/4)", "1"),
        ("asin(0) + acos(1) + atan(0)", "0"),
        ("pi", "3.1415926535897932385"),
        ("2*e", "5.4365636569180904707"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        ("2e+2*2", "400"),
        (".5+5.", "5.5"),
        ("3 × 4 ÷ 2 − 1", "5"),
        (" \t\n1 ", "1"),
        ("79228162514264337593543950335", "79228162514264337593543950335"),
        ("1e-90", "0"),
    ] {
        assert_eq!(shown(expression), value, "{expression}");
    }
}

#[test]
fn mistakes() {
    for (expression, error) in [
        ("", "the expression is empty"),
        ("  ", "the expression is empty"),
        ("2**", "the expression ends where an operand is expected"),
        ("2+", "the expression ends where an operand is expected"),
        ("(1+2", "')' is missing at the end"),
        ("1+2)", "unexpected ')'"),
        ("()", "unexpected ')'"),
        ("*2", "unexpected '*'"),
        ("1,000", "unexpected ','"),
        ("1 000", "unexpected number 0: an operator is missing before it"),
        ("2pi", "unexpected name 'pi': an operator is missing before it"),
        ("2(3)", "unexpected '('"),
        ("(2)(3)", "unexpected '('"),
        ("1.2.3", "a number has a misplaced decimal point"),
        (".", "a number has a misplaced decimal point"),
        ("$5", "unexpected character '$'"),
        ("1_000", "unexpected character '_'"),
        ("1/0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("mod(1, 0)", "division by zero"),
        ("0^-1", "division by zero"),
        ("5 of 10", "'of' must follow a percentage"),
        ("sqrt(-1)", "sqrt is not defined for this argument"),
        ("ln(0)", "ln is not defined for this argument"),
        ("log(-1)", "log is not defined for this argument"),
        ("log(2, 1)", "a number is too large (more than 28 digits)"),
        ("asin(2)", "asin is not defined for this argument"),
        ("tan(pi/2)", "tan is not defined for this argument"),
        ("(-8)^(1/3)", "a negative number raised to a fractional power is not a real number"),
        ("79228162514264337593543950335+1", "a number is too large (more than 28 digits)"),
        ("10^28*10", "a number is too large (more than 28 digits)"),
        ("2^1000", "a number is too large (more than 28 digits)"),
        ("9^9^9^9", "a number is too large (more than 28 digits)"),
        ("1e99999999999999", "a number is too large (more than 28 digits)"),
        ("exp(1000)", "a number is too large (more than 28 digits)"),
        ("99999999999999999999999999999999", "the number 99999999999999999999999999999999 is out of range"),
        ("foo", "unknown name 'foo'"),
        ("foo(1)", "unknown name 'foo'"),
        ("foo(1, 2)", "unknown name 'foo'"),
        ("system('rm')", "unexpected character '\\''"),
        ("sin", "'sin' is a function: write its arguments in brackets"),
        ("sin()", "wrong number of arguments for sin"),
        ("min()", "wrong number of arguments for min"),
        ("pow(2)", "wrong number of arguments for pow"),
        ("min(1,)", "unexpected ')'"),
        ("round(1, 0.5)", "the second argument of round must be a whole number from 0 to 28"),
        ("round(1, -1)", "the second argument of round must be a whole number from 0 to 28"),
        ("round(1, 29)", "the second argument of round must be a whole number from 0 to 28"),
    ] {
        assert_eq!(shown(expression), format!("error: {error}"), "{expression}");
    }
}

#[test]
fn bombs_are_defused() {
    for bomb in ["(", "-", "+", "2^", "sin(", "1+(", "-(", "20%-("] {
        assert!(evaluate(&bomb.repeat(MAX_LENGTH / bomb.len())).is_err(), "{bomb}");
    }
    assert_eq!(shown(&format!("{}1{}", "(".repeat(99), ")".repeat(99))), "1");
    assert_eq!(
        shown(&format!("{}1{}", "(".repeat(100), ")".repeat(100))),
        "error: the expression is nested too deeply"
    );
    assert_eq!(shown(&format!("0{}", "+1".repeat(2047))), "2047");
    assert_eq!(shown(&"1".repeat(4097)), "error: the expression is longer than 4096 bytes");
    assert_eq!(shown(&format!("1{}", "%".repeat(4000))), "0");
}

#[tokio::test]
async fn the_tool_answers_in_the_seeds_shape() {
    let call = async |arguments: Value| {
        Calculate.call(arguments.as_object().unwrap(), &ToolContext::default()).await
    };
    let output = call(json!({"expression": "85.50*0.20"})).await.unwrap();
    assert_eq!(output.for_model, r#"{"expression":"85.50*0.20","result":17.1}"#);
    assert_eq!(output.structured, Some(json!({"expression": "85.50*0.20", "result": 17.1})));
    let output = call(json!({"expression": "1+2*3"})).await.unwrap();
    assert_eq!(output.structured.unwrap()["result"], json!(7));
    let output = call(json!({"expression": "10^27 + 1/8"})).await.unwrap();
    assert!(serde_json::from_str::<Value>(&output.for_model).is_ok());
    let error = call(json!({"expression": "2**"})).await.unwrap_err();
    assert!(error.message.starts_with("calculation error: "), "{error}");
    for wrong in [json!({}), json!({"expression": 5})] {
        assert_eq!(call(wrong).await.unwrap_err().message, "expression parameter required");
    }
}
