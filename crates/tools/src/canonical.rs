//! Canonical JSON: equal values give equal bytes, whatever the key order and whitespace.
//! Numbers are compared as written: 1, 1.0 and 1e0 differ, as they may for the tool that receives them.

use super::verbatim::Verbatim;

/// The canonical form of a JSON text; a text that is not JSON is only trimmed.
pub fn canonical_json(text: &str) -> Vec<u8> {
    match Verbatim::parse(text) {
        Some(json) => json.to_canonical(),
        None => text.trim().as_bytes().to_vec(),
    }
}

/// The canonical form of arguments; empty text, which models send for calls without arguments, counts as `{}`.
pub fn canonical_arguments(text: &str) -> Vec<u8> {
    canonical_json(if text.trim().is_empty() { "{}" } else { text })
}

/// What is left of arguments when a client reads and writes them again: whatever the spaces, the order of keys and the
/// escapes, and numbers as doubles. A text that is not JSON stays as it is.
pub fn arguments_read_again(text: &str) -> Vec<u8> {
    match Verbatim::parse(if text.trim().is_empty() { "{}" } else { text }) {
        Some(json) => json.to_canonical_doubles(),
        None => text.as_bytes().to_vec(),
    }
}

/// Whether two texts are the same arguments, perhaps read and written again by a client.
pub fn is_same_arguments(a: &str, b: &str) -> bool {
    a == b || arguments_read_again(a) == arguments_read_again(b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;
    use crate::call::Arguments;
    use crate::verbatim::any_json;

    #[test]
    fn the_same_arguments_are_recognised_in_any_order() {
        assert_eq!(
            canonical_json(r#"{ "b": [1, {"y":1,"x":2}], "a": 1 }"#),
            br#"{"a":1,"b":[1,{"x":2,"y":1}]}"#
        );
        assert_ne!(canonical_json(r#"{"a":1}"#), canonical_json(r#"{"a":2}"#));
        assert_eq!(canonical_json(" no json "), b"no json");
        assert_eq!(canonical_arguments(" "), canonical_arguments("{ }"));
    }

    #[test]
    fn arguments_that_a_client_has_read_and_written_again_are_the_same() {
        for (a, b) in [
            (r#"{"a":1.0,"b":[1e3,"\u00e9"]}"#, "{ \"b\": [1000, \"é\"], \"a\": 1 }"),
            (r#"{"id":12345678901234567890}"#, r#"{"id":12345678901234567000}"#),
            (r#"{"a":-0}"#, r#"{"a":0.0}"#),
            ("", "{}"),
            ("no json", "no json"),
        ] {
            assert!(is_same_arguments(a, b) && is_same_arguments(b, a), "{a} {b}");
        }
        for (a, b) in [
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":1e999}"#, r#"{"a":1e998}"#),
            ("[1,2]", "[2,1]"),
            ("no json", "no  json"),
            ("{}", "null"),
        ] {
            assert!(!is_same_arguments(a, b) && !is_same_arguments(b, a), "{a} {b}");
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_told_apart_digit_by_digit() {
        let of = |digits: &str| canonical_json(&format!("{{\"id\": {digits}}}"));
        assert_ne!(of("123456789012345678901234567890"), of("123456789012345678901234567891"));
        assert_ne!(of("0.1000000000000000055511151231257827"), of("0.1"));
        let same_to_some = ["1", "1.0", "1e0", "10e-1", "1.00"];
        for (i, a) in same_to_some.iter().enumerate() {
            assert!(same_to_some.iter().skip(i + 1).all(|b| of(a) != of(b)), "{a}");
        }
    }

    fn object() -> impl Strategy<Value = Arguments> {
        prop::collection::vec(("[a-c]{1,2}", any_json("[a-c\"\\\\]{0,2}")), 0..4)
            .prop_map(|pairs| pairs.into_iter().collect())
    }

    /// The same object with all keys the other way round.
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                Value::Object(object.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect())
            }
            Value::Array(values) => values.iter().map(reversed).collect(),
            plain => plain.clone(),
        }
    }

    fn written(object: &Map<String, Value>) -> Vec<u8> {
        canonical_json(&serde_json::to_string(object).unwrap())
    }

    proptest! {
        #[test]
        fn order_and_spaces_do_not_matter(object in object()) {
            let Value::Object(other) = reversed(&Value::Object(object.clone())) else { unreachable!() };
            prop_assert_eq!(written(&object), written(&other));
            let spaced = serde_json::to_string_pretty(&object).unwrap();
            prop_assert_eq!(written(&object), canonical_json(&spaced));
        }

        #[test]
        fn nothing_is_lost(a in object(), b in object()) {
            let back: Arguments = serde_json::from_slice(&written(&a)).unwrap();
            prop_assert_eq!(&back, &a);
            prop_assert_eq!(written(&a) == written(&b), a == b);
        }
    }
}
