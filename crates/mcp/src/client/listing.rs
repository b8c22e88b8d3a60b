//! Parses `tools/list` tool by tool: invalid tools are left out without affecting the others.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::notices::sanitize_for_error;
use crate::connection::{RemoteHints, RemoteTool, RemoteTools};
use crate::error::McpError;
use crate::task::TaskSupport;
use antwort_protocol::item::hosted::McpListedTool;
use antwort_protocol::json::RawJson;

/// Maximum number of pages of one list.
pub(super) const MAX_PAGES: usize = 100;
/// Maximum bytes of one list over all pages. Parsed, it takes many times that memory.
const MAX_LIST_BYTES: usize = 2 * 1024 * 1024;

/// Maximum bytes of a description, which is sent to the model in every turn; longer ones are truncated.
const MAX_DESCRIPTION_BYTES: usize = 16 * 1024;
/// Maximum bytes of a schema.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// A page: the result of one `tools/list`.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Tools of the page.
    pub tools: RemoteTools,
    /// Cursor of the next page.
    pub next: Option<String>,
    /// Size of the page.
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
    /// Parsed separately, so that what is invalid in it does not invalidate the tool.
    execution: Option<Value>,
}

/// Fetches all pages, up to the limits of tools and bytes.
pub(super) async fn fetch_all<F>(
    max: usize,
    limit: usize,
    server: &str,
    fetch: impl Fn(Option<String>) -> F,
) -> Result<RemoteTools, McpError>
where
    F: Future<Output = Result<Page, McpError>>,
{
    let (mut all, mut bytes) = (RemoteTools::default(), 0_usize);
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = fetch(cursor).await?;
        append(&mut all, page.tools);
        bytes = bytes.saturating_add(page.bytes);
        let Some(next) = page.next else { return Ok(all) };
        let has_no_end = seen.contains(&next) || seen.len() + 1 >= MAX_PAGES;
        if has_no_end || bytes >= limit.min(MAX_LIST_BYTES) || all.tools.len() > max {
            tracing::warn!(
                target: "antwort::mcp",
                server,
                "tool list of an MCP server exceeds a limit, ignoring further pages"
            );
            return Ok(all);
        }
        seen.push(next.clone());
        cursor = Some(next);
    }
}

/// Parses a page.
pub(super) fn read(raw: &RawValue) -> Result<Page, McpError> {
    let bytes = raw.get().len();
    if bytes > MAX_LIST_BYTES {
        return Err(McpError::TooLarge { limit: MAX_LIST_BYTES });
    }
    let page: RawPage<'_> = serde_json::from_str(raw.get())
        .map_err(|error| McpError::Malformed(sanitize_for_error(&format!("tools/list: {error}"))))?;
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

/// Appends the tools of a page.
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
        return Err("its inputSchema is not an object".to_owned());
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
        task_support: match tool
            .execution
            .as_ref()
            .and_then(|execution| execution.get("taskSupport")?.as_str())
        {
            Some("optional") => TaskSupport::Optional,
            Some("required") => TaskSupport::Required,
            _ => TaskSupport::Forbidden,
        },
        // Stored as compact text rather than as values, because it may be shared by many sessions.
        listed: Arc::new(McpListedTool {
            name: tool.name,
            description: tool.description.map(shortened),
            input_schema: (&input_schema).into(),
            annotations: shown,
        }),
    })
}

/// A schema as compact JSON; `None` if it is invalid.
fn compact(schema: &RawJson) -> Option<RawJson> {
    let value: Value = serde_json::from_str(schema.get()).ok()?;
    Some((&value).into())
}

/// Truncates a description.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_DESCRIPTION_BYTES {
        text.truncate(text.floor_char_boundary(MAX_DESCRIPTION_BYTES));
        text.push('…');
    }
    text
}

/// The name of an invalid tool, if it has one.
fn name_of(raw: &RawValue) -> String {
    let tool: Option<Value> = serde_json::from_str(raw.get()).ok();
    tool.as_ref().and_then(|tool| tool.get("name")?.as_str()).unwrap_or_default().to_owned()
}

fn milliseconds(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}
