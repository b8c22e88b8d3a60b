//! `provider_specific_fields`: where LiteLLM puts what its providers have beyond chat completions, such as Gemini's thought
//! signatures, and reads it from when the message comes back.
//!
//! Of a message it also has copies of the message's own fields, and fields without a value. An object with nothing else is
//! not kept; one with more is kept as it is.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::response::turn::ProviderFields;

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

/// Adds those of a later chunk: lists are extended by what they do not have, other values replaced.
pub(super) fn merge(fields: &mut ProviderFields, more: ProviderFields) {
    for (name, value) in more {
        match (fields.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => {
                for value in more {
                    if !list.contains(&value) {
                        list.push(value);
                    }
                }
            }
            (Some(known), value) if !known.is_null() && is_silent(&value) => {}
            (_, value) => {
                fields.insert(name, value);
            }
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
            merge(&mut fields, chunk);
        }
        assert_eq!(Value::Object(fields), json!({"thought_signatures": ["a", "b"], "n": 2, "m": null}));
    }
}
