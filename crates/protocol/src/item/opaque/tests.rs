//! What comes is what is written, but for an id, a status and the prefix of a dialect.

use serde_json::value::RawValue;

use super::OpaqueItem;
use super::kinds::KINDS;
use crate::dialect::Dialect;
use crate::id::Id;
use crate::item::Item;
use crate::parse::FromJson;

/// A field that nobody knows, in a spelling that nothing would write again.
const ODD: &str = r#" "later" : {"z":1.50,"a":[1E2, -0.0],"\u0041":"\u00e9\/\n","a":null}"#;

fn read(text: &str) -> Item {
    let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
    Item::from_json(&raw).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn written(item: &Item) -> String {
    serde_json::to_string(item).unwrap()
}

fn in_dialect(item: &Item, dialect: Dialect, begins: bool) -> String {
    serde_json::to_string(&item.in_dialect(dialect, begins)).unwrap()
}

/// The required fields of each kind.
fn required(kind: &str) -> &'static str {
    match kind {
        "computer_call" | "apply_patch_call_output" => r#""call_id":"c""#,
        "computer_call_output" => r#""call_id":"c","output":{"image_url":"https://x"}"#,
        "code_interpreter_call" => r#""container_id":"c""#,
        "local_shell_call" => r#""call_id":"c","action":{"command":["ls"]}"#,
        "local_shell_call_output" => r#""output":"o""#,
        "shell_call" => r#""call_id":"c","action":{"commands":[]}"#,
        "shell_call_output" => r#""call_id":"c","output":[]"#,
        "apply_patch_call" => r#""call_id":"c","operation":{"type":"rename_file","path":"p"}"#,
        "tool_search_call" => r#""arguments":null"#,
        "tool_search_output" => r#""tools":[]"#,
        "program" => r#""call_id":"c","code":"x","fingerprint":"f""#,
        "program_output" => r#""call_id":"c","result":"r""#,
        _ => r#""results":null"#,
    }
}

#[test]
fn an_item_that_is_only_carried_is_written_byte_for_byte_as_it_came() {
    for kind in &KINDS {
        let (name, fields) = (kind.name, required(kind.name));
        let sent = format!(
            "{{{ODD},\n\t\"id\": \"x\\u005f1\", {fields} ,\"status\":\"failed\",\"type\":\"{name}\"}}"
        );
        let item = read(&sent);
        assert!(matches!(&item, Item::Opaque(carried) if carried.kind() == name));
        assert_eq!((written(&item), item.id().as_str()), (sent.clone(), "x_1"));
        assert_eq!(in_dialect(&item, Dialect::OpenAi, true), sent);
        let stored: Item = serde_json::from_str(&written(&item)).unwrap();
        assert_eq!(written(&stored), sent);
    }
}

#[test]
fn an_id_and_a_status_that_are_not_there_are_written_into_the_text() {
    for kind in &KINDS {
        let (name, fields) = (kind.name, required(kind.name));
        for (id, status) in
            [("", ""), (r#","id":null"#, r#","status":null"#), (r#","id":"""#, r#","status":null"#)]
        {
            let item = read(&format!(r#"{{ "type":"{name}"{id}, {fields},{ODD}{status} }}"#));
            let id = item.id();
            assert!(id.as_str().starts_with(&format!("{}_", kind.id_prefix)), "{id}");
            let completed = if kind.has_status { r#","status":"completed""# } else { status };
            let expected = format!(r#"{{ "type":"{name}","id":"{id}", {fields},{ODD}{completed} }}"#);
            assert_eq!(written(&item), expected);
        }
    }
}

#[test]
fn the_other_dialect_adds_its_prefix_and_a_status_and_takes_both_away_again() {
    for kind in &KINDS {
        let (name, fields) = (kind.name, required(kind.name));
        let status = if kind.has_status { r#","status":"in_progress""# } else { "" };
        let sent = format!(r#"{{"type" :"{name}", "id":"i",{ODD},{fields}{status} }}"#);
        let item = read(&sent);
        let foreign = in_dialect(&item, Dialect::OpenResponses, true);
        let expected = sent.replace(&format!(r#""{name}""#), &format!(r#""antwort:{name}""#));
        let expected = match kind.has_status {
            true => expected,
            false => expected.replace(" }", r#","status":"in_progress" }"#),
        };
        assert_eq!(foreign, expected);
        assert_eq!(written(&read(&foreign)), sent);
    }
    let first = read(
        r#"{"status":"completed", "type":"antwort:program","id":"i","call_id":"c","code":"","fingerprint":""}"#,
    );
    assert_eq!(written(&first), r#"{ "type":"program","id":"i","call_id":"c","code":"","fingerprint":""}"#);
}

#[test]
fn another_id_replaces_the_one_in_the_text() {
    let mut item =
        read(&format!(r#"{{{ODD},"type":"image_generation_call", "id" : "ig_1" ,"status":"generating"}}"#));
    item.set_id(Id::from("ig_\"2"));
    let expected =
        format!(r#"{{{ODD},"type":"image_generation_call", "id" : "ig_\"2" ,"status":"generating"}}"#);
    assert_eq!((written(&item), item.id().as_str()), (expected, "ig_\"2"));
}

#[test]
fn a_text_is_found_by_its_path() {
    let item =
        read(r#"{"type":"computer_call_output","call_id":"c\n","output":{"image_url":"https://x","n":1}}"#);
    let Item::Opaque(item) = item else { panic!("typed") };
    let text = |path: &[&str]| OpaqueItem::text(&item, path).map(|text| text.into_owned());
    assert_eq!(text(&["call_id"]).as_deref(), Some("c\n"));
    assert_eq!(text(&["output", "image_url"]).as_deref(), Some("https://x"));
    for path in [["output", "n"], ["output", "file_id"], ["call_id", "image_url"]] {
        assert_eq!(text(&path), None);
    }
}
