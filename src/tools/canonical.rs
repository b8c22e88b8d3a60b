//! JSON in one form: the same value is the same bytes, in whatever order and with whatever spaces it was written.

use serde_json::Value;

use super::call::Arguments;

/// The one form of a JSON text; a text that is no JSON stands for itself, but for spaces around it.
pub fn canonical(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    match serde_json::from_str(text) {
        Ok(value) => write(&value, &mut out),
        Err(_) => out.extend_from_slice(text.trim().as_bytes()),
    }
    out
}

/// Appends an object with its keys in order.
pub(super) fn write_object(object: &Arguments, out: &mut Vec<u8>) {
    let mut keys: Vec<_> = object.iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    out.push(b'{');
    for (i, (key, value)) in keys.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_plain(key, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => write_object(object, out),
        Value::Array(values) => {
            out.push(b'[');
            for (i, value) in values.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(value, out);
            }
            out.push(b']');
        }
        plain => write_plain(plain, out),
    }
}

fn write_plain(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    // Writing a plain value to memory cannot fail.
    _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    #[test]
    fn the_same_arguments_are_recognised_in_any_order() {
        assert_eq!(canonical(r#"{ "b": [1, {"y":1,"x":2}], "a": 1 }"#), br#"{"a":1,"b":[1,{"x":2,"y":1}]}"#);
        assert_ne!(canonical(r#"{"a":1}"#), canonical(r#"{"a":2}"#));
        assert_eq!(canonical(" no json "), b"no json");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\\\\]{0,2}", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Arguments> {
        prop::collection::vec(("[a-c]{1,2}", value()), 0..4).prop_map(|pairs| pairs.into_iter().collect())
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
        let mut out = Vec::new();
        write_object(object, &mut out);
        out
    }

    proptest! {
        #[test]
        fn order_and_spaces_do_not_matter(object in object()) {
            let Value::Object(other) = reversed(&Value::Object(object.clone())) else { unreachable!() };
            prop_assert_eq!(written(&object), written(&other));
            let spaced = serde_json::to_string_pretty(&object).unwrap();
            prop_assert_eq!(written(&object), written(&serde_json::from_str(&spaced).unwrap()));
        }

        #[test]
        fn nothing_is_lost(a in object(), b in object()) {
            let back: Arguments = serde_json::from_slice(&written(&a)).unwrap();
            prop_assert_eq!(&back, &a);
            prop_assert_eq!(written(&a) == written(&b), a == b);
        }
    }
}
