//! The size limits of a request, counted in one place before anything is parsed into types, and no further than the
//! limit.
//!
//! A list is counted by its place and not by its name, so that none can be forgotten: every list within an item
//! counts as content parts, every list within a tool, or among the allowed tools, as names. Values that are kept as
//! text are not walked: schemas are measured, arguments are bounded by the body, and log probabilities are skipped,
//! of which a replayed answer has several for each word.

mod walk;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use serde::de::{Deserializer, Error};
use serde_json::value::RawValue;

use self::walk::{Walk, WalkContext};

use super::body::RawFields;
use crate::protocol::cancellation;
use crate::protocol::dialect::canonical_item_type;
use crate::protocol::error::ApiError;
use crate::protocol::json;
use crate::protocol::parse::{self, ParseError};
use crate::protocol::schema;

/// Entries of an object with arbitrary keys: headers of an MCP server, environment variables of a command.
const MAX_MAP_ENTRIES: usize = 1024;

/// The limits of a request. The defaults are those of `server.request_limits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSizeLimits {
    /// Tools in total: in `tools`, in namespaces, and in items that add tools.
    pub max_tools: usize,
    /// Entries in total of the lists of allowed tools and of other lists within tools.
    pub max_allowed_tools: usize,
    /// Items of `input`.
    pub max_input_items: usize,
    /// Entries in total of the lists within items, such as content parts.
    pub max_content_parts: usize,
    /// Distinct ids in `item_reference`s.
    pub max_item_references: usize,
    /// Patterns of one schema.
    pub max_schema_patterns: usize,
    /// Bytes of one schema.
    pub max_schema_bytes: usize,
    /// Bytes of `instructions`, and of the variables of `prompt`.
    pub max_instructions_bytes: usize,
}

impl Default for RequestSizeLimits {
    fn default() -> Self {
        Self {
            max_tools: 1024,
            max_allowed_tools: 1024,
            max_input_items: 10_000,
            max_content_parts: 10_000,
            max_item_references: 1000,
            max_schema_patterns: schema::MAX_PATTERNS,
            max_schema_bytes: 64 << 10,
            max_instructions_bytes: 1 << 20,
        }
    }
}

/// A pattern takes at least this many bytes of a schema: a key of one byte and `true`, or `"pattern":""`.
const MIN_PATTERN_BYTES: usize = 6;

/// What an entry counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedKind {
    Item,
    Part,
    Name,
    Tool,
    /// In an item whose type is not known yet.
    ListedTool,
}

/// Counts the entries of a request, field by field.
pub(super) struct RequestSizeCounter<'de> {
    limits: RequestSizeLimits,
    items: usize,
    parts: usize,
    names: usize,
    tools: usize,
    listed_tools: usize,
    references: HashSet<Cow<'de, str>>,
    /// The path of the value that is being read.
    path: Vec<PathSegment<'de>>,
    problem: Option<ParseError>,
}

enum PathSegment<'de> {
    Key(Cow<'de, str>),
    Index(usize),
}

impl<'de> RequestSizeCounter<'de> {
    pub(super) fn new(limits: RequestSizeLimits) -> Self {
        Self {
            limits,
            items: 0,
            parts: 0,
            names: 0,
            tools: 0,
            listed_tools: 0,
            references: HashSet::new(),
            path: Vec::new(),
            problem: None,
        }
    }

    /// Counts the entries of all fields, and returns which exceeds its limit or cannot be read.
    pub(super) fn check(&mut self, pairs: &RawFields<'de>) -> Result<(), ApiError> {
        let small = self.is_surely_within_limits(pairs);
        for (name, raw) in pairs {
            cancellation::check().map_err(|error| error.into_api_error(""))?;
            let counted = match WalkContext::for_field(name) {
                Some(place) if !small => self.field(place, raw),
                None if matches!(name.as_ref(), "instructions" | "prompt") => self.text(raw),
                _ => Ok(()),
            };
            counted.map_err(|error| error.into_api_error(&parse::truncate_for_display(name)))?;
        }
        Ok(())
    }

    /// Whether no limit can be exceeded, by a quick estimate: most requests are not walked.
    fn is_surely_within_limits(&self, pairs: &RawFields<'de>) -> bool {
        let limits = &self.limits;
        let lists = [
            limits.max_tools,
            limits.max_allowed_tools,
            limits.max_input_items,
            limits.max_content_parts,
            limits.max_item_references,
        ];
        let fewest = lists.into_iter().min().unwrap_or(0);
        let mut entries = 0;
        pairs.iter().filter(|(name, _)| WalkContext::for_field(name).is_some()).all(|(_, raw)| {
            let text = raw.get();
            entries += max_possible_entries(text);
            entries <= fewest
                && text.len() <= limits.max_schema_bytes
                && (text.len() / MIN_PATTERN_BYTES <= limits.max_schema_patterns || !may_have_patterns(text))
        })
    }

    fn field(&mut self, place: WalkContext, raw: &'de RawValue) -> Result<(), ParseError> {
        self.path.clear();
        let walk = Walk { counter: self, place };
        match serde_json::Deserializer::from_str(raw.get()).deserialize_any(walk) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.problem.take().unwrap_or_else(|| self.unreadable(&error))),
        }
    }

    fn text(&self, raw: &RawValue) -> Result<(), ParseError> {
        let most = self.limits.max_instructions_bytes;
        // Two bytes for the quotes; an escape takes more bytes than its character.
        if raw.get().len() <= most.saturating_add(2) {
            return Ok(());
        }
        if raw.get().starts_with('"') && parse::read::<Cow<'_, str>>(raw)?.len() <= most {
            return Ok(());
        }
        let problem =
            format!("at most {most} bytes are allowed (server.request_limits.max_instructions_bytes).");
        Err(ParseError::invalid("", problem).with_code("string_above_max_length"))
    }

    /// JSON that cannot be parsed cannot be counted either, even in fields that would be ignored.
    fn unreadable(&self, error: &serde_json::Error) -> ParseError {
        let text = error.to_string();
        if text.starts_with("recursion limit exceeded") {
            return json::too_deep().within(&format_path(self.path.get(..2).unwrap_or_default()));
        }
        parse::translate_serde_error(&format_path(&self.path), &text)
    }

    fn count<E: Error>(&mut self, kind: CountedKind) -> Result<(), E> {
        let limits = &self.limits;
        let (count, most, what, setting) = match kind {
            CountedKind::Item => (&mut self.items, limits.max_input_items, "items", "max_input_items"),
            CountedKind::Part => (
                &mut self.parts,
                limits.max_content_parts,
                "parts of contents and other entries of items",
                "max_content_parts",
            ),
            CountedKind::Name => {
                (&mut self.names, limits.max_allowed_tools, "names of allowed tools", "max_allowed_tools")
            }
            CountedKind::Tool => (&mut self.tools, limits.max_tools, "tools", "max_tools"),
            CountedKind::ListedTool => {
                let most = limits.max_tools.max(limits.max_content_parts);
                (&mut self.listed_tools, most, "tools", "max_tools")
            }
        };
        *count += 1;
        if *count <= most { Ok(()) } else { self.fail(&too_many(most, what, setting)) }
    }

    /// Tools in an item count as tools of the request only if the model may call them.
    fn count_listed_tools<E: Error>(&mut self, kind: Option<&str>) -> Result<(), E> {
        let listed = std::mem::take(&mut self.listed_tools);
        if listed == 0 {
            return Ok(());
        }
        let kind = match kind.map(canonical_item_type) {
            Some("additional_tools" | "tool_search_output") => CountedKind::Tool,
            _ => CountedKind::Part,
        };
        match kind {
            CountedKind::Tool => self.tools += listed - 1,
            _ => self.parts += listed - 1,
        }
        self.path.push(PathSegment::Key("tools".into()));
        self.count(kind)?;
        self.path.pop();
        Ok(())
    }

    fn count_reference<E: Error>(&mut self, id: Cow<'de, str>) -> Result<(), E> {
        self.references.insert(id);
        let most = self.limits.max_item_references;
        if self.references.len() <= most {
            return Ok(());
        }
        self.fail(&too_many(most, "different item references", "max_item_references"))
    }

    /// Of a single object.
    fn check_entry_count<E: Error>(&mut self, count: usize) -> Result<(), E> {
        if count <= MAX_MAP_ENTRIES {
            return Ok(());
        }
        let problem = format!("at most {MAX_MAP_ENTRIES} entries are allowed.");
        self.fail(&ParseError::invalid("", problem).with_code("object_above_max_properties"))
    }

    fn schema<E: Error>(&mut self, raw: &RawValue) -> Result<(), E> {
        let RequestSizeLimits { max_schema_bytes, max_schema_patterns, .. } = self.limits;
        if raw.get().len() > max_schema_bytes {
            let problem = format!(
                "a JSON Schema may have at most {max_schema_bytes} bytes (server.request_limits.max_schema_bytes)."
            );
            return self.fail(&ParseError::invalid("", problem).with_code("string_above_max_length"));
        }
        if count_patterns(raw.get()) > max_schema_patterns {
            let what = "patterns in a JSON Schema";
            return self.fail(&too_many(max_schema_patterns, what, "max_schema_patterns"));
        }
        Ok(())
    }

    /// Stops reading.
    fn fail<E: Error>(&mut self, problem: &ParseError) -> Result<(), E> {
        self.problem = Some(problem.clone().within(&format_path(&self.path)));
        Err(E::custom("more than allowed"))
    }
}

fn too_many(most: usize, what: &str, setting: &str) -> ParseError {
    let in_all = if what == "items" { "" } else { ", in all" };
    let problem = format!("at most {most} {what} are allowed{in_all} (server.request_limits.{setting}).");
    ParseError::invalid("", problem).with_code("array_above_max_length")
}

fn format_path(path: &[PathSegment<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathSegment::Key(key) => {
                text.push_str(if text.is_empty() { "" } else { "." });
                text.push_str(&parse::truncate_for_display(key));
            }
            PathSegment::Index(index) => _ = write!(text, "[{index}]"),
        }
    }
    text
}

/// The number of patterns in the text of a schema. An invalid schema has none here: compiling it reports the error.
fn count_patterns(text: &str) -> usize {
    if !may_have_patterns(text) {
        return 0;
    }
    serde_json::from_str(text).map_or(0, |schema| schema::count_patterns(&schema))
}

/// Whether the text may contain a keyword for patterns. A key may be written with escapes.
fn may_have_patterns(text: &str) -> bool {
    let has = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    has("pattern") || has("\\u")
}

/// An upper bound of the number of list entries in a JSON text: each but the first of a list follows a comma.
fn max_possible_entries(text: &str) -> usize {
    if text.starts_with('"') {
        return 0;
    }
    let count = |byte| memchr::memchr_iter(byte, text.as_bytes()).count();
    count(b',') + count(b'[')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::protocol::request::body;

    /// Requests with the keys that the walk knows, in every place.
    fn request() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "input",
            "tools",
            "text",
            "type",
            "id",
            "content",
            "function",
            "parameters",
            "format",
            "schema",
            "pattern",
            "patternProperties",
            "",
            "a",
        ]);
        let leaf =
            prop_oneof![Just(json!(1)), Just(json!("")), Just(json!("item_reference")), Just(json!("b,["))];
        let value = leaf.prop_recursive(6, 60, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| {
                    Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
                }),
            ]
        });
        let field = prop::sample::select(vec!["input", "tools", "allowed_tools", "text"]);
        prop::collection::hash_map(field, value, 1..4).prop_map(|fields| json!(fields).to_string())
    }

    proptest! {
        #[test]
        fn a_request_that_is_small_at_a_glance_is_within_its_limits(text in request(), most in 0_usize..12) {
            let limits = RequestSizeLimits {
                max_tools: most,
                max_allowed_tools: most,
                max_input_items: most,
                max_content_parts: most,
                max_item_references: most,
                max_schema_patterns: most,
                max_schema_bytes: most * 8,
                max_instructions_bytes: 0,
            };
            let pairs = body::split_fields(text.as_bytes()).unwrap();
            let mut counter = RequestSizeCounter::new(limits);
            prop_assume!(counter.is_surely_within_limits(&pairs));
            for (name, raw) in &pairs {
                let place = WalkContext::for_field(name).unwrap();
                prop_assert!(counter.field(place, raw).is_ok(), "{}", text);
            }
        }
    }
}
