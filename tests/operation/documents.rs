//! The documents and the code say the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use antwort::config::DEFAULT_CONFIG;
use antwort_protocol::request::{FIELDS, NO_OPS};
use serde_json::Value;

use antwort_test_support::gateway::Gateway;
use antwort_test_support::openapi::{DOCUMENT, Operation, example_path, operations};
use antwort_test_support::upstream::Upstream;

const COMPATIBILITY: &str = include_str!("../../docs/compatibility.md");
const REQUIREMENTS: &str = include_str!("../../docs/dev/requirements.md");
const OPEN_RESPONSES: &str = include_str!("../../docs/dev/open-responses.md");
const SECURITY: &str = include_str!("../../docs/security.md");
const OPERATIONS: &str = include_str!("../../docs/operations.md");
const TOOLS: &str = include_str!("../../docs/tools.md");
const EXAMPLE: &str = include_str!("../../examples/custom_tool.rs");

#[test]
fn every_operation_that_needs_a_key_documents_its_refusals() {
    for Operation { method, path, is_open, described } in operations() {
        let has = |status: &str| described["responses"].get(status).is_some();
        // Web pages are refused everywhere.
        assert_eq!((has("401"), has("403")), (!is_open, true), "{method} {path}");
    }
}

#[test]
fn the_page_on_operations_lists_every_field_of_the_log() {
    let section = OPERATIONS.split("\n## ").find(|section| section.starts_with("Logs\n")).expect("a section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let listed: BTreeSet<&str> = rows
        .flat_map(|row| row.split(" |").next().unwrap_or_default().split('`').skip(1).step_by(2))
        .collect();
    let fields: BTreeSet<&str> = antwort_telemetry::fields::ALL.iter().copied().collect();
    assert_eq!(listed, fields);
}

#[test]
fn every_view_of_a_direct_call_has_its_schema() {
    let execute = &DOCUMENT["paths"]["/v1/tools/{name}/execute"]["post"];
    let views =
        execute["parameters"].as_array().unwrap().iter().find(|parameter| parameter["name"] == "view");
    let views = views.unwrap()["schema"]["enum"].as_array().unwrap();
    let shapes = &execute["responses"]["200"]["content"]["application/json"]["schema"]["oneOf"];
    let named = |view: &str| match view {
        "antwort" => "#/components/schemas/ToolResult".to_owned(),
        other => format!("#/components/schemas/ToolResult{}{}", other[..1].to_uppercase(), &other[1..]),
    };
    let expected: Vec<_> = views.iter().map(|view| named(view.as_str().unwrap())).collect();
    let found: Vec<_> =
        shapes.as_array().unwrap().iter().map(|shape| shape["$ref"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, expected);
}

/// Generators make of a mapping how a client tells variants apart.
#[test]
fn every_discriminator_maps_each_value_of_its_variants_to_it() {
    let mut checked = BTreeSet::new();
    for (name, schema) in schemas().iter().filter(|(_, schema)| schema.get("discriminator").is_some()) {
        let property = schema["discriminator"]["propertyName"].as_str().unwrap();
        let mut expected = Vec::new();
        for variant in schema["oneOf"].as_array().unwrap() {
            let values = values_of(variant, property)
                .unwrap_or_else(|| panic!("{name}: {variant} may be without a listed `{property}`"));
            expected.extend(values.into_iter().map(|value| (value, variant["$ref"].as_str().unwrap())));
        }
        let mapping = schema["discriminator"]["mapping"].as_object().unwrap();
        let found: BTreeSet<_> =
            mapping.iter().map(|(value, target)| (value.clone(), target.as_str().unwrap())).collect();
        assert_eq!(found.len(), expected.len(), "{name}: two variants share a `{property}`");
        assert_eq!(found, expected.into_iter().collect(), "{name}");
        checked.insert(name.as_str());
    }
    for name in ["TypedItemParam", "OutputItem", "ItemResource", "StreamEvent", "TypedToolParam", "TypedTool"]
    {
        assert!(checked.contains(name), "{name}");
    }
}

#[test]
fn every_union_whose_variants_all_say_their_type_has_a_discriminator() {
    fn walk(node: &Value, place: &str, unions: &mut usize) {
        let variants = ["oneOf", "anyOf"].iter().find_map(|key| node.get(*key)).and_then(Value::as_array);
        if let Some(variants) = variants {
            // Null has no type to tell it by: such a union nests the discriminated one.
            let objects: Vec<_> = variants.iter().filter(|variant| variant["type"] != "null").collect();
            if objects.len() > 1 && objects.iter().all(|variant| values_of(variant, "type").is_some()) {
                *unions += 1;
                assert!(node["discriminator"]["propertyName"].is_string(), "{place} has no discriminator");
            }
        }
        match node {
            Value::Object(members) => {
                members.iter().for_each(|(key, member)| walk(member, &format!("{place}/{key}"), unions));
            }
            Value::Array(members) => {
                members
                    .iter()
                    .enumerate()
                    .for_each(|(i, member)| walk(member, &format!("{place}/{i}"), unions));
            }
            _ => {}
        }
    }
    let mut unions = 0;
    walk(&DOCUMENT, "", &mut unions);
    assert!(unions > 15, "{unions}");
}

/// Items of a response are items of the conversation, too; the messages of the client and its trigger come on top.
#[test]
fn a_stored_item_is_whatever_an_output_item_is() {
    let variants = |name: &str| -> BTreeSet<&str> {
        let refs = schemas()[name]["oneOf"].as_array().unwrap().iter();
        refs.map(|variant| variant["$ref"].as_str().unwrap().rsplit('/').next().unwrap()).collect()
    };
    let mut expected = variants("OutputItem");
    assert!(expected.remove("OutputMessage"));
    expected.extend(["Message", "CompactionTrigger"]);
    assert_eq!(variants("ItemResource"), expected);
    assert_eq!(variants("Message"), BTreeSet::from(["InputMessage", "OutputMessage"]));
}

fn schemas() -> &'static serde_json::Map<String, Value> {
    DOCUMENT["components"]["schemas"].as_object().unwrap()
}

/// The values that a property of a schema may have, if it must be there and they are listed.
fn values_of(schema: &Value, property: &str) -> Option<BTreeSet<String>> {
    let schema = resolved(schema);
    if let Some(variants) = schema["oneOf"].as_array() {
        let each: Option<Vec<_>> = variants.iter().map(|variant| values_of(variant, property)).collect();
        return Some(each?.into_iter().flatten().collect());
    }
    requires(schema, property).then(|| listed(schema, property)).flatten()
}

fn requires(schema: &Value, property: &str) -> bool {
    let schema = resolved(schema);
    let own = schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == property));
    own || parts_of(schema).iter().any(|part| requires(part, property))
}

fn listed(schema: &Value, property: &str) -> Option<BTreeSet<String>> {
    let schema = resolved(schema);
    let own = &schema["properties"][property];
    let values =
        own["enum"].as_array().cloned().or_else(|| own.get("const").map(|value| vec![value.clone()]));
    match values {
        Some(values) => values.iter().map(|value| value.as_str().map(str::to_owned)).collect(),
        None => parts_of(schema).iter().find_map(|part| listed(part, property)),
    }
}

fn parts_of(schema: &Value) -> &[Value] {
    schema["allOf"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn resolved(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(target) => &schemas()[target.rsplit('/').next().unwrap()],
        None => schema,
    }
}

#[tokio::test]
async fn every_documented_operation_is_served_below_every_prefix() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for operation in operations() {
        let Some(path) = operation.path.strip_prefix("/v1") else {
            assert_served(&gateway, &operation.method, operation.path).await;
            continue;
        };
        for prefix in ["/v1", "", "/openai/v1"] {
            assert_served(&gateway, &operation.method, &format!("{prefix}{path}")).await;
        }
    }
}

async fn assert_served(gateway: &Gateway, method: &str, path: &str) {
    let path = example_path(path);
    let request = gateway.http.request(method.parse().unwrap(), format!("{}{path}", gateway.base));
    let answer = gateway.send(request).await;
    let code = answer.body["error"]["code"].as_str().unwrap_or_default();
    assert!(
        !matches!(code, "unknown_url" | "method_not_allowed" | "internal_error"),
        "{method} {path}: {code}"
    );
}

#[test]
fn the_page_on_compatibility_mentions_every_field_and_every_no_op() {
    let first_column: BTreeSet<&str> =
        COMPATIBILITY.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let missing: Vec<_> = FIELDS.iter().filter(|field| !first_column.contains(**field)).collect();
    assert!(missing.is_empty(), "docs/compatibility.md does not say what happens to {missing:?}");
    let missing: Vec<_> =
        NO_OPS.iter().filter(|(path, _)| !COMPATIBILITY.contains(&format!("`{path}`"))).collect();
    assert!(missing.is_empty(), "docs/compatibility.md does not say that nothing happens for {missing:?}");
}

#[test]
fn the_page_on_tools_quotes_the_example_as_it_is() {
    let quoted =
        TOOLS.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```")).map(|(code, _)| code);
    assert_eq!(quoted, Some(EXAMPLE), "docs/tools.md and examples/custom_tool.rs differ");
}

#[test]
fn the_page_on_tools_names_every_layer_in_its_order() {
    let (_, layers) =
        include_str!("../../crates/tools/src/stack.rs").split_once("ServiceBuilder::new()").unwrap();
    let (_, mut rest) = TOOLS.split_once("## Layers").unwrap();
    for line in layers.lines().filter_map(|line| line.trim().strip_prefix(".layer(layer_fn(")) {
        let name = line.trim_start_matches("|inner| ").split("::").next().unwrap();
        let found = rest.split_once(&format!("`{name}`"));
        (_, rest) = found.unwrap_or_else(|| panic!("docs/tools.md does not name {name} in its place"));
    }
}

/// A setting in angle brackets is one of many by name, and one that is not set by default has no value; the comments
/// of the defaults mention both.
#[test]
fn settings_that_the_page_on_security_names_exist_with_these_defaults() {
    let tree: Value = serde_norway::from_str(DEFAULT_CONFIG).expect("YAML");
    let mut checked = 0;
    for line in SECURITY.lines() {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, setting, default, _] = cells[..] else { continue };
        let Some(path) = setting.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else { continue };
        let value =
            path.split('.').try_fold(&tree, |value, key| value.get(key)).filter(|value| !value.is_null());
        match value {
            Some(Value::String(text)) => assert_eq!(text, default, "{path}"),
            Some(value) => assert_eq!(value.to_string(), default, "{path}"),
            None => {
                let name = path.rsplit('.').next().unwrap_or_default();
                let mentioned = DEFAULT_CONFIG.lines().any(|line| line.contains('#') && line.contains(name));
                assert!(mentioned, "config/default.yaml does not know {path}");
                assert!(path.contains('<') || default.starts_with("not set"), "{path} has no default");
            }
        }
        checked += 1;
    }
    assert!(checked > 40, "{checked} settings");
}

/// The groups of the Open Responses specification's requirements, and how many each has.
const OPEN_RESPONSES_HAS: [(&str, usize); 13] = [
    ("H", 11),
    ("R", 11),
    ("I", 17),
    ("S", 12),
    ("G", 5),
    ("E", 6),
    ("T", 5),
    ("C", 8),
    ("P", 7),
    ("X", 4),
    ("W", 17),
    ("K", 7),
    ("N", 8),
];

#[test]
fn every_requirement_of_open_responses_has_one_line_with_a_state_and_what_shows_it() {
    let expected: Vec<String> = OPEN_RESPONSES_HAS
        .iter()
        .flat_map(|(group, count)| (1..=*count).map(move |number| format!("{group}{number}")))
        .collect();
    assert_eq!(expected.len(), 118);
    let is_id = |cell: &str| expected.iter().any(|id| id == cell);
    let mut found = Vec::new();
    for line in OPEN_RESPONSES.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let ["", id, asked, state, shown_by, ""] = cells[..] else { continue };
        if !is_id(id) {
            continue;
        }
        assert!(asked.len() > 8, "what is asked for: {line}");
        assert!(["pass", "deviation", "not built"].contains(&state), "a state: {line}");
        let named = shown_by.split('`').skip(1).step_by(2).any(is_named_test);
        let reason = shown_by.split(' ').count() >= 5;
        match state {
            "pass" => assert!(named || reason, "the test that shows it: {line}"),
            "deviation" => assert!(reason, "the reason: {line}"),
            _ => assert_eq!(shown_by, "", "what is not built is shown by nothing: {line}"),
        }
        found.push(id.to_owned());
    }
    assert_eq!(found, expected, "docs/dev/open-responses.md has each requirement once, in order");
}

/// The five documents, and how many things each asks for.
const REQUIREMENTS_OF: [(&str, usize); 5] = [("000", 38), ("001", 26), ("002", 63), ("003", 32), ("004", 45)];

#[test]
fn every_requirement_has_one_line_with_a_phrase_a_state_and_what_shows_it() {
    let mut expected = Vec::new();
    for (document, count) in REQUIREMENTS_OF {
        expected.extend((1..=count).map(|row| format!("{document}-{row:02}")));
    }
    assert_eq!(expected.len(), 204);
    let mut found = Vec::new();
    for line in REQUIREMENTS.lines().filter(|line| line.starts_with("| 0")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [row, phrase, state, shown_by] = cells[..] else { panic!("not four cells: {line}") };
        assert!(phrase.split(' ').count() >= 3 || phrase.len() > 12, "a phrase that stands alone: {line}");
        assert!(["done", "in part", "differs", "left"].contains(&state), "a state: {line}");
        assert_eq!(state == "in part", shown_by.contains("Missing: "), "what is missing: {line}");
        let named = shown_by.split('`').skip(1).step_by(2);
        let shown = named.clone().any(|name| is_test(name) || name.contains('/') || name.contains("::"));
        assert!(shown || state == "left", "the test or file that shows it: {line}");
        assert!(!shown_by.is_empty(), "a reason: {line}");
        found.push(row.to_owned());
    }
    assert_eq!(found, expected, "docs/dev/requirements.md has each row once, in order");
}

#[test]
fn tests_that_the_page_on_open_responses_names_exist() {
    let sources = all_sources();
    let names = OPEN_RESPONSES.split('`').skip(1).step_by(2).filter(|name| is_named_test(name));
    let missing: Vec<_> = names.filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "docs/dev/open-responses.md names tests that do not exist: {missing:?}");
}

/// Whether a name on that page is a test's: golden transcripts have short ones, and codes may be long.
fn is_named_test(name: &str) -> bool {
    name != "previous_response_not_found" && (is_test(name) || name.ends_with("_order"))
}

#[test]
fn tests_and_files_that_the_requirements_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = all_sources();
    let names = || REQUIREMENTS.split('`').skip(1).step_by(2);
    let missing: Vec<_> = names()
        .filter(|name| is_test(name))
        .filter(|name| !sources.contains(&format!("fn {name}(")))
        .collect();
    assert!(missing.is_empty(), "docs/dev/requirements.md names tests that do not exist: {missing:?}");
    let exists = |path: &str| root.join(path).exists() || root.join("src").join(path).exists();
    let missing: Vec<_> = names()
        .filter(|name| name.contains('/') && !name.contains(' '))
        .filter(|name| [".rs", ".py", ".mjs"].iter().any(|end| name.ends_with(end)))
        .filter(|path| !exists(path))
        .collect();
    assert!(missing.is_empty(), "docs/dev/requirements.md names files that do not exist: {missing:?}");
}

/// Whether a name in the requirements is that of a test: tests are sentences.
fn is_test(name: &str) -> bool {
    let letters = name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
    letters && (name.matches('_').count() > 2 || SHORT_TESTS.contains(&name))
}

/// Tests whose names are too short to be told from other names.
const SHORT_TESTS: [&str; 7] =
    ["six_fields", "values", "mistakes", "files_inside", "zones", "formats", "bombs_are_defused"];

#[test]
fn no_dollar_of_the_documents_is_lost_in_a_shell() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut commands = 0;
    for page in pages.chain(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name))) {
        let text = fs::read_to_string(&page).unwrap();
        for block in text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            commands += 1;
            // What a shell would take for the first, second, … argument of a script.
            let lines = block.lines().filter(|line| !line.starts_with('#'));
            let code: Vec<_> = lines.map(|line| line.split(" # ").next().unwrap_or_default()).collect();
            let bare: String = code.join("\n").split('\'').step_by(2).collect();
            let lost = bare
                .match_indices('$')
                .find(|(at, _)| bare[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
            assert!(lost.is_none(), "{}: a shell empties a variable in {block}", page.display());
        }
    }
    assert!(commands > 5);
}

/// The text of all Rust files.
fn all_sources() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    read_sources(&root.join("src"), &mut sources);
    read_sources(&root.join("crates"), &mut sources);
    read_sources(&root.join("tests"), &mut sources);
    sources
}

/// The text of all Rust files below a directory.
fn read_sources(directory: &Path, sources: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}
