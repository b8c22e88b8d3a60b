//! Holds every body and event that a test sees against `openapi.yaml`.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

/// The document.
pub static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_norway::from_str(include_str!("../../../openapi.yaml")).expect("openapi.yaml is YAML")
});

/// An operation of the document.
pub struct Operation {
    /// In capitals.
    pub method: String,
    pub path: &'static str,
    /// Whether it needs no key.
    pub is_open: bool,
    /// What the document says of it.
    pub described: &'static Value,
}

/// All operations of the document. A unit test of the route table holds that these are all routes and no others.
pub fn operations() -> impl Iterator<Item = Operation> {
    let methods = ["get", "post", "put", "patch", "delete"];
    let paths = DOCUMENT["paths"].as_object().expect("paths").iter();
    paths.flat_map(move |(path, item)| {
        let operations = item.as_object().expect("operations").iter();
        operations.filter(move |(method, _)| methods.contains(&method.as_str())).map(
            move |(method, described)| {
                let is_open = described["security"].as_array().is_some_and(Vec::is_empty);
                Operation { method: method.to_uppercase(), path, is_open, described }
            },
        )
    })
}

/// A path whose variable parts are all `some-id`.
pub fn example_path(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "some-id" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

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
