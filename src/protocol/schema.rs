//! JSON Schemas of strangers: compiled if checking a value by them is sure to end, and what is wrong with a value.
//!
//! References make a short schema a large one: each may double it, or lead it back to its beginning. The library
//! follows them on the stack and knows no limit, so what a schema amounts to is counted before it is compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jsonschema::{ValidationError, Validator};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::parse::shorten;

/// Parts of a schema, each reference counted as what it leads to.
const MOST_PARTS: u64 = 100_000;
/// Ways by which a schema leads back to where it was.
const MOST_LOOPS: u64 = 1000;
/// References of which only the library knows where they lead.
const MOST_UNKNOWN: u32 = 8;
/// How deep it is with references followed.
const DEEPEST: u32 = 400;
/// The same times the depth of a value, for a schema that leads back: what the stack surely holds.
const DEEPEST_BOTH: u32 = 4000;
/// Steps that telling what is wrong with a value may take.
const MOST_STEPS: u64 = 1_000_000;

/// Patterns of one schema, unless a setting says otherwise.
pub const MAX_PATTERNS: usize = 100;

/// A schema that values are checked by.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    size: Size,
}

/// What a part of a schema amounts to.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    parts: u64,
    loops: u64,
    depth: u32,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// In words: it is none, or too large once its references are followed.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let size = Scale::of(schema).weigh(schema, 0)?;
        if size.depth > DEEPEST {
            return Err(too_large());
        }
        let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
        Ok(Self { validator, size })
    }

    /// Whether something is a schema of a size that can be compiled, without the work and the memory of doing so. What only
    /// compiling tells, such as a pattern that cannot be read, is not looked for.
    ///
    /// # Errors
    /// In words: it is none, or too large once its references are followed.
    pub fn check_definition(schema: &Value) -> Result<(), String> {
        if Scale::of(schema).weigh(schema, 0)?.depth > DEEPEST {
            return Err(too_large());
        }
        jsonschema::meta::validate(schema).map_err(|error| error.to_string())
    }

    /// Holds a value against the schema.
    ///
    /// # Errors
    /// What is wrong, and where: at most so many problems, each shortened.
    pub fn check(&self, value: &Value, most: usize) -> Result<(), String> {
        // A problem quotes the value, which may be long.
        self.check_with(value, most, |error| error.to_string())
    }

    /// As [`Self::check`], for the first problem, told without a word of the value but its names.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn check_unquoted(&self, value: &Value) -> Result<(), String> {
        self.check_with(value, 1, |error| error.masked_with("it").to_string())
    }

    fn check_with(
        &self,
        value: &Value,
        most: usize,
        words: impl Fn(&ValidationError<'_>) -> String,
    ) -> Result<(), String> {
        let depth = depth(value);
        if self.size.loops > 0 && self.size.depth.saturating_mul(depth) > DEEPEST_BOTH {
            return Err("the object: it is nested too deeply for its schema".to_owned());
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        // Unlike the answer, the reasons are sought on all ways through the schema, by each level of the value anew.
        let ways = self.size.loops.max(1).saturating_pow(depth);
        if self.size.parts.saturating_mul(ways) > MOST_STEPS {
            return Err("the object: it is not by the schema".to_owned());
        }
        let mut text = String::new();
        for error in self.validator.iter_errors(value).take(most) {
            let separator = if text.is_empty() { "" } else { "; " };
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the object" } else { path.as_str() };
            _ = write!(text, "{separator}{}: {}", shorten(place), shorten(&words(&error)));
        }
        Err(text)
    }
}

fn too_large() -> String {
    "it is too large or too deep once its references are followed".to_owned()
}

fn depth(value: &Value) -> u32 {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// How many patterns a schema has: each has to be compiled.
pub fn patterns(schema: &Value) -> usize {
    match schema {
        Value::Array(list) => list.iter().map(patterns).sum(),
        Value::Object(map) => map.iter().map(|(key, inner)| patterns_of(key, inner)).sum(),
        _ => 0,
    }
}

fn patterns_of(key: &str, value: &Value) -> usize {
    match (key, value) {
        ("pattern", Value::String(_)) => 1,
        ("patternProperties", Value::Object(map)) => map.len() + map.values().map(patterns).sum::<usize>(),
        (_, value) => patterns(value),
    }
}

/// Counts what a schema amounts to.
struct Scale<'a> {
    root: &'a Value,
    /// Parts have addresses of their own, so that what a reference means is not found by its text alone.
    renamed: bool,
    unknown: u32,
    known: BTreeMap<&'a str, Size>,
    open: BTreeSet<&'a str>,
}

impl<'a> Scale<'a> {
    fn of(root: &'a Value) -> Self {
        let inner = |value: &Value| names_itself(value);
        let renamed = match root {
            Value::Object(map) => map.values().any(inner),
            _ => false,
        };
        Self { root, renamed, unknown: 0, known: BTreeMap::new(), open: BTreeSet::new() }
    }

    fn weigh(&mut self, part: &'a Value, at: u32) -> Result<Size, String> {
        if at > DEEPEST {
            return Err(too_large());
        }
        let mut size = Size { parts: 1, ..Size::default() };
        let mut add = |inner: Size| {
            size.parts = size.parts.saturating_add(inner.parts);
            size.loops = size.loops.saturating_add(inner.loops);
            size.depth = size.depth.max(inner.depth + 1);
        };
        match part {
            Value::Array(list) => {
                for inner in list {
                    add(self.weigh(inner, at + 1)?);
                }
            }
            Value::Object(map) => {
                for (key, inner) in map {
                    match (key.as_str(), inner) {
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                            add(self.follow(to, at + 1)?);
                        }
                        // They count where they are referred to.
                        ("$defs" | "definitions", Value::Object(_)) if at == 0 && !self.renamed => {}
                        _ => add(self.weigh(inner, at + 1)?),
                    }
                }
            }
            _ => {}
        }
        if size.parts > MOST_PARTS || size.loops > MOST_LOOPS { Err(too_large()) } else { Ok(size) }
    }

    fn follow(&mut self, to: &'a str, at: u32) -> Result<Size, String> {
        if let Some(size) = self.known.get(to) {
            return Ok(*size);
        }
        let back = Size { parts: 1, loops: 1, depth: 0 };
        // What is not found here may be anything in this schema, also its beginning.
        let pointer = to.strip_prefix('#').filter(|_| !self.renamed);
        let pointer = pointer.and_then(|text| percent_decode_str(text).decode_utf8().ok());
        let Some(target) = pointer.and_then(|pointer| self.root.pointer(&pointer)) else {
            self.unknown += 1;
            return if self.unknown > MOST_UNKNOWN { Err(too_large()) } else { Ok(back) };
        };
        if to == "#" || !self.open.insert(to) {
            return Ok(back);
        }
        let size = self.weigh(target, at)?;
        self.open.remove(to);
        self.known.insert(to, size);
        Ok(size)
    }
}

/// Whether a part of the schema, or one within it, has an address or a name.
fn names_itself(part: &Value) -> bool {
    match part {
        Value::Array(list) => list.iter().any(names_itself),
        Value::Object(map) => {
            let named = |key: &str| map.get(key).is_some_and(Value::is_string);
            named("$id") || named("$anchor") || named("$dynamicAnchor") || map.values().any(names_itself)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema of so many definitions, each made of the next one by `step`.
    fn stairs(count: usize, last: &Value, step: impl Fn(Value) -> Value) -> Value {
        let mut schema = json!({"$ref": "#/$defs/x0", "$defs": {format!("x{count}"): last}});
        for at in 0..count {
            schema["$defs"][format!("x{at}")] = step(json!({"$ref": format!("#/$defs/x{}", at + 1)}));
        }
        schema
    }

    fn nested(levels: usize, mut value: Value) -> Value {
        for _ in 0..levels {
            value = json!({"a": value});
        }
        value
    }

    #[test]
    fn schemas_that_double_with_every_reference_are_refused() {
        let twice = |next: Value| json!({"allOf": [next, next]});
        assert!(Schema::compile(&stairs(10, &json!({}), twice)).is_ok());
        assert_eq!(Schema::compile(&stairs(40, &json!({}), twice)).unwrap_err(), too_large());
        let mut named = json!({"$ref": "#x0", "$defs": {"last": {"$anchor": "x40"}}});
        for at in 0..40 {
            let next = json!({"$ref": format!("#x{}", at + 1)});
            named["$defs"][format!("y{at}")] = json!({"$anchor": format!("x{at}"), "allOf": [next, next]});
        }
        assert_eq!(Schema::compile(&named).unwrap_err(), too_large());
        // The pointers within it mean its own parts, not those of the whole.
        let mut hidden = json!({"$ref": "a:b", "$defs": {"x0": {}, "in": stairs(40, &json!({}), twice)}});
        hidden["$defs"]["in"]["$id"] = "a:b".into();
        assert_eq!(Schema::compile(&hidden).unwrap_err(), too_large());
    }

    #[test]
    fn long_chains_of_references_are_refused() {
        let on = |next: Value| json!({"allOf": [next]});
        assert!(Schema::compile(&stairs(50, &json!({}), on)).is_ok());
        assert_eq!(Schema::compile(&stairs(20_000, &json!({}), on)).unwrap_err(), too_large());
    }

    #[test]
    fn values_of_recursive_schemas_are_checked_in_time() {
        let branch =
            |to: &str| json!({"type": "object", "properties": {"a": {"$ref": to}}, "required": ["a"]});
        for key in ["anyOf", "oneOf", "allOf"] {
            let schema = json!({key: [branch("#"), branch("#/$defs/x")],
                "$defs": {"x": {key: [branch("#/$defs/x"), branch("#")]}}});
            let schema = Schema::compile(&schema).unwrap();
            for levels in [3, 100] {
                for leaf in [json!(1), json!({}), json!([1])] {
                    let problem = schema.check(&nested(levels, leaf), 5).unwrap_err();
                    assert!(problem.starts_with('/') || problem.starts_with("the object"), "{problem}");
                }
            }
        }
        let list = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/$defs/a%20b"}},
            "$defs": {"a b": {"type": "integer"}}});
        let list = Schema::compile(&list).unwrap();
        assert_eq!(list.check(&nested(100, json!({"b": 1})), 5), Ok(()));
        let problem = list.check(&nested(3, json!({"b": "x"})), 5).unwrap_err();
        assert!(problem.starts_with("/a/a/a/b: "), "{problem}");
        // Deep in both ways: the schema by references in place, the value by its levels.
        let mut deep =
            stairs(120, &json!({"properties": {"a": {"$ref": "#"}}}), |next| json!({"allOf": [next]}));
        deep["type"] = "object".into();
        let deep = Schema::compile(&deep).unwrap();
        assert_eq!(deep.check(&nested(5, json!({})), 5), Ok(()));
        assert!(deep.check(&nested(100, json!({})), 5).unwrap_err().contains("too deeply"));
    }
}
