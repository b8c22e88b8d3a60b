//! Rewrites the schemas of MCP tools for strict providers.
//!
//! Those require an object at the top level, no references and only known keywords. A schema that cannot be rewritten
//! without changing the meaning of the tool is an error; losing precision is fine, since the server validates its
//! arguments itself.

mod inline;
mod merge;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::protocol::schema::CompiledSchema;

/// Maximum depth of a schema, including inlined references.
const MAX_DEPTH: usize = 100;
/// Maximum number of nodes of a schema, including inlined references.
const MAX_NODES: usize = 10_000;

/// Rewrites a schema of arguments.
///
/// # Errors
/// Why the tool cannot be offered, for the operator.
pub(crate) fn normalize(schema: &Value) -> Result<Value, String> {
    if !schema.is_object() {
        return Err("the schema of its arguments is not a JSON object".to_owned());
    }
    bounded(schema)?;
    let inlined = inline::references(schema)?;
    let mut schema = merge::into_object_schema(inlined)?;
    // Merging may have removed the last reference to a definition.
    inline::drop_unused_definitions(&mut schema);
    let schema = Value::Object(schema);
    match CompiledSchema::check_definition(&schema) {
        Ok(()) => Ok(schema),
        Err(problem) => Err(format!("the schema of its arguments is not a valid JSON Schema: {problem}")),
    }
}

fn too_large() -> String {
    "the schema of its arguments is too large or too deeply nested".to_owned()
}

/// Rejects input that is too large or too deep before any rewriting.
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

/// The kind of value that a keyword takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeywordKind {
    /// A schema.
    Schema,
    /// An array of schemas.
    List,
    /// Schemas by name.
    Names,
    /// Plain values without keywords.
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

/// Whether a keyword is irrelevant for validation or unknown to providers.
fn is_dropped(key: &str) -> bool {
    matches!(
        key,
        "$schema" | "$id" | "$comment" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary"
    ) || key.starts_with("x-")
}

/// The direct subschemas of a schema.
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
