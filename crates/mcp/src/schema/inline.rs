//! Replaces `$ref` by the referenced schema, except for recursive references.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::keywords::{KeywordKind, MAX_DEPTH, MAX_NODES, is_dropped, schemas_in, too_large};

/// Maximum number of distinct reference targets.
const MAX_REFERENCES: usize = 500;
/// Maximum length of a chain of references at the top level.
const MAX_REFERENCE_CHAIN: usize = 16;
/// Keywords that hold definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Annotation keywords: beside a `$ref` they override those of the referenced schema.
const ANNOTATIONS: [&str; 7] =
    ["description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Inlines references and drops keywords without meaning for providers. Recursive references stay; if the result would
/// be too large, all references stay.
pub(super) fn references(schema: &Value) -> Result<Map<String, Value>, String> {
    let targets = targets(schema)?;
    let recursive: BTreeSet<&str> = targets.keys().copied().filter(|to| is_cyclic(to, &targets)).collect();
    let all_recursive = recursive.len() == targets.len();
    match Inliner::new(schema, recursive).run() {
        Err(_) if !all_recursive => Inliner::new(schema, targets.into_keys().collect()).run(),
        result => result,
    }
}

/// Removes unreferenced definitions.
pub(super) fn drop_unused_definitions(schema: &mut Map<String, Value>) {
    let mut used = BTreeSet::new();
    let mut open: Vec<&Value> =
        schema.iter().filter(|(key, _)| !defines(key)).map(|(_, part)| part).collect();
    while let Some(part) = open.pop() {
        match part {
            Value::Array(list) => open.extend(list),
            Value::Object(map) => {
                open.extend(map.values());
                let to = map.get("$ref").and_then(Value::as_str).and_then(definition);
                let Some((key, name)) = to.filter(|place| !used.contains(place)) else { continue };
                open.extend(schema.get(key).and_then(|all| all.get(&name)));
                used.insert((key, name));
            }
            _ => {}
        }
    }
    for key in DEFINITIONS {
        let Some(Value::Object(all)) = schema.get_mut(key) else { continue };
        all.retain(|name, _| used.contains(&(key, name.clone())));
        if all.is_empty() {
            schema.shift_remove(key);
        }
    }
}

fn defines(key: &str) -> bool {
    DEFINITIONS.contains(&key)
}

/// All reference targets, each with the references in it.
fn targets(schema: &Value) -> Result<BTreeMap<&str, Vec<&str>>, String> {
    let mut targets = BTreeMap::new();
    let mut open = references_in(schema)?;
    while let Some(to) = open.pop() {
        if targets.contains_key(to) {
            continue;
        }
        if targets.len() == MAX_REFERENCES {
            return Err(too_large());
        }
        let nested = references_in(target(schema, to)?)?;
        open.extend(&nested);
        targets.insert(to, nested);
    }
    Ok(targets)
}

fn references_in(schema: &Value) -> Result<Vec<&str>, String> {
    let (mut found, mut open) = (Vec::new(), vec![schema]);
    while let Some(part) = open.pop() {
        let Value::Object(map) = part else { continue };
        match map.get("$ref") {
            Some(Value::String(to)) => found.push(to.as_str()),
            Some(_) => return Err("the schema of its arguments has a `$ref` that is not a string".to_owned()),
            None => {}
        }
        if map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef") {
            return Err(
                "the schema of its arguments has dynamic references, which are not supported".to_owned()
            );
        }
        open.extend(schemas_in(map));
    }
    Ok(found)
}

fn target<'a>(root: &'a Value, to: &str) -> Result<&'a Value, String> {
    let Some(pointer) = to.strip_prefix('#') else {
        return Err(
            "the schema of its arguments has a `$ref` to another document, which is not supported".to_owned()
        );
    };
    let pointer = percent_decode_str(pointer).decode_utf8().ok();
    let found = pointer.and_then(|pointer| root.pointer(&pointer));
    found.ok_or_else(|| {
        "the schema of its arguments has a `$ref` to a definition that does not exist".to_owned()
    })
}

fn is_cyclic(from: &str, targets: &BTreeMap<&str, Vec<&str>>) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = targets.get(from).into_iter().flatten().copied().collect();
    while let Some(to) = open.pop() {
        if to == from {
            return true;
        }
        if seen.insert(to) {
            open.extend(targets.get(to).into_iter().flatten());
        }
    }
    false
}

struct Inliner<'a> {
    root: &'a Value,
    /// References that are not inlined.
    stay: BTreeSet<&'a str>,
    /// Those of them that the result uses.
    used: BTreeSet<&'a str>,
    /// Names of new definitions, by references to locations that the result does not preserve.
    moved: BTreeMap<&'a str, String>,
    parts: usize,
    chain: usize,
}

impl<'a> Inliner<'a> {
    fn new(root: &'a Value, stay: BTreeSet<&'a str>) -> Self {
        Self { root, stay, used: BTreeSet::new(), moved: BTreeMap::new(), parts: 0, chain: 0 }
    }

    fn run(mut self) -> Result<Map<String, Value>, String> {
        let Value::Object(mut schema) = self.schema(self.root, 0)? else {
            return Err("the schema of its arguments is not a JSON object".to_owned());
        };
        self.definitions(&mut schema)?;
        Ok(schema)
    }

    /// Adds the definitions that the result refers to.
    fn definitions(&mut self, schema: &mut Map<String, Value>) -> Result<(), String> {
        let mut added = BTreeSet::new();
        while let Some(to) = self.used.difference(&added).next().copied() {
            added.insert(to);
            let (key, name) = match (self.moved.get(to), definition(to)) {
                (Some(name), _) => ("$defs", name.clone()),
                (None, Some(place)) => place,
                // The root schema.
                (None, None) => continue,
            };
            let body = self.schema(target(self.root, to)?, 1)?;
            let all = schema.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(all) = all {
                all.insert(name, body);
            }
        }
        Ok(())
    }

    /// The reference to use in the added. Only the root and definitions keep their location: the target of any other
    /// reference becomes a definition, because alternatives at the top are merged and old keywords are replaced.
    fn relocated_reference(&mut self, to: &'a str) -> String {
        self.used.insert(to);
        if to == "#" || definition(to).is_some() {
            return to.to_owned();
        }
        let name = match self.moved.get(to) {
            Some(name) => name.clone(),
            None => {
                let name = self.free_name(to);
                self.moved.insert(to, name.clone());
                name
            }
        };
        format!("#/$defs/{name}")
    }

    /// An unused definition name derived from the reference.
    fn free_name(&self, to: &str) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let base: String = to.trim_start_matches(['#', '/']).chars().map(word).collect();
        let defined = self.root.get("$defs").and_then(Value::as_object);
        let taken = |name: &String| {
            defined.is_some_and(|all| all.contains_key(name))
                || self.moved.values().any(|other| other == name)
        };
        let mut name = base.clone();
        let mut number = 1;
        while taken(&name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        name
    }

    fn schema(&mut self, part: &'a Value, depth: usize) -> Result<Value, String> {
        self.parts += 1;
        if self.parts > MAX_NODES || depth > MAX_DEPTH {
            return Err(too_large());
        }
        let Value::Object(map) = part else { return Ok(part.clone()) };
        let mut result = Map::new();
        for (key, value) in map {
            if key == "$ref" || depth == 0 && defines(key) || is_dropped(key) {
                continue;
            }
            result.insert(key.clone(), self.keyword_value(key, value, depth + 1)?);
        }
        upgrade_draft_keywords(&mut result);
        match map.get("$ref") {
            Some(Value::String(to)) => self.reference(to, result, depth),
            _ => Ok(Value::Object(result)),
        }
    }

    fn keyword_value(&mut self, key: &str, value: &'a Value, depth: usize) -> Result<Value, String> {
        match (KeywordKind::from_keyword(key, value), value) {
            (KeywordKind::Schema, inner) => self.schema(inner, depth),
            (KeywordKind::List, Value::Array(list)) => list
                .iter()
                .map(|inner| self.schema(inner, depth + 1))
                .collect::<Result<_, _>>()
                .map(Value::Array),
            (KeywordKind::Names, Value::Object(map)) => {
                let inner =
                    |(name, inner): (&String, &'a Value)| Ok((name.clone(), self.schema(inner, depth + 1)?));
                map.iter().map(inner).collect::<Result<_, _>>().map(Value::Object)
            }
            _ => {
                self.parts += count(value);
                Ok(value.clone())
            }
        }
    }

    /// Resolves a reference together with its sibling keywords.
    fn reference(
        &mut self,
        to: &'a str,
        mut siblings: Map<String, Value>,
        depth: usize,
    ) -> Result<Value, String> {
        // The top level must be an object, so its reference is always inlined.
        if depth == 0 {
            self.chain += 1;
            if self.chain > MAX_REFERENCE_CHAIN {
                return Err("the schema of its arguments is only a reference to itself".to_owned());
            }
        } else if self.stay.contains(to) {
            siblings.insert("$ref".to_owned(), self.relocated_reference(to).into());
            return Ok(Value::Object(siblings));
        }
        let deeper = if depth == 0 { 0 } else { depth + 1 };
        let resolved = self.schema(target(self.root, to)?, deeper)?;
        if siblings.is_empty() {
            return Ok(resolved);
        }
        match resolved {
            Value::Object(mut resolved) if !has_conflict(&resolved, &siblings) => {
                resolved.extend(siblings);
                Ok(Value::Object(resolved))
            }
            resolved => Ok(serde_json::json!({"allOf": [resolved, siblings]})),
        }
    }
}

fn has_conflict(resolved: &Map<String, Value>, siblings: &Map<String, Value>) -> bool {
    siblings.keys().any(|key| resolved.contains_key(key) && !ANNOTATIONS.contains(&key.as_str()))
}

/// The definition that a reference names; `None` for locations inside a definition.
fn definition(to: &str) -> Option<(&'static str, String)> {
    let pointer = percent_decode_str(to.strip_prefix("#/")?).decode_utf8().ok()?;
    let (section, name) = pointer.split_once('/')?;
    let key = DEFINITIONS.into_iter().find(|key| *key == section)?;
    (!name.contains('/')).then(|| (key, name.replace("~1", "/").replace("~0", "~")))
}

/// Rewrites draft-4 and draft-7 keywords for arrays and limits: without `$schema`, which is dropped, they would be
/// read as those of the current draft.
fn upgrade_draft_keywords(schema: &mut Map<String, Value>) {
    if schema.get("items").is_some_and(Value::is_array)
        && let Some(items) = schema.shift_remove("items")
    {
        schema.insert("prefixItems".to_owned(), items);
        if let Some(further) = schema.shift_remove("additionalItems") {
            schema.insert("items".to_owned(), further);
        }
    }
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let Some(Value::Bool(excludes)) = schema.get(exclusive).cloned() else { continue };
        schema.shift_remove(exclusive);
        if excludes && let Some(number) = schema.shift_remove(limit) {
            schema.insert(exclusive.to_owned(), number);
        }
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
        _ => 1,
    }
}
