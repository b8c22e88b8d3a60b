//! Whatever schema a tool has and whatever a model writes for it: the call is made with an object that is by the
//! schema, or the model is told why not in a few words, soon.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// As many cases as `PROPTEST_CASES` says; 2,000 if it says nothing.
fn config() -> ProptestConfig {
    let said = std::env::var_os("PROPTEST_CASES").is_some();
    if said { ProptestConfig::default() } else { ProptestConfig::with_cases(2000) }
}

/// Any JSON that is not large.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        select(vec![
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1e308),
            json!(0.1),
            json!(u64::MAX)
        ]),
        select(vec![json!(""), json!("a"), json!("é\u{0}"), json!("x".repeat(3000)), json!("2026-02-30")]),
        any::<i64>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "x", "", "é", "$ref", "a/b~", "id"]).prop_map(str::to_owned)
}

/// Where references lead: to the schema itself, to definitions, nowhere, away.
const TARGETS: &[&str] = &[
    "#",
    "#/$defs/x",
    "#/$defs/y",
    "#/$defs/x",
    "#/$defs/y",
    "#/properties/a",
    "#/anyOf/0",
    "#/$defs/%78",
    "#n",
    "#/nowhere",
    "",
    "x",
    "#/%ZZ",
    "https://example.com/s",
    "file:///etc/passwd",
    "\u{0}",
    "https://json-schema.org/draft/2020-12/schema",
];
const PATTERNS: &[&str] =
    &["^a", "(a+)+$", "(?=a)x", "(", "[", "\\p{L}", "^(a|a)*$", "a{1000}", "(a{99}){99}", ""];
const TYPES: &[&str] = &["object", "array", "string", "number", "integer", "boolean", "null", "any", ""];

/// A keyword with what it takes, and sometimes with what it does not.
fn keyword(inner: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = (String, Value)> {
    let named = |names: &'static [&'static str], of: BoxedStrategy<Value>| {
        (select(names), of).prop_map(|(name, value)| (name.to_owned(), value)).boxed()
    };
    let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array).boxed();
    let map = prop::collection::btree_map(key(), inner.clone(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
        .boxed();
    let names = prop::collection::vec(key(), 0..3).prop_map(Value::from).boxed();
    let text = |texts: &'static [&'static str]| select(texts).prop_map(Value::from).boxed();
    let numbers =
        select(vec![json!(0), json!(1), json!(-1), json!(2.5), json!(1e308), json!(1e-300), json!(u64::MAX)]);
    let patterned = (select(PATTERNS), inner.clone()).prop_map(|(pattern, schema)| json!({pattern: schema}));
    prop_oneof![
        3 => named(&["$ref", "$dynamicRef"], text(TARGETS)),
        3 => named(&["type"], text(TYPES)),
        3 => named(&["properties", "$defs", "dependentSchemas"], map),
        3 => named(&["anyOf", "allOf", "oneOf", "prefixItems"], list),
        3 => named(&["items", "not", "additionalProperties", "contains", "if", "then", "else", "propertyNames",
            "unevaluatedProperties", "unevaluatedItems"], inner.boxed()),
        2 => named(&["required"], names),
        1 => named(&["enum"], prop::collection::vec(value(), 0..4).prop_map(Value::Array).boxed()),
        1 => named(&["pattern"], text(PATTERNS)),
        1 => named(&["patternProperties"], patterned.boxed()),
        1 => named(&["format"], text(&["date", "uri", "regex", "email", "ipv6", "nothing"])),
        1 => named(&["minimum", "maximum", "multipleOf", "minLength", "maxItems", "minContains", "exclusiveMinimum"],
            numbers.boxed()),
        1 => named(&["const", "default", "$comment", "strange", "type", "properties", "required", "anyOf", "items",
            "pattern", "minimum", "$ref", "$id", "$anchor", "$schema"], value().boxed()),
        1 => named(&["$anchor", "$id", "$dynamicAnchor"], text(&["n", "x", "https://example.com/s", "#", ""])),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let of = |keywords: Vec<(String, Value)>| Value::Object(keywords.into_iter().collect());
    let leaf = prop_oneof![
        select(vec![json!(true), json!(false), json!({})]),
        select(TYPES).prop_map(|name| json!({"type": name})),
        select(TARGETS).prop_map(|target| json!({"$ref": target})),
    ];
    let part =
        leaf.prop_recursive(5, 60, 4, move |inner| prop::collection::vec(keyword(inner), 0..4).prop_map(of));
    let whole = (prop::collection::vec(keyword(part.clone()), 0..5), part.clone(), part, 0..12_usize);
    whole.prop_map(move |(keywords, x, y, deep)| {
        let mut whole = of(keywords);
        whole["$defs"] = json!({"x": x, "y": y});
        // Now and then too deep for JSON.
        for _ in 0..if deep == 11 { 70 } else { deep / 4 } {
            let defs = whole["$defs"].take();
            whole = json!({"properties": {"a": whole}, "$defs": defs});
        }
        whole
    })
}

/// What a model writes: mostly an object, seldom no JSON.
fn written() -> impl Strategy<Value = String> {
    let object = prop::collection::btree_map(key(), value(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
        .boxed();
    let deep = (object.clone(), 0..140_usize).prop_map(|(mut value, levels)| {
        for level in 0..levels {
            value = if level % 5 == 4 { json!([value]) } else { json!({"a": value}) };
        }
        json!({"a": value})
    });
    prop_oneof![
        6 => object.prop_map(|value| value.to_string()),
        3 => deep.prop_map(|value| value.to_string()),
        1 => value().prop_map(|value| value.to_string()),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_schema_and_no_arguments_do_harm(schema in schema(), written in prop::collection::vec(written(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let began = Instant::now();
        let calls = runtime.block_on(async {
            let got = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&got);
            let tool = ToolDefinition::new("t", "A tool.", &schema);
            let script = Script::new("s", vec![tool]).answering(move |call| {
                seen.lock().push(Value::Object(call.arguments.clone()));
                Ok(ToolOutput::text("done"))
            });
            let toolbox = open(json!({"cache": {"enabled": false}}), &[&Arc::new(script)]).await;
            // A schema that is none leaves its tool out.
            if toolbox.catalog().get("t").is_none() {
                return Vec::new();
            }
            let mut calls = Vec::new();
            for text in &written {
                let result = call_with(&toolbox, "t", text, &someone()).await;
                calls.push((text, result, got.lock().pop()));
            }
            calls
        });
        prop_assert!(began.elapsed() < Duration::from_secs(10), "{} {:?}", schema, written);
        for (text, result, got) in calls {
            match result {
                Ok(_) => prop_assert_eq!(Some(serde_json::from_str(text).unwrap_or(json!({}))), got),
                Err(error) => {
                    prop_assert_eq!(error.code, ToolErrorCode::InvalidArguments, "{}", error);
                    prop_assert!(!error.message.is_empty() && error.message.chars().count() < 2200, "{}", error);
                    prop_assert!(got.is_none());
                }
            }
        }
    }
}
