//! The keywords of JSON Schema, and the limits of a schema that is rewritten.

use serde_json::{Map, Value};

/// Maximum depth of a schema, including inlined references.
pub(super) const MAX_DEPTH: usize = 100;

/// Maximum number of nodes of a schema, including inlined references.
pub(super) const MAX_NODES: usize = 10_000;

pub(super) fn too_large() -> String {
    "the schema of its arguments is too large or too deeply nested".to_owned()
}

/// The kind of value that a keyword takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordKind {
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
    pub(super) fn from_keyword(key: &str, value: &Value) -> Self {
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
pub(super) fn is_dropped(key: &str) -> bool {
    matches!(
        key,
        "$schema" | "$id" | "$comment" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary"
    ) || key.starts_with("x-")
}

/// The direct subschemas of a schema.
pub(super) fn schemas_in(map: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    map.iter().flat_map(|(key, value)| -> Box<dyn Iterator<Item = &Value>> {
        match (KeywordKind::from_keyword(key, value), value) {
            (KeywordKind::Schema, inner) => Box::new(std::iter::once(inner)),
            (KeywordKind::List, Value::Array(list)) => Box::new(list.iter()),
            (KeywordKind::Names, Value::Object(map)) => Box::new(map.values()),
            _ => Box::new(std::iter::empty()),
        }
    })
}
