//! No text whatever does harm, and whole numbers come out as they do by other means.

use proptest::prelude::*;

use super::*;

/// As many cases as `PROPTEST_CASES` says; 2,000 if it says nothing.
fn config() -> ProptestConfig {
    let said = std::env::var_os("PROPTEST_CASES").is_some();
    if said { ProptestConfig::default() } else { ProptestConfig::with_cases(2000) }
}

/// An expression of whole numbers with its value by other means; `None` where that divides by zero or overflows.
fn integers() -> impl Strategy<Value = (String, Option<i128>)> {
    let leaf = (0_i128..1000).prop_map(|n| (n.to_string(), Some(n)));
    leaf.prop_recursive(6, 40, 2, |inner| {
        (inner.clone(), 0..6, inner).prop_map(|((a, x), operator, (b, y))| {
            let both = |f: fn(i128, i128) -> Option<i128>| x.zip(y).and_then(|(x, y)| f(x, y));
            let small = |value: &i128| value.abs() < 10_i128.pow(27);
            match operator {
                0 => (format!("({a} + {b})"), both(i128::checked_add).filter(small)),
                1 => (format!("({a}-{b})"), both(i128::checked_sub).filter(small)),
                2 => (format!("({a}*{b})"), both(i128::checked_mul).filter(small)),
                3 => (format!("trunc({a}/{b})"), both(i128::checked_div).filter(small)),
                4 => (format!("mod({a}, {b})"), both(i128::checked_rem).filter(small)),
                _ => (format!("(-{a})"), x.map(|x| -x)),
            }
        })
    })
}

/// Sums of products without brackets, with their value by splitting at signs.
fn flat() -> impl Strategy<Value = (String, i128)> {
    let product = prop::collection::vec(0_i128..100, 1..5);
    prop::collection::vec((any::<bool>(), product), 1..8).prop_map(|terms| {
        let mut text = "0".to_owned();
        let mut value = 0;
        for (minus, factors) in terms {
            let product: i128 = factors.iter().product();
            value += if minus { -product } else { product };
            text.push_str(if minus { " - " } else { "+" });
            text.push_str(&factors.iter().map(i128::to_string).collect::<Vec<_>>().join("*"));
        }
        (text, value)
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_text_does_harm(text in any::<String>()) {
        let _ = evaluate(&text);
    }

    #[test]
    fn no_expression_does_harm(pieces in prop::collection::vec(prop::sample::select(&[
        "1", "2", "0", "9", "0.1", ".", "e", "E", "-", "+", "*", "/", "%", "^", "**", "(", ")", ",", " ", "of", "mod",
        "pi", "sqrt(", "ln(", "log(", "exp(", "sin(", "tan(", "pow(", "round(", "min(", "79228162514264337593543950335",
        "0.0000000000000000000000000001", "1e28", "1e-28", "99999999999", "π", "×", "é",
    ][..]), 0..16)) {
        let _ = evaluate(&pieces.concat());
    }

    #[test]
    fn operations_on_extremes_do_no_harm(
        a in any::<[u8; 16]>(), b in any::<[u8; 16]>(),
        operator in prop::sample::select(&["+", "-", "*", "/", "^", " mod "][..]),
        function in prop::sample::select(functions_of_one()),
    ) {
        let number = |bytes: [u8; 16]| {
            let scale = u32::from(bytes[12]) % 29;
            let part = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            Decimal::from_parts(part(0), part(4), part(8) >> (bytes[13] % 33).min(31), bytes[14] > 127, scale)
        };
        let (a, b) = (number(a), number(b));
        let _ = evaluate(&format!("({a}){operator}({b})"));
        let _ = evaluate(&format!("{function}({a})"));
        let _ = evaluate(&format!("{a}{operator}{b}%"));
    }

    #[test]
    fn whole_numbers_agree_with_integers((text, value) in integers()) {
        match value {
            Some(value) => prop_assert_eq!(shown(&text), value.to_string(), "{}", text),
            None => { let _ = evaluate(&text); }
        }
    }

    #[test]
    fn precedence_is_that_of_paper((text, value) in flat()) {
        prop_assert_eq!(shown(&text), value.to_string(), "{}", text);
    }
}

fn functions_of_one() -> Vec<&'static str> {
    vec![
        "abs", "sign", "round", "floor", "ceil", "trunc", "sqrt", "cbrt", "exp", "ln", "log", "log2",
        "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sum", "avg",
    ]
}
