//! Fields inside the objects of a request that have no effect here: found when the request is read, judged when the
//! policy is known.

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::value::RawValue;

use super::body::{Key, RawFields, split_fields};
use super::field_table::{FieldUse, RequestObject};
use crate::error::ApiError;
use crate::parse::{self, FromJson, ParseError, truncate_for_display};
use crate::tool::Tool;

/// A field without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnservedField {
    /// Where it stands.
    pub path: String,
    /// Why it is not supported; `None`: the API has no such field.
    pub why: Option<&'static str>,
    /// Whether it may be ignored.
    pub(crate) is_optional: bool,
}

impl UnservedField {
    /// The error where such fields are refused.
    fn refusal(&self, why: &str) -> ApiError {
        let mut message = format!("Unsupported '{}': {why}", self.path);
        if self.is_optional {
            message.push_str(
                " With the gateway's setting 'compat.unknown_fields: ignore' the field is ignored.",
            );
        }
        ApiError::unsupported(self.path.clone(), message)
    }
}

/// Refuses fields that ask for what would not happen, or returns their paths if they are `tolerated` and may be ignored; those
/// that the API does not have are ignored in any case.
pub fn judge_unserved(found: Vec<UnservedField>, tolerated: bool) -> Result<Vec<String>, ApiError> {
    let mut refused = found.iter().filter(|field| !(tolerated && field.is_optional));
    if let Some((field, why)) = refused.find_map(|field| Some((field, field.why?))) {
        return Err(field.refusal(why));
    }
    Ok(found.into_iter().map(|field| field.path).collect())
}

/// Reads definitions of tools, and finds those in them on the way.
pub(super) fn read_tools(
    raw: &RawValue,
    path: &str,
    found: &mut Vec<UnservedField>,
) -> Result<Vec<Tool>, ParseError> {
    let read = |(i, raw): (usize, &RawValue)| {
        parse::check_cancelled()?;
        let fields = split_fields(raw.get().as_bytes());
        // Objects with an `id` or a `role` are read as such, which checks these.
        let has = |name: &str| matches!(name, "id" | "role");
        let plain = fields.as_ref().ok().filter(|fields| !fields.iter().any(|(name, _)| has(name)));
        let tool = match plain.and_then(kind_of) {
            Some(kind) => Tool::of_type(&kind, raw),
            None => Tool::from_json(raw),
        };
        let (tool, path) = (tool.map_err(|error| error.at(i))?, format_args!("{path}[{i}]"));
        match fields {
            Ok(fields) => in_tool_fields(fields, &path, true, found),
            Err(_) => in_large_tool(raw, &path, found),
        }
        Ok(tool)
    };
    parse::elements(raw)?.into_iter().enumerate().map(read).collect()
}

/// Finds those of the definitions of tools at a path.
pub(super) fn in_tools(raw: &RawValue, path: &str, found: &mut Vec<UnservedField>) {
    for (i, tool) in parse::elements(raw).unwrap_or_default().into_iter().enumerate() {
        in_tool(tool, &format_args!("{path}[{i}]"), true, found);
    }
}

/// Finds those of an object of the table.
pub(super) fn in_object(name: &str, raw: &RawValue, found: &mut Vec<UnservedField>) {
    if let Some(object) = RequestObject::named(name) {
        in_text(object, raw, &name, found);
    }
}

/// `nests`: it may hold other definitions.
fn in_tool(raw: &RawValue, path: &dyn Display, nests: bool, found: &mut Vec<UnservedField>) {
    match split_fields(raw.get().as_bytes()) {
        Ok(fields) => in_tool_fields(fields, path, nests, found),
        Err(_) => in_large_tool(raw, path, found),
    }
}

fn in_tool_fields(fields: RawFields<'_>, path: &dyn Display, nests: bool, found: &mut Vec<UnservedField>) {
    let Some(object) = kind_of(&fields).as_deref().and_then(RequestObject::tool) else { return };
    in_fields(object, fields, path, found, |name, value, found| match name {
        "tools" if nests => {
            for (i, member) in parse::elements(value).unwrap_or_default().into_iter().enumerate() {
                in_tool(member, &format_args!("{path}.tools[{i}]"), false, found);
            }
        }
        "function" => in_text(object, value, &format_args!("{path}.function"), found),
        _ => {}
    });
}

fn in_large_tool(raw: &RawValue, path: &dyn Display, found: &mut Vec<UnservedField>) {
    let kind = parse::peek_discriminator(raw).ok().and_then(|seen| seen.kind);
    if kind.as_deref().and_then(RequestObject::tool).is_some() {
        found.push(too_many_fields(path));
    }
}

/// The only `type`, if it is a text.
fn kind_of<'a>(fields: &RawFields<'a>) -> Option<Cow<'a, str>> {
    let mut kinds = fields.iter().filter(|(name, _)| name == "type").map(|(_, kind)| kind);
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return None };
    serde_json::from_str::<Key<'a>>(kind.get()).ok().map(|text| text.0)
}

fn in_text(object: &RequestObject, raw: &RawValue, path: &dyn Display, found: &mut Vec<UnservedField>) {
    match split_fields(raw.get().as_bytes()) {
        Ok(fields) => in_fields(object, fields, path, found, |_, _, _| {}),
        Err(_) if raw.get().starts_with('{') => found.push(too_many_fields(path)),
        Err(_) if parse::is_null(raw) => {}
        Err(_) => found.push(refused("it is not an object.", path)),
    }
}

fn too_many_fields(path: &dyn Display) -> UnservedField {
    refused("it has too many fields to be checked.", path)
}

fn refused(why: &'static str, path: &dyn Display) -> UnservedField {
    UnservedField { path: path.to_string(), why: Some(why), is_optional: false }
}

fn in_fields(
    object: &RequestObject,
    fields: RawFields<'_>,
    path: &dyn Display,
    found: &mut Vec<UnservedField>,
    mut inner: impl FnMut(&str, &RawValue, &mut Vec<UnservedField>),
) {
    for (name, value) in fields {
        let (why, is_optional) = match object.use_of(&name, value) {
            FieldUse::Accepted => {
                inner(&name, value, found);
                continue;
            }
            FieldUse::Refused(field) => (Some(field.why), field.is_optional),
            FieldUse::Unknown if parse::is_null(value) => continue,
            FieldUse::Unknown => (None, true),
        };
        let path = format!("{path}.{}", truncate_for_display(&name));
        found.push(UnservedField { path, why, is_optional });
    }
}

#[cfg(test)]
mod tests {
    use crate::request::CreateResponse;
    use crate::request::field_table::REQUEST_OBJECTS;

    fn found(fields: &str) -> Vec<(String, bool)> {
        let body = format!(r#"{{"model":"m","input":"x",{fields}}}"#);
        let request =
            CreateResponse::parse(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error:?}"));
        request.unserved_fields.into_iter().map(|field| (field.path, field.why.is_some())).collect()
    }

    #[test]
    fn fields_are_found_wherever_tools_are_defined() {
        let tools = r#""tools":[
            {"type":"function","name":"f","parameters":{"async":true},"async":true,"x":1,"y":null},
            {"type":"function","function":{"name":"g","defer_loading":true}},
            {"type":"namespace","name":"n","description":"d","tools":[{"type":"custom","name":"c","async":true}]},
            {"type":"file_search","vector_store_ids":["a"],"z":1}]"#;
        let expected = [
            ("tools[0].async", true),
            ("tools[0].x", false),
            ("tools[1].function.defer_loading", true),
            ("tools[2].tools[0].async", true),
        ];
        assert_eq!(found(tools), expected.map(|(path, refused)| (path.to_owned(), refused)));
        let body = r#"{"model":"m","input":[{"role":"user","content":"x"},{"type":"additional_tools","role":"developer",
            "tools":[{"type":"function","name":"f","async":true}]}]}"#;
        let request = CreateResponse::parse(body.as_bytes()).unwrap();
        assert_eq!(request.unserved_fields[0].path, "input[1].tools[0].async");
    }

    #[test]
    fn the_type_of_a_tool_is_one_text() {
        for (tool, says) in [
            (r#"{"type":"function","type":"custom","name":"f"}"#, "duplicate field"),
            (r#"{"type":5,"name":"f"}"#, "type"),
            (r#"{"name":"f"}"#, "type"),
            ("[]", "expected an object"),
            (r#"{"type":"function","name":"f","id":5}"#, "expected"),
            (r#"{"type":"function","name":"f","role":"user","role":"user"}"#, "duplicate field"),
        ] {
            let body = format!(r#"{{"model":"m","input":"x","tools":[{tool}]}}"#);
            let error = CreateResponse::parse(body.as_bytes()).unwrap_err();
            assert!(error.body.param.unwrap().starts_with("tools[0]") && error.body.message.contains(says));
        }
        assert_eq!(
            found(r#""tools":[{"\u0074ype":"function","name":"f","function":null,"async":true}]"#).len(),
            1
        );
        assert_eq!(
            found(r#""tools":[{"type":"function","name":"f","function":5,"id":"t"}]"#),
            [("tools[0].function".into(), true), ("tools[0].id".into(), false)]
        );
    }

    #[test]
    fn a_tool_with_more_fields_than_are_checked_is_refused_and_so_is_what_it_is_about() {
        let many: String = (0..300).map(|n| format!(r#","x{n}":1"#)).collect();
        for tool in [
            format!(r#"{{"type":"function","name":"f","async":true{many}}}"#),
            r#"{"type":"mcp","server_label":"s","connector_id":"c"}"#.to_owned(),
        ] {
            let body = format!(r#"{{"model":"m","input":"x","tools":[{tool}]}}"#);
            let request = CreateResponse::parse(body.as_bytes()).unwrap();
            let error = super::judge_unserved(request.unserved_fields, true).unwrap_err();
            assert!(!error.body.message.contains("ignore"), "{}", error.body.message);
        }
    }

    #[test]
    fn values_that_mean_the_default_are_accepted() {
        let tools = r#""tools":[{"type":"function","name":"f","async":false,"defer_loading":false,"output_schema":null,
            "allowed_callers":["direct"]},
            {"type":"custom","name":"c","async":null,"defer_loading":null,"allowed_callers":["programmatic","direct"]}],
            "prompt_cache_options":{"prewarm":false,"mode":"implicit","ttl":"30m","comparison_response_id":null}"#;
        assert_eq!(found(tools), []);
        assert_eq!(
            found(r#""prompt_cache_options":{"prewarm":true}"#),
            [("prompt_cache_options.prewarm".into(), true)]
        );
    }

    #[test]
    fn the_table_has_each_object_and_each_field_of_it_once() {
        for (i, object) in REQUEST_OBJECTS.iter().enumerate() {
            assert!(REQUEST_OBJECTS[..i].iter().all(|other| other.name != object.name), "{}", object.name);
            let refused = object.refused.iter().map(|field| &field.name);
            let mut names: Vec<_> = object.honoured.iter().chain(object.no_ops).chain(refused).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}", object.name);
            assert_eq!(
                object.whole.is_some(),
                object.honoured.is_empty() && object.no_ops.is_empty(),
                "{}",
                object.name
            );
        }
    }
}
