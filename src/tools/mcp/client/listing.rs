//! Lists of tools, read one by one: a tool that cannot be read is left out, and the others are there.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::notices::told;
use crate::protocol::item::hosted::McpListedTool;
use crate::protocol::json::Json;
use crate::tools::mcp::connection::{RemoteHints, RemoteTool, RemoteTools};
use crate::tools::mcp::error::McpError;

/// Pages of one list that are fetched; a server with more has lost count.
pub(super) const MOST_PAGES: usize = 100;
/// Bytes of one list, all its pages together: more than any model reads. Read, it takes many times the memory.
const LONGEST_LIST: usize = 2 * 1024 * 1024;

/// Bytes of a description that are kept: models are told all of it in every turn.
const LONGEST_DESCRIPTION: usize = 16 * 1024;
/// Bytes of a schema that is read.
const LONGEST_SCHEMA: usize = 64 * 1024;

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
    input_schema: Json,
    output_schema: Option<Json>,
    annotations: Option<Json>,
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
    pub fn new(most: usize, limit: usize) -> Self {
        Self { all: RemoteTools::default(), bytes: 0, most, limit: limit.min(LONGEST_LIST), seen: Vec::new() }
    }

    /// Adds a page. Where the next begins that is to be asked for.
    pub fn add(&mut self, page: Page, server: &str) -> Option<String> {
        append(&mut self.all, page.tools);
        self.bytes = self.bytes.saturating_add(page.bytes);
        let next = page.next?;
        let has_no_end = self.seen.contains(&next) || self.seen.len() + 1 >= MOST_PAGES;
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
    if bytes > LONGEST_LIST {
        return Err(McpError::TooLarge { limit: LONGEST_LIST });
    }
    let page: RawPage<'_> = serde_json::from_str(raw.get())
        .map_err(|error| McpError::Malformed(told(&format!("a list: {error}"))))?;
    let mut tools = RemoteTools { ttl: page.ttl_ms.and_then(milliseconds), ..RemoteTools::default() };
    for raw in page.tools {
        match tool(raw) {
            Ok(tool) => tools.tools.push(tool),
            Err(why) => tools.leave_out(&told(&name_of(raw)), told(&why)),
        }
    }
    let next = page.next_cursor.filter(|cursor| !cursor.is_empty());
    Ok(Page { tools, next, bytes })
}

/// Adds the tools of a further page.
fn append(all: &mut RemoteTools, page: RemoteTools) {
    all.tools.extend(page.tools);
    page.unreadable.into_iter().for_each(|(name, why)| all.leave_out(&name, why));
    all.ttl = match (all.ttl, page.ttl) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

fn tool(raw: &RawValue) -> Result<RemoteTool, String> {
    let tool: RawTool = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    if tool.input_schema.get().len() > LONGEST_SCHEMA {
        return Err(format!("its inputSchema is longer than {LONGEST_SCHEMA} bytes"));
    }
    let input_schema: Value =
        serde_json::from_str(tool.input_schema.get()).map_err(|error| error.to_string())?;
    if !input_schema.is_object() {
        return Err("its inputSchema is no object".to_owned());
    }
    let short = |json: &Json| json.get().len() <= LONGEST_SCHEMA;
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
fn compact(schema: &Json) -> Option<Json> {
    let value: Value = serde_json::from_str(schema.get()).ok()?;
    Some((&value).into())
}

/// As much of a description as is kept.
fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_DESCRIPTION {
        text.truncate(text.floor_char_boundary(LONGEST_DESCRIPTION));
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
