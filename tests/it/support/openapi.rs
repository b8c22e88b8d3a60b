//! Holds every body and event that a test sees against `openapi.yaml`.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

/// The document.
pub static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_norway::from_str(include_str!("../../../openapi.yaml")).expect("openapi.yaml is YAML")
});

static RESPONSE: LazyLock<Validator> = LazyLock::new(|| schema("Response"));
static EVENT: LazyLock<Validator> = LazyLock::new(|| schema("StreamEvent"));
static ERROR: LazyLock<Validator> = LazyLock::new(|| schema("ErrorBody"));
static ITEMS: LazyLock<Validator> = LazyLock::new(|| schema("ItemList"));

fn schema(name: &str) -> Validator {
    let root = json!({"$ref": format!("#/components/schemas/{name}"), "components": DOCUMENT["components"]});
    jsonschema::draft202012::new(&root).expect("the schema compiles")
}

/// Panics unless the value is a response object as documented.
pub fn assert_response(value: &Value) {
    check(&RESPONSE, "Response", value);
}

/// Panics unless the value is a stream event as documented.
pub fn assert_event(value: &Value) {
    check(&EVENT, "StreamEvent", value);
}

/// Panics unless the value is an error body as documented.
pub fn assert_error(value: &Value) {
    check(&ERROR, "ErrorBody", value);
}

/// Panics unless the value is a list of items as documented.
pub fn assert_items(value: &Value) {
    check(&ITEMS, "ItemList", value);
}

/// Panics unless the value is as the document says of this schema.
pub fn assert_is(name: &str, value: &Value) {
    check(&schema(name), name, value);
}

fn check(validator: &Validator, name: &str, value: &Value) {
    let errors: Vec<_> =
        validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(errors.is_empty(), "not a {name}: {errors:#?}\n{value:#}");
}
