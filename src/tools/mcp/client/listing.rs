//! Lists of tools, read one by one: a tool that cannot be read is left out, and the others are there.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::notices::sanitize_for_error;
use crate::protocol::item::hosted::McpListedTool;
use crate::protocol::json::RawJson;
use crate::tools::mcp::connection::{RemoteHints, RemoteTool, RemoteTools};
use crate::tools::mcp::error::McpError;

/// Pages of one list that are fetched; a server with more has lost count.
pub(super) const MAX_PAGES: usize = 100;
/// Bytes of one list, all its pages together: more than any model reads. Read, it takes many times the memory.
const MAX_LIST_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of a description that are kept: models are told all of it in every turn.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
/// Bytes of a schema that is read.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// What the answer to `tools/list` says.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The tools on it.
    pub tools: RemoteTools,
    /// Where the next begins.
    pub next: Option<String>,
    /// How long it was.
    pub bytes: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPage<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    next_cursor: Option<String>,
    ttl_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTool {
    name: String,
    title: Option<String>,
    description: Option<String>,
    input_schema: RawJson,
    output_schema: Option<RawJson>,
    annotations: Option<RawJson>,
}

/// A list that grows by pages, until there are enough tools, or too many bytes of them.
pub(super) struct Pages {
    /// What was read so far.
    pub all: RemoteTools,
    bytes: usize,
    most: usize,
    limit: usize,
    seen: Vec<String>,
}

impl Pages {
    /// No page yet, up to so many tools and bytes.
    pub(super) fn new(most: usize, limit: usize) -> Self {
        Self {
            all: RemoteTools::default(),
            bytes: 0,
            most,
            limit: limit.min(MAX_LIST_BYTES),
            seen: Vec::new(),
        }
    }

    /// Adds a page. Where the next begins that is to be asked for.
    pub(super) fn add(&mut self, page: Page, server: &str) -> Option<String> {
        append(&mut self.all, page.tools);
        self.bytes = self.bytes.saturating_add(page.bytes);
        let next = page.next?;
        let has_no_end = self.seen.contains(&next) || self.seen.len() + 1 >= MAX_PAGES;
        if has_no_end || self.bytes >= self.limit || self.all.tools.len() > self.most {
            tracing::warn!(target: "antwort::mcp", server, "its list of tools is not read to the end");
            return None;
        }
        self.seen.push(next.clone());
        Some(next)
    }
}

/// Reads a page.
pub(super) fn read(raw: &RawValue) -> Result<Page, McpError> {
    let bytes = raw.get().len();
    if bytes > MAX_LIST_BYTES {
        return Err(McpError::TooLarge { limit: MAX_LIST_BYTES });
    }
    let page: RawPage<'_> = serde_json::from_str(raw.get())
        .map_err(|error| McpError::Malformed(sanitize_for_error(&format!("a list: {error}"))))?;
    let mut tools = RemoteTools { ttl: page.ttl_ms.and_then(milliseconds), ..RemoteTools::default() };
    for raw in page.tools {
        match tool(raw) {
            Ok(tool) => tools.tools.push(tool),
            Err(why) => tools.push_unreadable(&sanitize_for_error(&name_of(raw)), sanitize_for_error(&why)),
        }
    }
    let next = page.next_cursor.filter(|cursor| !cursor.is_empty());
    Ok(Page { tools, next, bytes })
}

/// Adds the tools of a further page.
fn append(all: &mut RemoteTools, page: RemoteTools) {
    all.tools.extend(page.tools);
    page.unreadable.into_iter().for_each(|(name, why)| all.push_unreadable(&name, why));
    all.ttl = match (all.ttl, page.ttl) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

fn tool(raw: &RawValue) -> Result<RemoteTool, String> {
    let tool: RawTool = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    if tool.input_schema.get().len() > MAX_SCHEMA_BYTES {
        return Err(format!("its inputSchema is longer than {MAX_SCHEMA_BYTES} bytes"));
    }
    let input_schema: Value =
        serde_json::from_str(tool.input_schema.get()).map_err(|error| error.to_string())?;
    if !input_schema.is_object() {
        return Err("its inputSchema is no object".to_owned());
    }
    let short = |json: &RawJson| json.get().len() <= MAX_SCHEMA_BYTES;
    let shown = tool.annotations.filter(short);
    let annotations = shown.as_ref().and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
    let hint = |name: &str| annotations.as_ref()?.get(name)?.as_bool();
    let titled = || Some(annotations.as_ref()?.get("title")?.as_str()?.to_owned());
    let hints = RemoteHints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    };
    Ok(RemoteTool {
        title: tool.title.or_else(titled).map(shortened),
        output_schema: tool.output_schema.filter(short).as_ref().and_then(compact),
        hints,
        // Without the spaces that it was sent with: values of it are not kept, and the text may be many times.
        listed: Arc::new(McpListedTool {
            name: tool.name,
            description: tool.description.map(shortened),
            input_schema: (&input_schema).into(),
            annotations: shown,
        }),
    })
}

/// A schema without the spaces that it was sent with; `None`: it cannot be read.
fn compact(schema: &RawJson) -> Option<RawJson> {
    let value: Value = serde_json::from_str(schema.get()).ok()?;
    Some((&value).into())
}

/// As much of a description as is kept.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_DESCRIPTION_BYTES {
        text.truncate(text.floor_char_boundary(MAX_DESCRIPTION_BYTES));
        text.push('…');
    }
    text
}

/// The name of a tool that cannot be read, as far as it has any.
fn name_of(raw: &RawValue) -> String {
    let tool: Option<Value> = serde_json::from_str(raw.get()).ok();
    tool.as_ref().and_then(|tool| tool.get("name")?.as_str()).unwrap_or_default().to_owned()
}

fn milliseconds(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}
