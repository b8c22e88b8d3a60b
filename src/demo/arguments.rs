//! JSON that fits a schema: arguments of the script's calls, and structured answers. Values come from the question where it has
//! them. What is optional in arguments and not in the question is left out, as by a model that knows the tool's defaults.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::words::{calculation, named_after, words};

/// Names of arguments that are a place.
const PLACES: [&str; 5] = ["city", "location", "place", "town", "to"];
/// Schemas within schemas are followed to this depth.
const MAX_DEPTH: usize = 8;
/// References of references are followed so often.
const MAX_REFERENCES: usize = 4;
/// Items of a list, however many a schema asks for.
const MAX_ITEMS: u64 = 16;

/// Arguments for a tool.
pub(super) fn of(schema: &Value, prompt: &str) -> Value {
    Filler { root: schema, prompt, text: prompt, is_whole: false }.object(schema, 0)
}

/// An answer with everything that a schema has, and this text where it asks for one.
pub(super) fn answer(schema: &Value, prompt: &str, text: &str) -> Value {
    Filler { root: schema, prompt, text, is_whole: true }.sensible("answer", schema, 0)
}

struct Filler<'a> {
    /// Has the definitions that others refer to.
    root: &'a Value,
    prompt: &'a str,
    /// For texts about which nothing else is known: what to look for, to remember, to translate.
    text: &'a str,
    /// Whether optional properties are filled, too.
    is_whole: bool,
}

impl Filler<'_> {
    fn object(&self, schema: &Value, depth: usize) -> Value {
        let schema = self.resolved(schema);
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let value = |(name, property): (&String, &Value)| {
            let property = self.resolved(property);
            let needed = self.is_whole || required.iter().any(|other| other == name.as_str());
            let value = self
                .asked_for(name, &property)
                .or_else(|| needed.then(|| self.sensible(name, &property, depth)))?;
            Some((name.clone(), value))
        };
        properties.filter_map(value).collect::<Map<_, _>>().into()
    }

    /// A schema, with what it refers to in its place, and all parts of `allOf` in one.
    fn resolved<'a>(&self, schema: &'a Value) -> Cow<'a, Value> {
        self.resolved_within(schema, MAX_REFERENCES)
    }

    /// It may refer to itself: references are followed so many times.
    fn resolved_within<'a>(&self, schema: &'a Value, most: usize) -> Cow<'a, Value> {
        let mut schema = Cow::Borrowed(schema);
        for left in (0..most).rev() {
            if let Some(path) = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
                schema = Cow::Owned(self.root.pointer(path).cloned().unwrap_or_default());
            } else if let Some(parts) = schema["allOf"].as_array().cloned() {
                let mut merged = schema.into_owned();
                merged.as_object_mut().map(|fields| fields.remove("allOf"));
                for part in parts.into_iter().take(MAX_DEPTH) {
                    merge(&mut merged, self.resolved_within(&part, left).into_owned());
                }
                schema = Cow::Owned(merged);
            } else {
                break;
            }
        }
        schema
    }

    /// A value that the question has.
    fn asked_for(&self, name: &str, property: &Value) -> Option<Value> {
        let asked = words(self.prompt);
        if let Some(options) = property["enum"].as_array() {
            let is_said = |option: &&Value| {
                option.as_str().is_some_and(|text| asked.iter().any(|word| *word == text.to_lowercase()))
            };
            return options.iter().find(is_said).cloned();
        }
        let is_text = match &property["type"] {
            Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
            kind => kind.is_null() && property["anyOf"].is_null() || kind == "string",
        };
        if !is_text {
            return None;
        }
        let found = match name {
            "from" | "origin" => named_after(self.prompt, "from"),
            "to" | "destination" => named_after(self.prompt, "to"),
            "expression" => calculation(self.prompt),
            _ if PLACES.contains(&name) => {
                ["in", "of", "at", "for"].iter().find_map(|word| named_after(self.prompt, word))
            }
            _ => None,
        };
        found.map(Value::String)
    }

    /// A value that the schema allows: its own proposal, else one by its type.
    fn sensible(&self, name: &str, property: &Value, depth: usize) -> Value {
        let property = &*self.resolved(property);
        for proposal in
            [&property["const"], &property["default"], &property["enum"][0], &property["examples"][0]]
        {
            if !proposal.is_null() {
                return proposal.clone();
            }
        }
        if depth >= MAX_DEPTH {
            return Value::Null;
        }
        if let Some(variant) = property["anyOf"].get(0).or_else(|| property["oneOf"].get(0)) {
            return self.sensible(name, variant, depth + 1);
        }
        let kind = match &property["type"] {
            Value::Array(kinds) if kinds.iter().any(|kind| kind == "null") => return Value::Null,
            Value::Array(kinds) => kinds.first().and_then(Value::as_str),
            Value::Null if property["properties"].is_object() => Some("object"),
            kind => kind.as_str(),
        };
        match kind {
            Some("integer" | "number") => number(property),
            Some("boolean") => json!(true),
            Some("null") => Value::Null,
            Some("array") => {
                let least = property["minItems"].as_u64().unwrap_or(u64::from(self.is_whole));
                let item = |_| self.sensible(name, &property["items"], depth + 1);
                (0..least.min(MAX_ITEMS)).map(item).collect()
            }
            Some("object") => self.object(property, depth + 1),
            _ => json!(self.text(name, property)),
        }
    }

    fn text(&self, name: &str, property: &Value) -> String {
        let known = match (property["format"].as_str(), name) {
            (Some("date"), _) | (_, "date" | "day") => "2026-12-24",
            (Some("date-time"), _) => "2026-12-24T18:00:00Z",
            (Some("time"), _) => "18:00:00",
            (Some("email"), _) | (_, "email") => "ada@example.com",
            (Some("uri"), _) | (_, "url") => "https://example.com/",
            (Some("uuid"), _) => "6f1b2c9e-6d4a-4c1e-9a51-0d3f6a7b8c9d",
            (_, "timezone") => "UTC",
            (_, "from" | "origin") => "Bergen",
            (_, "destination") => "Oslo",
            (_, "expression") => "6 * 7",
            (_, "name" | "participants" | "people" | "author") => "Ada",
            (_, "item" | "items" | "tags") => "tea",
            _ if PLACES.contains(&name) => "Oslo",
            _ => self.text,
        };
        let most = property["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok());
        known.chars().take(most.unwrap_or(usize::MAX)).collect()
    }
}

/// The least number that is allowed, or 1.
fn number(property: &Value) -> Value {
    if property["minimum"].is_number() {
        return property["minimum"].clone();
    }
    let above = property["exclusiveMinimum"].as_f64().map(|least| least.floor() + 1.0);
    let most = property["maximum"].as_f64().unwrap_or(f64::MAX);
    let value = above.unwrap_or(1.0).min(most);
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

/// Adds a part of an `allOf`: properties and required names of both, and of everything else what comes first.
fn merge(into: &mut Value, part: Value) {
    let (Some(fields), Value::Object(part)) = (into.as_object_mut(), part) else { return };
    for (name, value) in part {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => known.extend(more),
            (Some(Value::Array(known)), Value::Array(more)) if name == "required" => known.extend(more),
            (Some(_), _) => {}
            (None, value) => _ = fields.insert(name, value),
        }
    }
}
