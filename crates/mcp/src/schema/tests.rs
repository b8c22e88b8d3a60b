//! Schemas as MCP servers write them, and the result for providers.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn normalized(schema: &Value) -> Value {
    normalize(schema).unwrap_or_else(|problem| panic!("{schema}: {problem}"))
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn the_top_is_an_object_with_properties() {
    for (schema, expected) in [
        (json!({}), json!({"type": "object", "properties": {}})),
        (json!({"type": "object"}), json!({"type": "object", "properties": {}})),
        (json!({"type": ["object", "null"]}), json!({"type": "object", "properties": {}})),
        (json!({"properties": {"a": {}}}), object(&json!({"a": {}}))),
        (
            json!({"type": "object", "not": {"required": ["a"]}, "if": {}, "then": {}, "enum": [{}]}),
            object(&json!({})),
        ),
    ] {
        assert_eq!(normalized(&schema), expected, "{schema}");
    }
    for (schema, problem) in [
        (json!(true), "is not a JSON object"),
        (json!(null), "is not a JSON object"),
        (json!({"type": "string"}), "not have the type `object`"),
        (json!({"type": ["array", "null"]}), "not have the type `object`"),
        (json!({"properties": []}), "`properties` that are not an object"),
        (json!({"anyOf": [{"type": "string"}, {"type": "object"}]}), "not have the type `object`"),
        (json!({"anyOf": ["a"]}), "are not objects"),
        (json!({"properties": {"a": {"type": "strin"}}}), "is not a valid JSON Schema"),
    ] {
        let error = normalize(&schema).unwrap_err();
        assert!(error.contains(problem), "{schema}: {error}");
    }
}

#[test]
fn words_that_mean_nothing_are_dropped_and_names_are_not() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://h/x", "type": "object",
        "$comment": "c", "x-order": 1,
        "properties": {"x-a": {"x-b": 1, "type": "string", "$comment": "c"}, "$id": {"type": "integer"},
            "c": {"const": {"x-d": 1, "$ref": "e"}}, "d": {"items": [{"x-f": 1}], "additionalItems": false},
            "e": {"minimum": 1, "exclusiveMinimum": true}}});
    let expected = object(&json!({"x-a": {"type": "string"}, "$id": {"type": "integer"},
        "c": {"const": {"x-d": 1, "$ref": "e"}}, "d": {"prefixItems": [{}], "items": false},
        "e": {"exclusiveMinimum": 1}}));
    let found = normalized(&schema);
    assert_eq!(found, expected);
    let keys: Vec<_> = found["properties"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["x-a", "$id", "c", "d", "e"], "in their order");
}

#[test]
fn references_are_replaced() {
    let definitions = json!({"a": {"type": "string", "description": "of a"}, "b": {"items": {"$ref": "#/$defs/a"}},
        "c d": {"type": "integer"}, "unused": {"$ref": "#/$defs/a"}});
    let schema = json!({"type": "object", "$defs": definitions, "properties": {
        "a": {"$ref": "#/$defs/a", "description": "mine"}, "b": {"$ref": "#/$defs/b"},
        "c": {"$ref": "#/$defs/c%20d"}, "d": {"$ref": "#/properties/c"}, "e": {"$ref": "#/$defs/a", "type": "string"}}});
    let a = json!({"type": "string", "description": "of a"});
    let expected = object(&json!({"a": {"type": "string", "description": "mine"}, "b": {"items": a},
        "c": {"type": "integer"}, "d": {"type": "integer"}, "e": {"allOf": [a, {"type": "string"}]}}));
    assert_eq!(normalized(&schema), expected);
    let whole = json!({"$ref": "#/definitions/x", "definitions": {"x": {"$ref": "#/definitions/y"},
        "y": {"type": "object", "properties": {"a": {}}}}});
    assert_eq!(normalized(&whole), object(&json!({"a": {}})));
    for (schema, problem) in [
        (json!({"properties": {"a": {"$ref": "https://h/s"}}}), "another document"),
        (json!({"properties": {"a": {"$ref": "other.json#/a"}}}), "another document"),
        (json!({"properties": {"a": {"$ref": "#/$defs/a"}}}), "does not exist"),
        (json!({"properties": {"a": {"$ref": "#name"}}}), "does not exist"),
        (json!({"properties": {"a": {"$ref": 1}}}), "not a string"),
        (json!({"properties": {"a": {"$dynamicRef": "#a"}}}), "dynamic references"),
        (json!({"$ref": "#"}), "a reference to itself"),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}), "a reference to itself"),
    ] {
        let error = normalize(&schema).unwrap_err();
        assert!(error.contains(problem), "{schema}: {error}");
    }
}

#[test]
fn references_that_lead_back_stay_with_their_definitions() {
    let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"$ref": "#/$defs/v"}}});
    let schema = json!({"type": "object", "properties": {"list": {"$ref": "#/$defs/node"}},
        "$defs": {"node": node, "v": {"type": "string"}, "unused": {}}});
    let kept =
        json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "string"}}});
    let expected =
        json!({"type": "object", "properties": {"list": {"$ref": "#/$defs/node"}}, "$defs": {"node": kept}});
    assert_eq!(normalized(&schema), expected);
    let whole = json!({"$ref": "#/$defs/node", "$defs": {"node": node, "v": {"type": "string"}}});
    let mut expected = kept.clone();
    expected["$defs"] = json!({"node": kept});
    assert_eq!(normalized(&whole), expected);
}

#[test]
fn what_would_grow_too_large_keeps_its_references() {
    let mut schema =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x0"}}, "$defs": {"x9": {}}});
    for at in 0..9 {
        let next = json!({"$ref": format!("#/$defs/x{}", at + 1)});
        schema["$defs"][format!("x{at}")] = json!({"properties": {"a": next, "b": next, "c": next}});
    }
    let found = normalized(&schema);
    assert_eq!(found["properties"]["a"], json!({"$ref": "#/$defs/x0"}));
    assert_eq!(found["$defs"].as_object().unwrap().len(), 10);
    let mut chain = json!({"properties": {"a": {"$ref": "#/$defs/x0"}}, "$defs": {"x300": {}}});
    for at in 0..300 {
        chain["$defs"][format!("x{at}")] = json!({"$ref": format!("#/$defs/x{}", at + 1)});
    }
    assert_eq!(normalized(&chain)["$defs"].as_object().unwrap().len(), 301);
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"items": deep});
    }
    assert_eq!(normalize(&json!({"properties": {"a": deep}})), Err(too_large()));
    let wide: Vec<_> = (0..20_000).collect();
    assert_eq!(normalize(&json!({"properties": {"a": {"enum": wide}}})), Err(too_large()));
}

#[test]
fn alternatives_and_combinations_become_one_object() {
    let part = |name: &str, kind: &str| {
        json!({"type": "object", "properties": {"kind": {"const": kind}, name: {"type": "string"}},
            "required": ["kind", name], "additionalProperties": false})
    };
    for key in ["anyOf", "oneOf"] {
        let schema = json!({"type": "object", key: [part("a", "x"), part("b", "y"), {"type": "null"}]});
        let expected = json!({"type": "object", "additionalProperties": false, "properties": {
                "kind": {"anyOf": [{"const": "x"}, {"const": "y"}]}, "a": {"type": "string"}, "b": {"type": "string"}},
            "required": ["kind"]});
        assert_eq!(normalized(&schema), expected);
    }
    let all = json!({"allOf": [part("a", "x"), part("b", "x"), {"anyOf": [{"properties": {"c": {}}}]}]});
    let expected = json!({"properties": {"kind": {"const": "x"}, "a": {"type": "string"}, "b": {"type": "string"},
        "c": {}}, "required": ["kind", "a", "b"], "type": "object"});
    assert_eq!(normalized(&all), expected);
    // That one of two properties is required is left to the server to check.
    let needs = json!({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false,
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let expected = json!({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false});
    assert_eq!(normalized(&needs), expected);
}

#[test]
fn references_to_places_that_are_merged_away_lead_to_definitions() {
    let again = json!({"$ref": "#/anyOf/0"});
    let schema = json!({"anyOf": [{"properties": {"a": {"$defs": {"a": again}}}}]});
    let a = json!({"$defs": {"a": {"$ref": "#/$defs/anyOf_0"}}});
    let expected =
        json!({"properties": {"a": a}, "type": "object", "$defs": {"anyOf_0": {"properties": {"a": a}}}});
    assert_eq!(normalized(&schema), expected);
    // Locations inside a definition move, too, and a name may be taken.
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {
        "t": {"items": [{"properties": {"b": {"$ref": "#/$defs/t/items/0"}}}]}, "_defs_t_items_0": {"type": "string"}}});
    let found = normalized(&schema);
    let inner = &found["properties"]["a"]["prefixItems"][0]["properties"]["b"];
    assert_eq!(inner["$ref"], "#/$defs/_defs_t_items_0_2");
    assert_eq!(found["$defs"]["_defs_t_items_0_2"]["properties"]["b"], *inner);
}

fn schemas() -> impl Strategy<Value = Value> {
    let references = prop_oneof![
        Just("#"),
        Just("#/$defs/a"),
        Just("#/$defs/b"),
        Just("#/definitions/a"),
        Just("#/properties/a"),
        Just("#/anyOf/0"),
        Just("https://h/a"),
    ];
    let leaf = prop_oneof![
        8 => Just(json!({})),
        8 => Just(json!({"type": "object"})),
        4 => Just(json!({"type": "string", "x-a": 1})),
        1 => Just(json!(true)),
        1 => Just(json!(1)),
        1 => Just(json!({"type": 1})),
        6 => references.prop_map(|to| json!({"$ref": to})),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let names = || proptest::collection::btree_map("[ab]", inner.clone(), 0..3);
        let words = prop_oneof![
            Just("properties"),
            Just("$defs"),
            Just("definitions"),
            Just("anyOf"),
            Just("allOf"),
            Just("items"),
            Just("required"),
            Just("type"),
        ];
        let value = (words, names()).prop_map(|(word, names)| match word {
            "anyOf" | "allOf" => (word, json!(names.into_values().collect::<Vec<_>>())),
            "items" => (word, names.into_values().next().unwrap_or_default()),
            "required" => (word, json!(names.into_keys().collect::<Vec<_>>())),
            "type" => (word, json!("object")),
            _ => (word, json!(names)),
        });
        proptest::collection::vec(value, 0..4)
            .prop_map(|words| words.into_iter().map(|(word, value)| (word.to_owned(), value)).collect())
    })
}

proptest! {
    #[test]
    fn what_comes_out_is_a_schema_or_an_error(schema in schemas()) {
        if let Ok(found) = normalize(&schema) {
            prop_assert!(CompiledSchema::compile(&found).is_ok());
            prop_assert_eq!(&found["type"], "object");
            prop_assert!(found["properties"].is_object());
            prop_assert_eq!(normalize(&found), Ok(found), "it is stable");
        }
    }
}
