//! Arguments of the script's calls: what a schema requires, with values from the question where it has them. What is optional
//! and not in the question is left out, as by a model that knows the tool's defaults.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use serde_json::{Map, Value, json};

use super::words::{calculation, named_after, words};

/// Names of arguments that are a place.
const PLACES: [&str; 5] = ["city", "location", "place", "town", "to"];
/// Schemas within schemas are followed to this depth.
const MAX_DEPTH: usize = 8;

/// Arguments for a tool.
pub(super) fn of(schema: &Value, prompt: &str) -> Value {
    object(schema, prompt, false, 0)
}

/// An object with everything that a schema has.
pub(super) fn all_of(schema: &Value, prompt: &str) -> Value {
    object(schema, prompt, true, 0)
}

fn object(schema: &Value, prompt: &str, whole: bool, depth: usize) -> Value {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let value = |(name, property): (&String, &Value)| {
        let needed = whole || required.iter().any(|other| other == name.as_str());
        let value = asked_for(name, property, prompt)
            .or_else(|| needed.then(|| sensible(name, property, prompt, whole, depth)))?;
        Some((name.clone(), value))
    };
    properties.filter_map(value).collect::<Map<_, _>>().into()
}

/// A value that the question has.
fn asked_for(name: &str, property: &Value, prompt: &str) -> Option<Value> {
    let asked = words(prompt);
    if let Some(options) = property["enum"].as_array() {
        let is_said = |option: &&Value| {
            option.as_str().is_some_and(|text| asked.iter().any(|word| *word == text.to_lowercase()))
        };
        return options.iter().find(is_said).cloned();
    }
    let found = match name {
        "from" | "origin" => named_after(prompt, "from"),
        "to" | "destination" => named_after(prompt, "to"),
        "expression" => calculation(prompt),
        _ if PLACES.contains(&name) => {
            ["in", "of", "at", "for"].iter().find_map(|word| named_after(prompt, word))
        }
        _ => None,
    };
    found.map(Value::String)
}

/// A value that the schema allows: its own proposal, else one by its type.
fn sensible(name: &str, property: &Value, prompt: &str, whole: bool, depth: usize) -> Value {
    for proposal in [&property["const"], &property["default"], &property["enum"][0], &property["examples"][0]]
    {
        if !proposal.is_null() {
            return proposal.clone();
        }
    }
    if depth >= MAX_DEPTH {
        return Value::Null;
    }
    if let Some(variant) = property["anyOf"].get(0).or_else(|| property["oneOf"].get(0)) {
        return sensible(name, variant, prompt, whole, depth + 1);
    }
    let kind = match &property["type"] {
        Value::Array(kinds) if kinds.iter().any(|kind| kind == "null") => return Value::Null,
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("integer" | "number") => match &property["minimum"] {
            minimum @ Value::Number(_) => minimum.clone(),
            _ => json!(1),
        },
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some("array") if whole || property["minItems"].as_u64().is_some_and(|least| least > 0) => {
            json!([sensible(name, &property["items"], prompt, whole, depth + 1)])
        }
        Some("array") => json!([]),
        Some("object") => object(property, prompt, whole, depth + 1),
        _ => json!(text(name, property, prompt)),
    }
}

fn text(name: &str, property: &Value, prompt: &str) -> String {
    let known = match (property["format"].as_str(), name) {
        (Some("date"), _) => Some("2026-12-24"),
        (Some("date-time"), _) => Some("2026-12-24T18:00:00Z"),
        (Some("email"), _) => Some("ada@example.com"),
        (Some("uri"), _) => Some("https://example.com/"),
        (_, "timezone") => Some("UTC"),
        (_, "from" | "origin") => Some("Bergen"),
        (_, "destination") => Some("Oslo"),
        (_, "expression") => Some("6 * 7"),
        _ => PLACES.contains(&name).then_some("Oslo"),
    };
    // Any other text is what the user has said: what to look for, to remember, to translate.
    let text = known.unwrap_or(prompt);
    let most =
        property["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    text.chars().take(most).collect()
}
