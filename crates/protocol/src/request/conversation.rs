//! Conversations: the field of a request that names one, and the bodies of the routes for them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::known_fields::KnownFields;
use super::scalar::non_empty_string;
use super::unserved::{self, UnservedField};
use super::{Metadata, RequestSizeLimits, input, session_tools};
use crate::error::ApiError;
use crate::id::Id;
use crate::item::hosted::AdditionalTools;
use crate::item::{Item, Role};
use crate::parse::{self, FromJson, ParseError};
use crate::tool::Tool;

/// The body of `POST /v1/conversations`.
#[derive(Debug, Clone, Default)]
pub struct CreateConversation {
    /// Key-value pairs of the client.
    pub metadata: Metadata,
    /// The first items.
    pub items: Vec<Item>,
    /// Bytes of `items` as sent.
    pub item_bytes: usize,
    /// Fields of its tools that have no effect.
    pub unserved_fields: Vec<UnservedField>,
}

/// The body of `POST /v1/conversations/{id}`.
#[derive(Debug, Clone)]
pub struct UpdateConversation {
    /// Replaces what was there.
    pub metadata: Metadata,
}

/// The body of `POST /v1/conversations/{id}/items`.
#[derive(Debug, Clone)]
pub struct AddItems {
    /// At least one.
    pub items: Vec<Item>,
    /// Bytes of `items` as sent.
    pub item_bytes: usize,
    /// Fields of its tools that have no effect.
    pub unserved_fields: Vec<UnservedField>,
}

impl CreateConversation {
    /// Parses a body; an empty one asks for an empty conversation.
    pub fn parse(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        let read = KnownFields::split(body, &["metadata", "items", "antwort"], limits)?;
        let mut request = Self::default();
        if let Some(raw) = read.get("metadata") {
            request.metadata = metadata(raw)?;
        }
        if let Some(raw) = read.get("items") {
            request.items = items(raw, &mut request.unserved_fields)?;
            request.item_bytes = raw.get().len();
        }
        if let Some((tools, raw)) = read.read("antwort", declared_tools)? {
            unserved::in_tools(raw, "antwort.tools", &mut request.unserved_fields);
            // As clients declare tools along the way, so that the responses of the conversation have them.
            let tools = AdditionalTools { id: Id::unnamed("adt"), role: Role::Developer, tools };
            request.items.insert(0, Item::AdditionalTools(tools));
            request.item_bytes += raw.get().len();
        }
        Ok(request)
    }
}

impl UpdateConversation {
    /// Parses a body.
    pub fn parse(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        let read = KnownFields::split(body, &["metadata"], limits)?;
        Ok(Self { metadata: metadata(read.required("metadata")?)? })
    }
}

impl AddItems {
    /// Parses a body.
    pub fn parse(body: &[u8], limits: RequestSizeLimits) -> Result<Self, ApiError> {
        let read = KnownFields::split(body, &["items"], limits)?;
        let raw = read.required("items")?;
        let mut unserved_fields = Vec::new();
        let items = items(raw, &mut unserved_fields)?;
        if items.is_empty() {
            let problem = ParseError::invalid("", "at least one item is expected.");
            return Err(problem.with_code("array_below_min_length").into_api_error("items"));
        }
        Ok(Self { items, item_bytes: raw.get().len(), unserved_fields })
    }
}

/// Reads `antwort` of a conversation: the functions that all its responses have, also as they were sent.
fn declared_tools(raw: &RawValue) -> Result<(Vec<Tool>, &RawValue), ParseError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Session<'a> {
        #[serde(borrow)]
        tools: &'a RawValue,
    }
    let session: Session<'_> = parse::read(raw)?;
    let tools = session_tools::read(session.tools).map_err(|error| error.within("tools"))?;
    Ok((tools, session.tools))
}

/// Reads `conversation`: an id, or an object with one.
pub(super) fn reference(raw: &RawValue) -> Result<String, ParseError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Reference<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    match raw.get().as_bytes().first() {
        Some(b'"') => non_empty_string(raw),
        Some(b'{') => {
            let Reference { id } = parse::read(raw)?;
            non_empty_string(id).map_err(|error| error.within("id"))
        }
        _ => {
            let got = parse::json_type(raw);
            Err(ParseError::wrong_type("", format!("expected a string or an object with 'id', got {got}.")))
        }
    }
}

fn metadata(raw: &RawValue) -> Result<Metadata, ApiError> {
    Metadata::from_json(raw).map_err(|error| error.into_api_error("metadata"))
}

fn items(raw: &RawValue, unserved: &mut Vec<UnservedField>) -> Result<Vec<Item>, ApiError> {
    input::read_stored(raw, unserved).map_err(|error| error.into_api_error("items"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::request::CreateResponse;

    fn refused<T: std::fmt::Debug>(read: Result<T, ApiError>) -> (String, String) {
        let error = read.unwrap_err();
        (error.code().to_owned(), error.body.param.unwrap_or_default())
    }

    fn add(items: &Value) -> Result<AddItems, ApiError> {
        AddItems::parse(json!({"items": items}).to_string().as_bytes(), RequestSizeLimits::default())
    }

    fn create(body: &str) -> Result<CreateConversation, ApiError> {
        CreateConversation::parse(body.as_bytes(), RequestSizeLimits::default())
    }

    #[test]
    fn a_conversation_may_begin_with_nothing_and_with_twenty_items() {
        for body in ["", " ", "{}", r#"{"items":null,"metadata":null}"#, r#"{"items":[]}"#] {
            let read = create(body).unwrap();
            assert!(read.items.is_empty() && read.metadata.0.is_empty(), "{body}");
        }
        let items: Vec<_> = (0..20).map(|_| json!({"role": "user", "content": "hi"})).collect();
        let body = json!({"items": items, "metadata": {"a": "b"}}).to_string();
        let read = create(&body).unwrap();
        assert_eq!((read.items.len(), read.metadata.0.len()), (20, 1));
        assert_eq!(read.item_bytes, json!(items).to_string().len());
    }

    #[test]
    fn wrong_items_are_refused_with_their_paths() {
        let many: Vec<_> = (0..21).map(|_| json!({"role": "user", "content": "hi"})).collect();
        let message =
            |content: Value| json!([{"role": "user", "content": "a"}, {"role": "user", "content": content}]);
        for (items, code, param) in [
            (json!(many), "array_above_max_length", "items"),
            (json!([]), "array_below_min_length", "items"),
            (json!("text"), "invalid_type", "items"),
            (message(json!([{"type": "nonsense"}])), "invalid_value", "items[1].content[0].type"),
            (
                message(json!([{"type": "input_image", "file_id": "f"}])),
                "unsupported_parameter",
                "items[1].content[0].file_id",
            ),
            (json!([{"type": "item_reference", "id": "msg_1"}]), "unsupported_parameter", "items[0].type"),
            (json!([{"type": "compaction_trigger"}]), "unsupported_parameter", "items[0].type"),
            (json!([1]), "invalid_type", "items[0]"),
        ] {
            assert_eq!(refused(add(&items)), (code.to_owned(), param.to_owned()), "{items}");
        }
        let missing = AddItems::parse(b"{}", RequestSizeLimits::default());
        assert_eq!(refused(missing), ("missing_required_parameter".into(), "items".into()));
    }

    #[test]
    fn fields_that_are_not_there_and_metadata_that_is_too_much_are_refused() {
        assert_eq!(refused(create(r#"{"item":[]}"#)), ("unknown_parameter".into(), "item".into()));
        assert_eq!(refused(create(r#"{"items":[],"items":[]}"#)), ("invalid_value".into(), "items".into()));
        assert_eq!(refused(create("[]")).0, "invalid_json");
        let update = |body: &str| UpdateConversation::parse(body.as_bytes(), RequestSizeLimits::default());
        for body in ["{}", r#"{"metadata":null}"#] {
            assert_eq!(refused(update(body)), ("missing_required_parameter".into(), "metadata".into()));
        }
        let long = json!({"metadata": {"k": "x".repeat(513)}}).to_string();
        assert_eq!(refused(update(&long)), ("string_above_max_length".into(), "metadata.k".into()));
        assert_eq!(update(r#"{"metadata":{}}"#).unwrap().metadata, Metadata::default());
    }

    #[test]
    fn a_request_names_a_conversation_by_its_id_or_an_object() {
        let named = |value: Value| {
            let body = json!({"model": "m", "conversation": value}).to_string();
            CreateResponse::parse(body.as_bytes())
        };
        for value in [json!("conv_1"), json!({"id": "conv_1"})] {
            assert_eq!(named(value).unwrap().conversation.as_deref(), Some("conv_1"));
        }
        for (value, code, param) in [
            (json!(""), "string_below_min_length", "conversation"),
            (json!({"id": ""}), "string_below_min_length", "conversation.id"),
            (json!({"id": 1}), "invalid_type", "conversation.id"),
            (json!({"id": "conv_1", "x": 1}), "unknown_parameter", "conversation.x"),
            (json!({}), "missing_required_parameter", "conversation.id"),
            (json!(1), "invalid_type", "conversation"),
        ] {
            assert_eq!(refused(named(value.clone())), (code.to_owned(), param.to_owned()), "{value}");
        }
    }
}
