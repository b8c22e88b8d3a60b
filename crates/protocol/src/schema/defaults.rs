//! Defaults of required members: what a schema says of a value that the writer has left out.
//!
//! Generators of schemas list a member that has a default as required, since whoever reads the value always finds it.
//! A validator takes `default` as a remark and refuses `{}`, which the owner of the schema accepts. Members that are
//! not required are left to the owner: for them, a default is often prose.

use serde_json::{Map, Value};

/// Depth to which defaults are followed, in the schema and in the value.
const MAX_DEPTH: usize = 64;
/// Members that are filled in: a recursive schema may have no end of them.
const MAX_FILLED: usize = 256;
/// Parts of the schema that are visited.
const MAX_VISITS: usize = 10_000;

/// A member that was filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct FilledMember {
    /// Where the object is.
    pub path: Vec<PathStep>,
    /// The member's name.
    pub key: String,
    /// The default, as JSON.
    pub text: String,
}

/// A step from a value into a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// The member of an object.
    Key(String),
    /// The element of an array.
    Index(usize),
}

/// Whether a schema has a default and a list of required members; most have not.
pub(super) fn has_any(schema: &Value) -> bool {
    has_keyword(schema, "default") && has_keyword(schema, "required")
}

fn has_keyword(part: &Value, keyword: &str) -> bool {
    match part {
        Value::Array(list) => list.iter().any(|inner| has_keyword(inner, keyword)),
        Value::Object(map) => {
            map.contains_key(keyword) || map.values().any(|inner| has_keyword(inner, keyword))
        }
        _ => false,
    }
}

/// Adds the defaults of required members that are absent. Nothing that is there is changed.
pub(super) fn fill(schema: &Value, value: &mut Value) -> Vec<FilledMember> {
    let mut filler = Filler { root: schema, path: Vec::new(), filled: Vec::new(), visits: MAX_VISITS };
    filler.fill(&[schema], value);
    filler.filled
}

struct Filler<'s> {
    root: &'s Value,
    path: Vec<PathStep>,
    filled: Vec<FilledMember>,
    visits: usize,
}

impl<'s> Filler<'s> {
    fn fill(&mut self, schemas: &[&'s Value], value: &mut Value) {
        if self.path.len() >= MAX_DEPTH {
            return;
        }
        let mut applicable = Vec::new();
        for schema in schemas {
            self.add_applicable(schema, value, 0, &mut applicable);
        }
        match value {
            Value::Object(members) => self.fill_object(&applicable, members),
            Value::Array(elements) => self.fill_array(&applicable, elements),
            _ => {}
        }
    }

    /// The parts of a schema that hold for the value itself.
    fn add_applicable(
        &mut self,
        schema: &'s Value,
        value: &Value,
        depth: usize,
        out: &mut Vec<&'s Map<String, Value>>,
    ) {
        let Value::Object(keywords) = schema else { return };
        if depth >= MAX_DEPTH || self.visits == 0 {
            return;
        }
        self.visits -= 1;
        out.push(keywords);
        if let Some(target) = self.target(keywords) {
            self.add_applicable(target, value, depth + 1, out);
        }
        for part in list(keywords, "allOf") {
            self.add_applicable(part, value, depth + 1, out);
        }
        for keyword in ["anyOf", "oneOf"] {
            // Of several that may be meant, none is chosen: their defaults may contradict each other.
            let mut fitting = list(keywords, keyword).filter(|part| self.may_take(part, value));
            if let (Some(only), None) = (fitting.next(), fitting.next()) {
                self.add_applicable(only, value, depth + 1, out);
            }
        }
    }

    fn fill_object(&mut self, schemas: &[&'s Map<String, Value>], members: &mut Map<String, Value>) {
        for name in schemas.iter().flat_map(|keywords| list(keywords, "required")).filter_map(Value::as_str) {
            if members.contains_key(name) || self.filled.len() >= MAX_FILLED {
                continue;
            }
            let found = schemas.iter().filter_map(|keywords| keywords.get("properties")?.get(name));
            let Some(default) = found.into_iter().find_map(|schema| self.default_of(schema, 0)) else {
                continue;
            };
            members.insert(name.to_owned(), default.clone());
            self.filled.push(FilledMember {
                path: self.path.clone(),
                key: name.to_owned(),
                text: default.to_string(),
            });
        }
        for (name, member) in members {
            if !matches!(member, Value::Object(_) | Value::Array(_)) {
                continue;
            }
            let of_member = |keywords: &&'s Map<String, Value>| match keywords.get("properties") {
                Some(Value::Object(properties)) if properties.contains_key(name) => properties.get(name),
                _ => keywords.get("additionalProperties"),
            };
            let inner: Vec<&Value> = schemas.iter().filter_map(of_member).collect();
            self.path.push(PathStep::Key(name.clone()));
            self.fill(&inner, member);
            self.path.pop();
        }
    }

    fn fill_array(&mut self, schemas: &[&'s Map<String, Value>], elements: &mut [Value]) {
        for (index, element) in elements.iter_mut().enumerate() {
            if !matches!(element, Value::Object(_) | Value::Array(_)) {
                continue;
            }
            let of_element = |keywords: &&'s Map<String, Value>| match keywords.get("prefixItems") {
                Some(Value::Array(first)) if index < first.len() => first.get(index),
                _ => keywords.get("items"),
            };
            let inner: Vec<&Value> = schemas.iter().filter_map(of_element).collect();
            self.path.push(PathStep::Index(index));
            self.fill(&inner, element);
            self.path.pop();
        }
    }

    fn default_of(&self, schema: &'s Value, depth: usize) -> Option<&'s Value> {
        let keywords = schema.as_object().filter(|_| depth < MAX_DEPTH)?;
        let own = keywords.get("default");
        own.or_else(|| self.default_of(self.target(keywords)?, depth + 1))
            .or_else(|| list(keywords, "allOf").find_map(|part| part.get("default")))
    }

    /// What a reference within the schema leads to.
    fn target(&self, keywords: &'s Map<String, Value>) -> Option<&'s Value> {
        let pointer = keywords.get("$ref")?.as_str()?.strip_prefix('#')?;
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8().ok()?;
        self.root.pointer(&pointer)
    }

    /// Whether a branch takes values of this type.
    fn may_take(&self, schema: &'s Value, value: &Value) -> bool {
        let Value::Object(keywords) = schema else { return schema == &Value::Bool(true) };
        let name = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            _ => return false,
        };
        let kind = keywords.get("type").or_else(|| self.target(keywords)?.get("type"));
        match kind {
            None => true,
            Some(Value::String(kind)) => kind == name,
            Some(kinds) => kinds.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == name)),
        }
    }
}

fn list<'s>(keywords: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s Value> + use<'s> {
    keywords.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(schema: &Value, mut value: Value) -> Value {
        fill(schema, &mut value);
        value
    }

    #[test]
    fn required_members_that_are_absent_have_their_defaults() {
        let png = json!({"type": "string", "default": "png"});
        let shot = json!({"properties": {"type": png, "full": {"default": false}}, "required": ["type"]});
        for (schema, value, expected) in [
            (shot.clone(), json!({}), json!({"type": "png"})),
            (shot.clone(), json!({"type": "jpeg"}), json!({"type": "jpeg"})),
            // What is there is not touched, whether or not it is valid.
            (shot.clone(), json!({"type": null}), json!({"type": null})),
            (json!({"properties": {"a": {}}, "required": ["a"]}), json!({}), json!({})),
            (
                json!({"allOf": [{"$ref": "#/$defs/a%20b"}], "required": ["type"], "$defs": {"a b": shot}}),
                json!({}),
                json!({"type": "png"}),
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"], "$defs": {"x": png}}),
                json!({}),
                json!({"a": "png"}),
            ),
            (
                json!({"properties": {"o": {"default": {}, "anyOf": [shot, {"type": "null"}]}}, "required": ["o"]}),
                json!({}),
                json!({"o": {"type": "png"}}),
            ),
            // Which of two is meant is not known.
            (json!({"oneOf": [shot, {"type": "object"}]}), json!({}), json!({})),
            (
                json!({"properties": {"l": {"items": shot, "prefixItems": [{}]}}}),
                json!({"l": [{}, {}, {"type": "x"}, 1]}),
                json!({"l": [{}, {"type": "png"}, {"type": "x"}, 1]}),
            ),
            (json!({"additionalProperties": shot}), json!({"k": {}}), json!({"k": {"type": "png"}})),
        ] {
            assert_eq!(filled(&schema, value.clone()), expected, "{schema} {value}");
        }
    }

    #[test]
    fn schemas_without_an_end_are_followed_to_one() {
        let own = json!({"default": {}, "$ref": "#"});
        for schema in [
            json!({"properties": {"a": own}, "required": ["a"]}),
            json!({"properties": {"a": own, "b": own}, "required": ["a", "b"]}),
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "required": ["a"], "properties": {"a": own}}),
        ] {
            let mut value = json!({});
            assert!(fill(&schema, &mut value).len() <= MAX_FILLED);
        }
    }
}
