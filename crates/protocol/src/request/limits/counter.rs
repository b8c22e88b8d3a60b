//! The limits of a request, and the counts that are compared with them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use serde::de::Error;
use serde_json::value::RawValue;

use crate::dialect::canonical_item_type;
use crate::json;
use crate::parse::{self, ParseError};
use crate::schema;

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

impl RequestSizeLimits {
    /// No limits: for what was accepted before.
    pub const UNLIMITED: Self = Self {
        max_tools: usize::MAX,
        max_allowed_tools: usize::MAX,
        max_input_items: usize::MAX,
        max_content_parts: usize::MAX,
        max_item_references: usize::MAX,
        max_schema_patterns: usize::MAX,
        max_schema_bytes: usize::MAX,
        max_instructions_bytes: usize::MAX,
    };
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

/// What an entry counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountedKind {
    Item,
    Part,
    Name,
    Tool,
    /// In an item whose type is not known yet.
    ListedTool,
}

/// Counts the entries of a request, field by field.
pub(in crate::request) struct RequestSizeCounter<'de> {
    pub(super) limits: RequestSizeLimits,
    items: usize,
    parts: usize,
    names: usize,
    tools: usize,
    listed_tools: usize,
    references: HashSet<Cow<'de, str>>,
    /// The path of the value that is being read.
    pub(super) path: Vec<PathSegment<'de>>,
    pub(super) problem: Option<ParseError>,
}

pub(super) enum PathSegment<'de> {
    Key(Cow<'de, str>),
    Index(usize),
}

impl<'de> RequestSizeCounter<'de> {
    pub(in crate::request) fn new(limits: RequestSizeLimits) -> Self {
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

    pub(super) fn text(&self, raw: &RawValue) -> Result<(), ParseError> {
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
    pub(super) fn unreadable(&self, error: &serde_json::Error) -> ParseError {
        let text = error.to_string();
        if text.starts_with("recursion limit exceeded") {
            return json::too_deep().within(&format_path(self.path.get(..2).unwrap_or_default()));
        }
        parse::translate_serde_error(&format_path(&self.path), &text)
    }

    pub(super) fn count<E: Error>(&mut self, kind: CountedKind) -> Result<(), E> {
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
    pub(super) fn count_listed_tools<E: Error>(&mut self, kind: Option<&str>) -> Result<(), E> {
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

    pub(super) fn count_reference<E: Error>(&mut self, id: Cow<'de, str>) -> Result<(), E> {
        self.references.insert(id);
        let most = self.limits.max_item_references;
        if self.references.len() <= most {
            return Ok(());
        }
        self.fail(&too_many(most, "different item references", "max_item_references"))
    }

    /// Of a single object.
    pub(super) fn check_entry_count<E: Error>(&mut self, count: usize) -> Result<(), E> {
        if count <= MAX_MAP_ENTRIES {
            return Ok(());
        }
        let problem = format!("at most {MAX_MAP_ENTRIES} entries are allowed.");
        self.fail(&ParseError::invalid("", problem).with_code("object_above_max_properties"))
    }

    pub(super) fn schema<E: Error>(&mut self, raw: &RawValue) -> Result<(), E> {
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
    pub(super) fn fail<E: Error>(&mut self, problem: &ParseError) -> Result<(), E> {
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
pub(super) fn may_have_patterns(text: &str) -> bool {
    let has = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    has("pattern") || has("\\u")
}
