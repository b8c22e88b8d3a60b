//! `provider_specific_fields`: where LiteLLM puts what its providers have beyond chat completions, such as Gemini's thought
//! signatures, and reads it from when the message comes back.
//!
//! Of a message it also has copies of the message's own fields, and fields without a value. An object with nothing else is
//! not kept; one with more is kept as it is.

use serde_json::Value;
use serde_json::value::RawValue;

use antwort_response::turn::ProviderFields;

/// The name of the field.
pub(super) const SPECIFIC: &str = "provider_specific_fields";

/// Fields of a message that are repeated in it.
const COPIES: &[&str] = &[
    "refusal",
    "reasoning_content",
    "reasoning",
    "thinking",
    "thinking_blocks",
    "reasoning_details",
    "annotations",
];

/// Maximum elements of a list of which each is looked for in another.
const MAX_COMPARED: usize = 256;

/// Those of a message, if they say something that the message does not.
pub(super) fn of_message(raw: &RawValue) -> Option<ProviderFields> {
    let fields: ProviderFields = serde_json::from_str(raw.get()).ok()?;
    let says_more = |(name, value): (&String, &Value)| !COPIES.contains(&name.as_str()) && !is_silent(value);
    fields.iter().any(says_more).then_some(fields)
}

/// Whether a value says nothing.
pub(super) fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.values().all(is_silent),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Adds those of a later chunk: lists are extended by what they do not have, other values replaced. Tells whether that has
/// changed anything.
pub(super) fn merge(fields: &mut ProviderFields, more: ProviderFields) -> bool {
    let mut has_changed = false;
    for (name, value) in more {
        match (fields.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => {
                let before = list.len();
                extend(list, more);
                has_changed |= list.len() > before;
            }
            (Some(known), value) if !known.is_null() && is_silent(&value) || *known == value => {}
            (_, value) => {
                fields.insert(name, value);
                has_changed = true;
            }
        }
    }
    has_changed
}

/// Adds the elements that a list did not have. Long lists are not compared: that takes the product of their lengths.
fn extend(list: &mut Vec<Value>, more: Vec<Value>) {
    let known = list.len();
    let compares = known <= MAX_COMPARED && more.len() <= MAX_COMPARED;
    for value in more {
        if !compares || !list.iter().take(known).any(|have| *have == value) {
            list.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Option<ProviderFields> {
        of_message(&serde_json::value::to_raw_value(value).unwrap())
    }

    #[test]
    fn what_the_message_says_itself_is_not_kept() {
        for silent in [
            json!(null),
            json!("text"),
            json!({}),
            json!({"refusal": null}),
            json!({"reasoning_content": "Hm.", "refusal": null, "citations": [], "x": {"y": null}}),
        ] {
            assert_eq!(read(&silent), None, "{silent}");
        }
        let signed = json!({"refusal": null, "thought_signatures": ["s"]});
        assert_eq!(read(&signed).map(Value::Object), Some(signed));
    }

    #[test]
    fn chunks_are_joined() {
        let mut fields = ProviderFields::new();
        for chunk in [
            json!({"thought_signatures": ["a"], "n": 1}),
            json!({"thought_signatures": ["a", "b"], "n": 2}),
            json!({"thought_signatures": null, "n": 2, "m": null}),
        ] {
            let Value::Object(chunk) = chunk else { unreachable!() };
            assert!(merge(&mut fields, chunk.clone()));
            assert!(!merge(&mut fields, chunk), "the same again changes nothing");
        }
        assert_eq!(Value::Object(fields), json!({"thought_signatures": ["a", "b"], "n": 2, "m": null}));
    }

    #[test]
    fn long_lists_are_not_compared() {
        let list = |length: usize| ProviderFields::from_iter([("l".to_owned(), vec![0_u8; length].into())]);
        for (known, more, joined) in [(256, 256, 256), (257, 1, 258), (1, 257, 258), (1, 1, 1)] {
            let mut fields = list(known);
            merge(&mut fields, list(more));
            assert_eq!(fields, list(joined), "{known} + {more}");
        }
    }
}
