//! References are replaced by what they lead to, where that has an end.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{KeywordKind, MAX_DEPTH, MAX_NODES, is_dropped, schemas_in, too_large};

/// Places that references lead to.
const MAX_REFERENCES: usize = 500;
/// References of the whole schema to the next.
const MAX_REFERENCE_CHAIN: usize = 16;
/// The sections of definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Words that only describe: those beside a reference count instead of those behind it.
const ANNOTATIONS: [&str; 7] =
    ["description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Replaces references and leaves out words that mean nothing. References that lead back to where they are stay, and
/// so do all of them where the result would be too large.
pub(super) fn references(schema: &Value) -> Result<Map<String, Value>, String> {
    let targets = targets(schema)?;
    let back: BTreeSet<&str> = targets.keys().copied().filter(|to| leads_back(to, &targets)).collect();
    let all_stay = back.len() == targets.len();
    match Inliner::new(schema, back).run() {
        Err(_) if !all_stay => Inliner::new(schema, targets.into_keys().collect()).run(),
        done => done,
    }
}

/// Removes definitions that nothing refers to.
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

/// All references, each with those that are behind it.
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
        let behind = references_in(target(schema, to)?)?;
        open.extend(&behind);
        targets.insert(to, behind);
    }
    Ok(targets)
}

fn references_in(schema: &Value) -> Result<Vec<&str>, String> {
    let (mut found, mut open) = (Vec::new(), vec![schema]);
    while let Some(part) = open.pop() {
        let Value::Object(map) = part else { continue };
        match map.get("$ref") {
            Some(Value::String(to)) => found.push(to.as_str()),
            Some(_) => return Err("the schema of its arguments has a reference that is no text".to_owned()),
            None => {}
        }
        if map.contains_key("$dynamicRef") || map.contains_key("$recursiveRef") {
            return Err("the schema of its arguments has references that depend on where they are".to_owned());
        }
        open.extend(schemas_in(map));
    }
    Ok(found)
}

fn target<'a>(root: &'a Value, to: &str) -> Result<&'a Value, String> {
    let Some(pointer) = to.strip_prefix('#') else {
        return Err("the schema of its arguments refers to another document".to_owned());
    };
    let pointer = percent_decode_str(pointer).decode_utf8().ok();
    let found = pointer.and_then(|pointer| root.pointer(&pointer));
    found.ok_or_else(|| "the schema of its arguments refers to something that is not in it".to_owned())
}

fn leads_back(from: &str, targets: &BTreeMap<&str, Vec<&str>>) -> bool {
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
    /// References that are not replaced.
    stay: BTreeSet<&'a str>,
    /// Those of them that are in the result.
    used: BTreeSet<&'a str>,
    /// New definitions, by the references to places that will not be in the result as they are here.
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
            return Err("the schema of its arguments is no object".to_owned());
        };
        self.definitions(&mut schema)?;
        Ok(schema)
    }

    /// Adds the definitions that references of the result lead to.
    fn definitions(&mut self, schema: &mut Map<String, Value>) -> Result<(), String> {
        let mut done = BTreeSet::new();
        while let Some(to) = self.used.difference(&done).next().copied() {
            done.insert(to);
            let (key, name) = match (self.moved.get(to), definition(to)) {
                (Some(name), _) => ("$defs", name.clone()),
                (None, Some(place)) => place,
                // The top itself.
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

    /// A reference of the result. Only the top and the definitions stay where they are: what a reference to any other
    /// place leads to becomes a definition, as alternatives at the top are merged and older words are replaced.
    fn staying(&mut self, to: &'a str) -> String {
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

    /// A name that no definition has, made of the place.
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
            result.insert(key.clone(), self.behind(key, value, depth + 1)?);
        }
        modernise(&mut result);
        match map.get("$ref") {
            Some(Value::String(to)) => self.reference(to, result, depth),
            _ => Ok(Value::Object(result)),
        }
    }

    fn behind(&mut self, key: &str, value: &'a Value, depth: usize) -> Result<Value, String> {
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

    /// A reference with what stands beside it.
    fn reference(
        &mut self,
        to: &'a str,
        mut beside: Map<String, Value>,
        depth: usize,
    ) -> Result<Value, String> {
        // At the top there has to be an object, whatever leads back to it.
        if depth == 0 {
            self.chain += 1;
            if self.chain > MAX_REFERENCE_CHAIN {
                return Err("the schema of its arguments refers to itself".to_owned());
            }
        } else if self.stay.contains(to) {
            beside.insert("$ref".to_owned(), self.staying(to).into());
            return Ok(Value::Object(beside));
        }
        let deeper = if depth == 0 { 0 } else { depth + 1 };
        let behind = self.schema(target(self.root, to)?, deeper)?;
        if beside.is_empty() {
            return Ok(behind);
        }
        match behind {
            Value::Object(mut behind) if !clash(&behind, &beside) => {
                behind.extend(beside);
                Ok(Value::Object(behind))
            }
            behind => Ok(serde_json::json!({"allOf": [behind, beside]})),
        }
    }
}

fn clash(behind: &Map<String, Value>, beside: &Map<String, Value>) -> bool {
    beside.keys().any(|key| behind.contains_key(key) && !ANNOTATIONS.contains(&key.as_str()))
}

/// The definition that a reference leads to: not a place within one.
fn definition(to: &str) -> Option<(&'static str, String)> {
    let pointer = percent_decode_str(to.strip_prefix("#/")?).decode_utf8().ok()?;
    let (section, name) = pointer.split_once('/')?;
    let key = DEFINITIONS.into_iter().find(|key| *key == section)?;
    (!name.contains('/')).then(|| (key, name.replace("~1", "/").replace("~0", "~")))
}

/// Older words for lists and limits, which would not be understood without the `$schema` that is left out.
fn modernise(schema: &mut Map<String, Value>) {
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
