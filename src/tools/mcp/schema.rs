//! A server's schema of a tool's arguments, as strict providers take it.
//!
//! They want one object at the top, no references, and no words that they do not know. What cannot be had without
//! losing the tool's meaning is an error; what is only less exact is not, for the server checks its arguments itself.

mod inline;
mod merge;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::protocol::schema::CompiledSchema;

/// How deep a schema may be, references followed.
const MAX_DEPTH: usize = 100;
/// Parts of a schema: sections, lists and values, references followed.
const MAX_NODES: usize = 10_000;

/// Makes a schema of arguments one that providers take.
///
/// # Errors
/// In words for the operator: why the tool cannot be offered.
pub(crate) fn normalise(schema: &Value) -> Result<Value, String> {
    if !schema.is_object() {
        return Err("the schema of its arguments is no object".to_owned());
    }
    bounded(schema)?;
    let inlined = inline::references(schema)?;
    let mut schema = merge::top(inlined)?;
    // What was merged away may have been all that referred to a definition.
    inline::drop_unused_definitions(&mut schema);
    let schema = Value::Object(schema);
    match CompiledSchema::check_definition(&schema) {
        Ok(()) => Ok(schema),
        Err(problem) => Err(format!("the schema of its arguments is no JSON Schema: {problem}")),
    }
}

fn too_large() -> String {
    "the schema of its arguments is too large or too deep".to_owned()
}

/// Refuses what is too large or too deep as it stands.
fn bounded(schema: &Value) -> Result<(), String> {
    let mut parts = 0;
    let mut open = vec![(schema, 0)];
    while let Some((value, depth)) = open.pop() {
        parts += 1;
        if parts > MAX_NODES || depth > MAX_DEPTH {
            return Err(too_large());
        }
        match value {
            Value::Array(list) => open.extend(list.iter().map(|inner| (inner, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|inner| (inner, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// What stands behind a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeywordKind {
    /// A schema.
    Schema,
    /// A list of schemas.
    List,
    /// Schemas by name.
    Names,
    /// Values, in which no word means anything.
    Data,
}

impl KeywordKind {
    fn from_keyword(key: &str, value: &Value) -> Self {
        match (key, value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(_),
            ) => Self::Names,
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(_)) => Self::List,
            (
                "items"
                | "additionalProperties"
                | "additionalItems"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedProperties"
                | "unevaluatedItems",
                Value::Object(_) | Value::Bool(_),
            ) => Self::Schema,
            _ => Self::Data,
        }
    }
}

/// Whether a keyword says nothing about values, or nothing that providers know.
fn is_dropped(key: &str) -> bool {
    matches!(
        key,
        "$schema" | "$id" | "$comment" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary"
    ) || key.starts_with("x-")
}

/// The schemas in a section of a schema.
fn schemas_in(map: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    map.iter().flat_map(|(key, value)| -> Box<dyn Iterator<Item = &Value>> {
        match (KeywordKind::from_keyword(key, value), value) {
            (KeywordKind::Schema, inner) => Box::new(std::iter::once(inner)),
            (KeywordKind::List, Value::Array(list)) => Box::new(list.iter()),
            (KeywordKind::Names, Value::Object(map)) => Box::new(map.values()),
            _ => Box::new(std::iter::empty()),
        }
    })
}
