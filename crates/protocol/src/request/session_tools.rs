//! Functions that a client declares once for its session (`antwort.tools`), and that hold for its later requests.
//!
//! They are added to the `tools` of a request as text, so that a request that is queued has them, too.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::body::{RawFields, split_fields};
use crate::error::ApiError;
use crate::json::to_raw;
use crate::parse::{self, FromJson, ParseError};
use crate::tool::Tool;

/// Most functions that a session declares.
const MAX_TOOLS: usize = 1024;
/// Most bytes of them: a connection holds them, and each of its requests has them.
const MAX_BYTES: usize = 256 << 10;
/// The request field that declares them.
const FIELD: &str = "antwort";
const MEMBER: &str = "tools";

/// A function that was declared for a session.
#[derive(Debug, Clone)]
pub struct SessionTool {
    name: String,
    raw: Box<RawValue>,
}

/// What a request has of its session.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// What it declares from now on.
    pub declared: Option<Arc<[SessionTool]>>,
    /// Its fields that are others by that.
    pub replaced: Vec<(&'static str, Box<RawValue>)>,
}

/// Takes the declaration out of the fields of a request, and adds what holds then to its tools.
pub(super) fn apply(fields: &RawFields<'_>, known: &[SessionTool]) -> Result<Session, ApiError> {
    let mut session = Session::default();
    let given = |name: &str| {
        fields.iter().find(|(key, raw)| key == name && !parse::is_null(raw)).map(|(_, raw)| *raw)
    };
    if let Some(raw) = given(FIELD).filter(|raw| raw.get().starts_with('{')) {
        let mut members = split_fields(raw.get().as_bytes())?;
        if let Some(at) = members.iter().position(|(name, _)| name == MEMBER) {
            let (_, tools) = members.swap_remove(at);
            session.declared =
                Some(declared(tools).map_err(|error| error.within(MEMBER).into_api_error(FIELD))?);
            session.replaced.push((FIELD, object(&members)));
        }
    }
    let tools = session.declared.as_deref().unwrap_or(known);
    if !tools.is_empty()
        && let Ok(own) = given("tools").map_or(Ok(Vec::new()), parse::elements)
    {
        let names: HashSet<String> = own.iter().filter_map(|raw| name(raw)).collect();
        let more = tools.iter().filter(|tool| !names.contains(&tool.name)).map(|tool| &*tool.raw);
        let all: Vec<&RawValue> = own.iter().copied().chain(more).collect();
        session.replaced.push(("tools", to_raw(&all)));
    }
    Ok(session)
}

/// Reads the functions of a declaration: functions, custom tools and namespaces, which the client runs.
pub(super) fn read(raw: &RawValue) -> Result<Vec<Tool>, ParseError> {
    check_bytes(raw)?;
    parse::elements_up_to(raw, MAX_TOOLS)?
        .iter()
        .enumerate()
        .map(|(i, raw)| tool(raw).map_err(|e| e.at(i)))
        .collect()
}

fn check_bytes(raw: &RawValue) -> Result<(), ParseError> {
    if raw.get().len() <= MAX_BYTES {
        return Ok(());
    }
    let problem = format!("at most {MAX_BYTES} bytes are allowed.");
    Err(ParseError::invalid("", problem).with_code("array_above_max_length"))
}

fn declared(raw: &RawValue) -> Result<Arc<[SessionTool]>, ParseError> {
    check_bytes(raw)?;
    let read = |(i, raw): (usize, &&RawValue)| {
        tool(raw).map_err(|error| error.at(i))?;
        Ok(SessionTool { name: name(raw).unwrap_or_default(), raw: (*raw).to_owned() })
    };
    parse::elements_up_to(raw, MAX_TOOLS)?.iter().enumerate().map(read).collect()
}

fn tool(raw: &RawValue) -> Result<Tool, ParseError> {
    match Tool::from_json(raw)? {
        tool @ (Tool::Function(_) | Tool::Custom(_) | Tool::Namespace(_)) => Ok(tool),
        _ => Err(ParseError::unsupported(
            "type",
            "only functions, custom tools and namespaces, which the client runs, are declared for a session.",
        )),
    }
}

fn name(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Named>(raw.get()).ok().map(|named| named.name)
}

fn object(members: &RawFields<'_>) -> Box<RawValue> {
    let map: std::collections::BTreeMap<&str, &RawValue> =
        members.iter().map(|(name, raw)| (name.as_ref(), *raw)).collect();
    to_raw(&map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_to(text: &str, known: &[SessionTool]) -> Result<Session, ApiError> {
        apply(&split_fields(text.as_bytes()).unwrap(), known)
    }

    #[test]
    fn functions_of_a_session_hold_for_later_requests_unless_these_name_them() {
        let first = r#"{"antwort":{"tools":[{"type":"function","name":"a"},{"type":"custom","name":"b"}],"tool_progress":true}}"#;
        let session = apply_to(first, &[]).unwrap();
        let texts: Vec<_> = session.replaced.iter().map(|(name, raw)| (*name, raw.get())).collect();
        let tools = r#"[{"type":"function","name":"a"},{"type":"custom","name":"b"}]"#;
        assert_eq!(texts, [("antwort", r#"{"tool_progress":true}"#), ("tools", tools)]);
        let known = session.declared.unwrap();
        let later = apply_to(r#"{"tools":[{"type":"function","name":"b"}]}"#, &known).unwrap();
        assert!(later.declared.is_none());
        let merged = r#"[{"type":"function","name":"b"},{"type":"function","name":"a"}]"#;
        assert_eq!(later.replaced[0].1.get(), merged);
        assert!(apply_to("{}", &[]).unwrap().replaced.is_empty());
        let none = apply_to(r#"{"antwort":{"tools":[]}}"#, &known).unwrap();
        assert_eq!(none.declared.map(|tools| tools.len()), Some(0), "and are withdrawn");
    }

    #[test]
    fn only_functions_of_the_client_are_declared() {
        let refused = |text: &str| apply_to(text, &[]).unwrap_err().body.param.unwrap();
        assert_eq!(refused(r#"{"antwort":{"tools":[{"type":"web_search"}]}}"#), "antwort.tools[0].type");
        assert_eq!(refused(r#"{"antwort":{"tools":{}}}"#), "antwort.tools");
        assert_eq!(refused(r#"{"antwort":{"tools":[{"type":"function"}]}}"#), "antwort.tools[0].name");
    }
}
