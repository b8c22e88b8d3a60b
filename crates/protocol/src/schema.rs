//! JSON Schemas of users: compiled if validation by them is sure to end within bounds.
//!
//! References make a short schema a large one: each may double it, or lead back to its beginning. The library
//! follows them recursively without a limit, so that the expanded size is computed before a schema is compiled.

pub mod defaults;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::parse::truncate_for_display;
use defaults::FilledMember;

/// Nodes of a schema, with each reference expanded.
const MAX_NODES: u64 = 100_000;
/// References that lead back to a place they are reached from.
const MAX_CYCLES: u64 = 1000;
/// References that only the library can resolve.
const MAX_UNRESOLVED_REFS: u32 = 8;
/// Depth with references expanded.
const MAX_DEPTH: u32 = 400;
/// Depth of a recursive schema times the depth of a value, within which the stack is sure to suffice.
const MAX_COMBINED_DEPTH: u32 = 4000;
/// Steps that describing what is wrong with a value may take.
const MAX_DIAGNOSIS_STEPS: u64 = 1_000_000;

/// Patterns in one schema, unless a setting changes it.
pub(crate) const MAX_PATTERNS: usize = 100;
/// Size of all compiled patterns of one schema, as the library estimates it: a date takes 40 KiB, a word of up to 64
/// letters of any script 3 MiB. The caches of matching may take as much again.
const MAX_PATTERN_BYTES: usize = 4 << 20;
/// Backtracking steps of a match, for patterns that need backtracking.
const MAX_BACKTRACKS: usize = 100_000;

/// A schema that values are validated by.
#[derive(Debug)]
pub struct CompiledSchema {
    validator: Validator,
    size: SchemaSize,
    /// The schema, if it has defaults to fill in.
    defaults: Option<Box<Value>>,
}

/// The expanded size of a part of a schema.
#[derive(Debug, Clone, Copy, Default)]
struct SchemaSize {
    nodes: u64,
    cycles: u64,
    depth: u32,
}

impl CompiledSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// A message: the schema is invalid, has too many patterns, or is too large once its references are expanded.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        check_patterns(schema)?;
        Self::compile_prechecked(schema)
    }

    /// Compiles a schema whose patterns were counted before.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub fn compile_prechecked(schema: &Value) -> Result<Self, String> {
        let size = SizeEstimator::new(schema).measure(schema, 0)?;
        if size.depth > MAX_DEPTH {
            return Err(too_large());
        }
        let defaults = defaults::has_any(schema).then(|| Box::new(schema.clone()));
        Ok(Self { validator: build_validator(schema)?, size, defaults })
    }

    /// Checks a schema without the time and memory of compiling it. Errors that only compiling can find, such as an
    /// invalid pattern, are not detected.
    ///
    /// # Errors
    /// A message: the schema is invalid, has too many patterns, or is too large once its references are expanded.
    pub fn check_definition(schema: &Value) -> Result<(), String> {
        check_patterns(schema)?;
        if SizeEstimator::new(schema).measure(schema, 0)?.depth > MAX_DEPTH {
            return Err(too_large());
        }
        jsonschema::meta::validate(schema).map_err(|error| error.to_string())
    }

    /// Adds the defaults of required members that are absent from a value.
    pub fn fill_defaults(&self, value: &mut Value) -> Vec<FilledMember> {
        self.defaults.as_ref().map(|schema| defaults::fill(schema, value)).unwrap_or_default()
    }

    /// Validates a value.
    ///
    /// # Errors
    /// What is wrong, and where: at most `max` problems, each shortened.
    pub fn validate(&self, value: &Value, max: usize) -> Result<(), String> {
        // A message quotes the value, which may be long.
        self.validate_with(value, max, |error| error.to_string())
    }

    /// As [`Self::validate`], for the first problem, in a message that quotes nothing of the value but names.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn validate_redacted(&self, value: &Value) -> Result<(), String> {
        self.validate_with(value, 1, |error| error.masked_with("it").to_string())
    }

    fn validate_with(
        &self,
        value: &Value,
        max: usize,
        words: impl Fn(&ValidationError<'_>) -> String,
    ) -> Result<(), String> {
        let depth = depth(value);
        if self.size.cycles > 0 && self.size.depth.saturating_mul(depth) > MAX_COMBINED_DEPTH {
            return Err("the object: it is nested too deeply for its schema".to_owned());
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        // Unlike validation, describing the problems follows all branches of the schema, at each level of the value.
        let ways = self.size.cycles.max(1).saturating_pow(depth);
        if self.size.nodes.saturating_mul(ways) > MAX_DIAGNOSIS_STEPS {
            return Err("the object: it does not match the schema".to_owned());
        }
        let mut text = String::new();
        for error in self.validator.iter_errors(value).take(max) {
            let separator = if text.is_empty() { "" } else { "; " };
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the object" } else { path.as_str() };
            _ = write!(
                text,
                "{separator}{}: {}",
                truncate_for_display(place),
                truncate_for_display(&words(&error))
            );
        }
        Err(text)
    }
}

fn check_patterns(schema: &Value) -> Result<(), String> {
    let count = distinct_patterns(schema).len();
    if count > MAX_PATTERNS {
        return Err(format!("it has {count} different patterns, and {MAX_PATTERNS} are allowed"));
    }
    Ok(())
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

/// Compiles a schema whose patterns share [`MAX_PATTERN_BYTES`].
///
/// They are matched in linear time. A schema with a pattern that this engine does not support (look-around,
/// back-references) is matched with backtracking, up to a limit; what is undecided then does not match.
fn build_validator(schema: &Value) -> Result<Validator, String> {
    let patterns = distinct_patterns(schema);
    if patterns.is_empty() {
        // The library compiles metaschemas by the same code; most schemas share them.
        return jsonschema::validator_for(schema).map_err(|error| error.to_string());
    }
    let share = |parts: usize| MAX_PATTERN_BYTES / parts.max(1);
    let each = share(patterns.len());
    let linear = PatternOptions::regex().size_limit(each).dfa_size_limit(each);
    let error = match jsonschema::options().with_pattern_options(linear).build(schema) {
        Ok(validator) => return Ok(validator),
        Err(error) if is_pattern(&error) => error,
        Err(error) => return Err(error.to_string()),
    };
    // Each piece between groups, alternatives and references is compiled by itself.
    let pieces = |pattern: &&str| 1 + 2 * pattern.bytes().filter(|byte| b"(|\\".contains(byte)).count();
    let each = share(patterns.iter().map(pieces).sum());
    let fancy = PatternOptions::fancy_regex().size_limit(each).dfa_size_limit(each);
    let fancy = fancy.backtrack_limit(MAX_BACKTRACKS);
    jsonschema::options().with_pattern_options(fancy).build(schema).map_err(|_| {
        format!(
            "a pattern at '{}' is not a regular expression, or the patterns take more than {} KiB together once they \
             are compiled",
            error.schema_path(),
            MAX_PATTERN_BYTES >> 10
        )
    })
}

fn is_pattern(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Format { format } if format == "regex")
}

/// The number of patterns in a schema.
pub(crate) fn count_patterns(schema: &Value) -> usize {
    let mut count = 0;
    each_pattern(schema, &mut |_| count += 1);
    count
}

/// The patterns of a schema that have to be compiled.
fn distinct_patterns(schema: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    each_pattern(schema, &mut |pattern| _ = found.insert(pattern));
    found
}

fn each_pattern<'a>(schema: &'a Value, found: &mut impl FnMut(&'a str)) {
    match schema {
        Value::Array(list) => list.iter().for_each(|inner| each_pattern(inner, found)),
        Value::Object(map) => {
            for (key, inner) in map {
                match (key.as_str(), inner) {
                    ("pattern", Value::String(pattern)) => found(pattern),
                    ("patternProperties", Value::Object(map)) => {
                        for (pattern, inner) in map {
                            found(pattern);
                            each_pattern(inner, found);
                        }
                    }
                    (_, inner) => each_pattern(inner, found),
                }
            }
        }
        _ => {}
    }
}

/// Computes the expanded size of a schema.
struct SizeEstimator<'a> {
    root: &'a Value,
    /// Parts have identifiers of their own, so that a reference cannot be resolved by its text alone.
    has_identifiers: bool,
    unresolved_refs: u32,
    known: BTreeMap<&'a str, SchemaSize>,
    in_progress: BTreeSet<&'a str>,
}

impl<'a> SizeEstimator<'a> {
    fn new(root: &'a Value) -> Self {
        let inner = |value: &Value| has_identifier(value);
        let has_identifiers = match root {
            Value::Object(map) => map.values().any(inner),
            _ => false,
        };
        Self {
            root,
            has_identifiers,
            unresolved_refs: 0,
            known: BTreeMap::new(),
            in_progress: BTreeSet::new(),
        }
    }

    fn measure(&mut self, part: &'a Value, at: u32) -> Result<SchemaSize, String> {
        if at > MAX_DEPTH {
            return Err(too_large());
        }
        let mut size = SchemaSize { nodes: 1, ..SchemaSize::default() };
        let mut add = |inner: SchemaSize| {
            size.nodes = size.nodes.saturating_add(inner.nodes);
            size.cycles = size.cycles.saturating_add(inner.cycles);
            size.depth = size.depth.max(inner.depth + 1);
        };
        match part {
            Value::Array(list) => {
                for inner in list {
                    add(self.measure(inner, at + 1)?);
                }
            }
            Value::Object(map) => {
                for (key, inner) in map {
                    match (key.as_str(), inner) {
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                            add(self.measure_ref(to, at + 1)?);
                        }
                        // They count where they are referenced.
                        ("$defs" | "definitions", Value::Object(_)) if at == 0 && !self.has_identifiers => {}
                        _ => add(self.measure(inner, at + 1)?),
                    }
                }
            }
            _ => {}
        }
        if size.nodes > MAX_NODES || size.cycles > MAX_CYCLES { Err(too_large()) } else { Ok(size) }
    }

    fn measure_ref(&mut self, to: &'a str, at: u32) -> Result<SchemaSize, String> {
        if let Some(size) = self.known.get(to) {
            return Ok(*size);
        }
        let back = SchemaSize { nodes: 1, cycles: 1, depth: 0 };
        // A target that is not found may be anything in this schema, also its beginning.
        let pointer = to.strip_prefix('#').filter(|_| !self.has_identifiers);
        let pointer = pointer.and_then(|text| percent_decode_str(text).decode_utf8().ok());
        let Some(target) = pointer.and_then(|pointer| self.root.pointer(&pointer)) else {
            self.unresolved_refs += 1;
            return if self.unresolved_refs > MAX_UNRESOLVED_REFS { Err(too_large()) } else { Ok(back) };
        };
        if to == "#" || !self.in_progress.insert(to) {
            return Ok(back);
        }
        let size = self.measure(target, at)?;
        self.in_progress.remove(to);
        self.known.insert(to, size);
        Ok(size)
    }
}

/// Whether the schema, or a part of it, has an identifier or an anchor.
fn has_identifier(part: &Value) -> bool {
    match part {
        Value::Array(list) => list.iter().any(has_identifier),
        Value::Object(map) => {
            let named = |key: &str| map.get(key).is_some_and(Value::is_string);
            named("$id") || named("$anchor") || named("$dynamicAnchor") || map.values().any(has_identifier)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema of `n` definitions, each made of the next one by `step`.
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
        assert!(CompiledSchema::compile(&stairs(10, &json!({}), twice)).is_ok());
        assert_eq!(CompiledSchema::compile(&stairs(40, &json!({}), twice)).unwrap_err(), too_large());
        let mut named = json!({"$ref": "#x0", "$defs": {"last": {"$anchor": "x40"}}});
        for at in 0..40 {
            let next = json!({"$ref": format!("#x{}", at + 1)});
            named["$defs"][format!("y{at}")] = json!({"$anchor": format!("x{at}"), "allOf": [next, next]});
        }
        assert_eq!(CompiledSchema::compile(&named).unwrap_err(), too_large());
        // Pointers within it mean its own parts, not those of the whole.
        let mut hidden = json!({"$ref": "a:b", "$defs": {"x0": {}, "in": stairs(40, &json!({}), twice)}});
        hidden["$defs"]["in"]["$id"] = "a:b".into();
        assert_eq!(CompiledSchema::compile(&hidden).unwrap_err(), too_large());
    }

    /// A schema of objects with one property for each of these patterns.
    fn with_patterns(patterns: impl Iterator<Item = String>) -> Value {
        let each = patterns.enumerate().map(|(n, pattern)| (format!("p{n}"), json!({"pattern": pattern})));
        json!({"type": "object", "properties": each.collect::<serde_json::Map<_, _>>()})
    }

    #[test]
    fn patterns_that_swell_when_they_are_compiled_are_refused() {
        let bombs = |count: usize| with_patterns((0..count).map(|n| format!("((a{{100}}){{100}}){n}")));
        for count in [20, 50, 100] {
            let problem = CompiledSchema::compile(&bombs(count)).unwrap_err();
            assert!(problem.contains("4096 KiB together"), "{problem}");
        }
        assert!(CompiledSchema::compile(&bombs(101)).unwrap_err().contains("101 different patterns"));
        assert!(
            CompiledSchema::check_definition(&bombs(101)).unwrap_err().contains("101 different patterns")
        );
        // If a pattern looks around, each piece of it counts.
        let around = |count: usize| format!("(?=b){}", "(?=(a{90}){90})".repeat(count));
        assert!(CompiledSchema::compile(&with_patterns([around(1000)].into_iter())).is_err());
        let names: serde_json::Map<_, _> = (0..101).map(|n| (format!("^a{n}"), json!({}))).collect();
        assert!(CompiledSchema::compile(&json!({"patternProperties": names})).is_err());
    }

    #[test]
    fn patterns_of_everyday_schemas_are_compiled() {
        let usual =
            [r"^\d{4}-\d{2}-\d{2}$", r"^[^\s@]+@[^\s@]+\.[^\s@]+$", "^[A-Za-z0-9_-]{1,255}$", "^(a|b)*$"];
        let schema = with_patterns((0..80).map(|n| format!("{}|^{n}$", usual[n % 4])));
        let schema = CompiledSchema::compile(&schema).unwrap();
        assert_eq!(
            schema.validate(&json!({"p0": "2026-01-31", "p1": "a@b.c", "p2": "f_1", "p3": "abba"}), 5),
            Ok(())
        );
        assert!(schema.validate(&json!({"p1": "nobody"}), 5).is_err());
        // Fewer patterns may be larger.
        let names = [r"^\p{L}[\p{L}' -]{0,20}$", "^.{1,200}$", r"^\w+$"];
        let schema = CompiledSchema::compile(&with_patterns(names.map(str::to_owned).into_iter())).unwrap();
        assert_eq!(schema.validate(&json!({"p0": "Ærø", "p1": "x", "p2": "y"}), 5), Ok(()));
        // A pattern that occurs several times is compiled once.
        let same = with_patterns((0..500).map(|_| "^a+$".to_owned()));
        assert!(CompiledSchema::compile(&same).is_ok());
    }

    /// As schema libraries write them, for example for mail addresses.
    #[test]
    fn patterns_that_look_around_or_refer_back_are_matched_with_few_steps() {
        let mail = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
        let schema = with_patterns([mail, r"^(a+)-\1$"].map(str::to_owned).into_iter());
        let schema = CompiledSchema::compile(&schema).unwrap();
        assert_eq!(schema.validate(&json!({"p0": "a.b@example.org", "p1": "aa-aa"}), 5), Ok(()));
        for wrong in
            [json!({"p0": ".a@example.org"}), json!({"p0": "a..b@example.org"}), json!({"p1": "aa-a"})]
        {
            assert!(schema.validate(&wrong, 5).is_err(), "{wrong}");
        }
        let bomb = with_patterns([r"^(?=a)(a|a)*b\1$".to_owned()].into_iter());
        let bomb = CompiledSchema::compile(&bomb).unwrap();
        assert!(bomb.validate(&json!({"p0": "a".repeat(50)}), 5).is_err());
    }

    #[test]
    fn long_chains_of_references_are_refused() {
        let on = |next: Value| json!({"allOf": [next]});
        assert!(CompiledSchema::compile(&stairs(50, &json!({}), on)).is_ok());
        assert_eq!(CompiledSchema::compile(&stairs(20_000, &json!({}), on)).unwrap_err(), too_large());
    }

    #[test]
    fn values_of_recursive_schemas_are_checked_in_time() {
        let branch =
            |to: &str| json!({"type": "object", "properties": {"a": {"$ref": to}}, "required": ["a"]});
        for key in ["anyOf", "oneOf", "allOf"] {
            let schema = json!({key: [branch("#"), branch("#/$defs/x")],
                "$defs": {"x": {key: [branch("#/$defs/x"), branch("#")]}}});
            let schema = CompiledSchema::compile(&schema).unwrap();
            for levels in [3, 100] {
                for leaf in [json!(1), json!({}), json!([1])] {
                    let problem = schema.validate(&nested(levels, leaf), 5).unwrap_err();
                    assert!(problem.starts_with('/') || problem.starts_with("the object"), "{problem}");
                }
            }
        }
        let list = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/$defs/a%20b"}},
            "$defs": {"a b": {"type": "integer"}}});
        let list = CompiledSchema::compile(&list).unwrap();
        assert_eq!(list.validate(&nested(100, json!({"b": 1})), 5), Ok(()));
        let problem = list.validate(&nested(3, json!({"b": "x"})), 5).unwrap_err();
        assert!(problem.starts_with("/a/a/a/b: "), "{problem}");
        // Deep in both ways: the schema by references in place, the value by its levels.
        let mut deep =
            stairs(120, &json!({"properties": {"a": {"$ref": "#"}}}), |next| json!({"allOf": [next]}));
        deep["type"] = "object".into();
        let deep = CompiledSchema::compile(&deep).unwrap();
        assert_eq!(deep.validate(&nested(5, json!({})), 5), Ok(()));
        assert!(deep.validate(&nested(100, json!({})), 5).unwrap_err().contains("too deeply"));
    }
}
