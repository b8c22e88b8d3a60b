//! Rewrites the schemas of MCP tools for strict providers.
//!
//! Those require an object at the top level, no references and only known keywords. A schema that cannot be rewritten
//! without changing the meaning of the tool is an error; losing precision is fine, since the server validates its
//! arguments itself.

mod inline;
mod keywords;
mod merge;
#[cfg(test)]
mod tests;

use serde_json::Value;

use antwort_protocol::schema::CompiledSchema;
use keywords::{MAX_DEPTH, MAX_NODES, too_large};

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
