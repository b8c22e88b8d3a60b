//! Merges `anyOf`, `oneOf` and `allOf` at the top level into one object schema, the union of their properties.

use serde_json::{Map, Value, json};

/// Keywords that providers refuse at the top level.
const FORBIDDEN_AT_ROOT: [&str; 7] = ["not", "if", "then", "else", "enum", "const", "unevaluatedProperties"];
/// Maximum nesting of combinators.
const MAX_DEPTH: usize = 8;

/// Turns the schema into an object schema with properties.
pub(super) fn into_object_schema(schema: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut schema = merged(schema, 0)?;
    schema.insert("type".to_owned(), "object".into());
    for word in FORBIDDEN_AT_ROOT {
        schema.shift_remove(word);
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    Ok(schema)
}

fn merged(mut schema: Map<String, Value>, depth: usize) -> Result<Map<String, Value>, String> {
    is_object(&schema)?;
    if depth > MAX_DEPTH {
        return Err(super::keywords::too_large());
    }
    if let Some(Value::Array(all)) = schema.shift_remove("allOf") {
        for part in all {
            let part = branch_schema(part, depth)?.unwrap_or_default();
            intersect(&mut schema, part);
        }
    }
    for key in ["anyOf", "oneOf"] {
        let Some(Value::Array(any)) = schema.shift_remove(key) else { continue };
        let mut branches = Vec::new();
        for part in any {
            branches.extend(branch_schema(part, depth)?);
        }
        if let Some(one) = union(branches) {
            intersect(&mut schema, one);
        }
    }
    Ok(schema)
}

/// One branch of a combinator; `None` for `null`, which arguments never are.
fn branch_schema(part: Value, depth: usize) -> Result<Option<Map<String, Value>>, String> {
    match part {
        Value::Bool(true) => Ok(Some(Map::new())),
        Value::Object(part) if part.contains_key("$ref") => {
            Err("the schema of its arguments combines recursive references, which is not supported"
                .to_owned())
        }
        Value::Object(part) if part.get("type").is_some_and(|kind| kind == "null") => Ok(None),
        Value::Object(part) => merged(part, depth + 1).map(Some),
        _ => Err("the schema of its arguments combines schemas that are not objects".to_owned()),
    }
}

fn is_object(schema: &Map<String, Value>) -> Result<(), String> {
    let fits = match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    };
    if !fits {
        return Err("the schema of its arguments does not have the type `object`".to_owned());
    }
    match schema.get("properties") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => Err("the schema of its arguments has `properties` that are not an object".to_owned()),
    }
}

/// The union of alternatives: every property of any branch; required only if all branches require it.
fn union(branches: Vec<Map<String, Value>>) -> Option<Map<String, Value>> {
    let closed =
        branches.iter().all(|branch| branch.get("additionalProperties") == Some(&Value::Bool(false)));
    let mut branches = branches.into_iter();
    let mut one = branches.next()?;
    let mut required = string_list(&one, "required");
    for mut other in branches {
        let theirs = string_list(&other, "required");
        required.retain(|name| theirs.contains(name));
        add_properties(&mut one, take_properties(&mut other), "anyOf");
    }
    let mut result = Map::new();
    result.insert("properties".to_owned(), take_properties(&mut one).into());
    if !required.is_empty() {
        result.insert("required".to_owned(), required.into());
    }
    if closed {
        result.insert("additionalProperties".to_owned(), false.into());
    }
    Some(result)
}

/// The intersection with another schema (`allOf`).
fn intersect(schema: &mut Map<String, Value>, mut other: Map<String, Value>) {
    let more = take_properties(&mut other);
    // `additionalProperties: false` of one part would forbid the properties of the others.
    let closed = |schema: &Map<String, Value>, all: &dyn Fn(&str) -> bool, names: &Map<String, Value>| {
        schema.contains_key("additionalProperties") && names.keys().all(|name| all(name))
    };
    let before = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let keeps_closed = closed(schema, &|name| before.contains_key(name), &more);
    let adds_closed = closed(&other, &|name| more.contains_key(name), &before);
    if !keeps_closed {
        schema.shift_remove("additionalProperties");
    }
    if adds_closed
        && !keeps_closed
        && let Some(rest) = other.shift_remove("additionalProperties")
    {
        schema.insert("additionalProperties".to_owned(), rest);
    }
    add_properties(schema, more, "allOf");
    let mut required = string_list(schema, "required");
    for name in string_list(&other, "required") {
        if !required.contains(&name) {
            required.push(name);
        }
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    for word in ["title", "description"] {
        if let (false, Some(text)) = (schema.contains_key(word), other.shift_remove(word)) {
            schema.insert(word.to_owned(), text);
        }
    }
}

/// Adds properties; conflicting ones are combined by the keyword `how`.
fn add_properties(schema: &mut Map<String, Value>, more: Map<String, Value>, combinator: &str) {
    if more.is_empty() {
        return;
    }
    let all = schema.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(all) = all else { return };
    for (name, property) in more {
        match all.get_mut(&name) {
            None => {
                all.insert(name, property);
            }
            Some(known) if *known == property => {}
            Some(known) => join(known, property, combinator),
        }
    }
}

fn join(known: &mut Value, property: Value, combinator: &str) {
    // Extends a list created here. One of the schema's own has sibling keywords, or means the same.
    if let Value::Object(map) = known
        && map.len() == 1
        && let Some(Value::Array(list)) = map.get_mut(combinator)
    {
        if !list.contains(&property) {
            list.push(property);
        }
        return;
    }
    let first = known.take();
    *known = json!({combinator: [first, property]});
}

fn take_properties(schema: &mut Map<String, Value>) -> Map<String, Value> {
    match schema.shift_remove("properties") {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn string_list(schema: &Map<String, Value>, key: &str) -> Vec<String> {
    let list = schema.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
