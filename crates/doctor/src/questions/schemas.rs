//! Structured answers: a JSON Schema alone, with tools, and by keyword. The prompts ask for something else than the schema, so
//! that an answer which follows it was constrained.

use crate::question::{Question, Way};

const GAP: &str = "answers with a schema are checked by the gateway, not made to follow it by the server";

/// A keyword of JSON Schema, on the member `value` of the answer.
const fn keyword(
    id: &'static str,
    text: &'static str,
    schema: &'static str,
    value: &'static str,
) -> Question {
    Question {
        id,
        text,
        way: Way::Schema { schema, value, tools: false },
        deep: true,
        repeated: false,
        gap: None,
    }
}

/// The plainest question, with tools or without.
const fn plain(tools: bool) -> Way {
    Way::Schema { schema: r#"{"enum": ["otter-7", "zebra-9"]}"#, value: "the word cat", tools }
}

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "json_schema",
        text: "Answers follow a JSON Schema",
        way: plain(false),
        deep: false,
        repeated: true,
        gap: Some(GAP),
    },
    Question {
        id: "json_schema_tools",
        text: "They do when there are tools",
        way: plain(true),
        deep: false,
        repeated: true,
        gap: Some("with tools, answers with a schema are checked by the gateway, not made to follow it"),
    },
    keyword("schema_enum", "Schema: `enum`", r#"{"enum": ["otter-7", "zebra-9"]}"#, "the word cat"),
    keyword("schema_const", "Schema: `const`", r#"{"const": "otter-7"}"#, "the word cat"),
    keyword("schema_type", "Schema: `type`", r#"{"type": "integer"}"#, "the word cat, as a string"),
    keyword(
        "schema_pattern",
        "Schema: `pattern`",
        r#"{"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2}$"}"#,
        "the word cat",
    ),
    keyword(
        "schema_min_length",
        "Schema: `minLength`",
        r#"{"type": "string", "minLength": 20}"#,
        "the word cat",
    ),
    keyword(
        "schema_max_length",
        "Schema: `maxLength`",
        r#"{"type": "string", "maxLength": 3}"#,
        "the word elephant",
    ),
    keyword("schema_minimum", "Schema: `minimum`", r#"{"type": "integer", "minimum": 1000}"#, "the number 5"),
    keyword("schema_maximum", "Schema: `maximum`", r#"{"type": "integer", "maximum": 9}"#, "the number 5000"),
    keyword(
        "schema_multiple_of",
        "Schema: `multipleOf`",
        r#"{"type": "integer", "multipleOf": 7}"#,
        "the number 5",
    ),
    keyword(
        "schema_min_items",
        "Schema: `minItems`",
        r#"{"type": "array", "items": {"type": "integer"}, "minItems": 3}"#,
        "the list [1]",
    ),
    keyword(
        "schema_max_items",
        "Schema: `maxItems`",
        r#"{"type": "array", "items": {"type": "integer"}, "maxItems": 1}"#,
        "the list [1, 2, 3]",
    ),
    keyword(
        "schema_required",
        "Schema: `required`",
        r#"{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}"#,
        "an empty object {}",
    ),
    keyword(
        "schema_additional_properties",
        "Schema: `additionalProperties: false`",
        r#"{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}"#,
        "the object {\"a\": 1, \"extra\": 2}",
    ),
    keyword(
        "schema_any_of",
        "Schema: `anyOf`",
        r#"{"anyOf": [{"type": "integer"}, {"type": "null"}]}"#,
        "the word cat, as a string",
    ),
    keyword("schema_ref", "Schema: `$ref` to `$defs`", r##"{"$ref": "#/$defs/word"}"##, "the word cat"),
];
