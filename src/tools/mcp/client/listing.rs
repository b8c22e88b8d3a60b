//! Lists of tools, read one by one: a tool that cannot be read is left out, and the others are there.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::json::Json;
use crate::tools::mcp::connection::{RemoteHints, RemoteTool, RemoteTools};
use crate::tools::mcp::error::McpError;

/// Pages of one list that are fetched; a server with more has lost count.
pub(super) const MOST_PAGES: usize = 100;
/// Bytes of one list, all its pages together: more than any model reads. Read, it takes many times the memory.
const LONGEST_LIST: usize = 2 * 1024 * 1024;

/// What the answer to `tools/list` says.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The tools on it.
    pub tools: RemoteTools,
    /// Where the next begins.
    pub next: Option<String>,
    /// How long it is.
    bytes: usize,
}

/// The pages of a list, put together.
#[derive(Debug, Default)]
pub(super) struct List {
    /// The tools on them.
    pub tools: RemoteTools,
    /// Whether there are more pages than are read.
    pub is_cut: bool,
    seen: Vec<String>,
    bytes: usize,
}

impl List {
    /// Adds a page. Where the next begins, if it is to be read.
    pub fn add(&mut self, page: Page) -> Option<String> {
        append(&mut self.tools, page.tools);
        self.bytes += page.bytes;
        let next = page.next?;
        self.is_cut =
            self.seen.contains(&next) || self.seen.len() + 1 >= MOST_PAGES || self.bytes > LONGEST_LIST;
        if self.is_cut {
            return None;
        }
        self.seen.push(next.clone());
        Some(next)
    }
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
    input_schema: Value,
    output_schema: Option<Value>,
    annotations: Option<Json>,
}

/// Reads a page.
pub(super) fn read(raw: &RawValue) -> Result<Page, McpError> {
    let bytes = raw.get().len();
    if bytes > LONGEST_LIST {
        return Err(McpError::TooLarge { limit: LONGEST_LIST });
    }
    let page: RawPage<'_> =
        serde_json::from_str(raw.get()).map_err(|error| McpError::Malformed(format!("a list: {error}")))?;
    let mut tools = RemoteTools { ttl: page.ttl_ms.and_then(milliseconds), ..RemoteTools::default() };
    for raw in page.tools {
        match tool(raw) {
            Ok(tool) => tools.tools.push(tool),
            Err(why) => tools.unreadable.push((name_of(raw), why)),
        }
    }
    Ok(Page { tools, next: page.next_cursor.filter(|cursor| !cursor.is_empty()), bytes })
}

/// Adds the tools of a further page.
fn append(all: &mut RemoteTools, page: RemoteTools) {
    all.tools.extend(page.tools);
    all.unreadable.extend(page.unreadable);
    all.ttl = match (all.ttl, page.ttl) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

fn tool(raw: &RawValue) -> Result<RemoteTool, String> {
    let tool: RawTool = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    if !tool.input_schema.is_object() {
        return Err("its inputSchema is no object".to_owned());
    }
    let annotations =
        tool.annotations.as_ref().and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
    let hint = |name: &str| annotations.as_ref()?.get(name)?.as_bool();
    let titled = || Some(annotations.as_ref()?.get("title")?.as_str()?.to_owned());
    let hints = RemoteHints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    };
    Ok(RemoteTool {
        title: tool.title.or_else(titled),
        name: tool.name,
        description: tool.description,
        input_schema: tool.input_schema,
        output_schema: tool.output_schema,
        hints,
        annotations: tool.annotations,
    })
}

/// The name of a tool that cannot be read, as far as it has any.
fn name_of(raw: &RawValue) -> String {
    let tool: Option<Value> = serde_json::from_str(raw.get()).ok();
    tool.as_ref().and_then(|tool| tool.get("name")?.as_str()).unwrap_or_default().to_owned()
}

fn milliseconds(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}
