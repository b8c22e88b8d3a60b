//! `/v1/tools`: lists server-side tools and calls them directly, outside any response.

use std::pin::pin;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::AppState;
use super::access::Authenticated;
use super::body::JsonBody;
use super::error::ErrorResponse;
use super::mcp::{McpServerTools, own_tools};
use super::query::{PathParam, Query};
use super::request_context::RequestContext;
use super::tool_result::{ResultView, render};
use antwort_identity::Scope;
use antwort_mcp::CallerCatalog;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::{self, ParseError, truncate_for_display};
use antwort_protocol::request::ToolCacheMode;
use antwort_protocol::tool::BUILTIN_SERVER_LABEL;
use antwort_tools::{
    CacheMode, Catalog, PolicySubject, Progress, RegisteredTool, ToolCall, ToolContext, ToolDefinition,
    ToolErrorCode,
};

/// `GET /v1/tools`: the gateway's own tools, or those of one configured MCP server.
pub(super) async fn list(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ErrorResponse> {
    #[derive(Serialize)]
    struct List<'a> {
        object: &'static str,
        data: Vec<ToolObject<'a>>,
        has_more: bool,
        /// Goes up whenever the tools change.
        version: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        server_label: Option<&'a str>,
    }
    query.reject_unknown(&["tag", "executor", "server_label", "view"])?;
    let summary = match query.get("view") {
        None | Some("full") => false,
        Some("summary") => true,
        Some(_) => return Err(ErrorResponse(unknown_view("'full' or 'summary'"))),
    };
    let (tag, executor) = (query.get("tag"), query.get("executor"));
    let label = server_label(&query);
    let own = own_tools(&app, &principal, &headers, (None, None), |_| label.is_none()).await?;
    let catalog = &own.catalog;
    let served = match label {
        Some(label) => Some(McpServerTools::load(&app, &principal, &headers, label, (None, None)).await?),
        None => None,
    };
    let mut tools: Vec<&ToolDefinition> = match &served {
        Some(served) => served.definitions(&app, &principal).collect(),
        None => permitted(&app, catalog, &principal).map(|tool| &**tool.definition()).collect(),
    };
    tools.retain(|tool| {
        tag.is_none_or(|tag| tool.has_tag(tag)) && executor.is_none_or(|id| *tool.executor == *id)
    });
    if summary {
        // One line for each tool, for people and for prompts.
        return Ok(tools.into_iter().map(line).collect::<Vec<_>>().join("\n").into_response());
    }
    Ok(Json(List {
        object: "list",
        data: tools.into_iter().map(ToolObject::new).collect(),
        has_more: false,
        version: served.as_ref().map_or(catalog.version(), McpServerTools::version),
        server_label: label,
    })
    .into_response())
}

/// `GET /v1/tools/{name}`
pub(super) async fn retrieve(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    headers: HeaderMap,
    PathParam(name): PathParam,
) -> Result<Response, ErrorResponse> {
    let own = own_tools(&app, &principal, &headers, (None, None), |wanted| wanted == name).await?;
    let tool = find(&app, &own, &principal, &name)?;
    Ok(Json(ToolObject::new(tool.definition())).into_response())
}

/// `POST /v1/tools/{name}/execute`
pub(super) async fn execute(
    State(app): State<AppState>,
    Extension(principal): Extension<Authenticated>,
    Extension(request_context): Extension<RequestContext>,
    headers: HeaderMap,
    PathParam(name): PathParam,
    query: Query,
    body: JsonBody,
) -> Result<Response, ErrorResponse> {
    query.reject_unknown(&["server_label", "view"])?;
    let view = match query.get("view") {
        None => ResultView::default(),
        Some(name) => ResultView::from_name(name)
            .ok_or_else(|| unknown_view("'antwort', 'call', 'envelope', 'audience' or 'provider'"))?,
    };
    // The body's bytes stay reserved until the call has ended, as its arguments are held until then.
    let (DirectCall { arguments, context, cache }, _reserved) =
        body.read(&app, &principal, |body| DirectCall::read(body)).await?;
    let admitted = app.engine.admit(&principal.requester()).await?;
    let called = async {
        // Held until the call has ended: a tool does not keep its server's session alive.
        let served = match server_label(&query) {
            Some(label) => {
                let place = (context.channel.as_deref(), context.chat_id.as_deref());
                Some(McpServerTools::load(&app, &principal, &headers, label, place).await?)
            }
            None => None,
        };
        let place = (context.channel.as_deref(), context.chat_id.as_deref());
        let is_wanted = |wanted: &str| served.is_none() && wanted == name;
        let own = own_tools(&app, &principal, &headers, place, is_wanted).await?;
        let tool = match &served {
            Some(served) => served.find(&app, &principal, &name)?,
            None => find(&app, &own, &principal, &name)?,
        };
        let owner = &principal.0.owner;
        let context = ToolContext {
            tenant: Arc::clone(&owner.tenant),
            principal: Arc::clone(&owner.principal),
            channel: context.channel,
            chat_id: context.chat_id,
            traceparent: request_context.upstream_traceparent(),
            request_id: (*request_context.request_id).to_owned(),
            cache: if cache == ToolCacheMode::Bypass { CacheMode::Bypass } else { CacheMode::Allowed },
            can_read_stored_results: true,
            ..ToolContext::default()
        };
        request_context.log.update(|facts| facts.tool_calls = Some(1));
        let cancel = context.cancel.clone().drop_guard();
        let call = ToolCall::direct(&name, arguments);
        let outcome = tool.call(call, Arc::new(context), Progress::none()).await;
        drop(cancel);
        Ok::<_, ErrorResponse>(outcome)
    };
    let outcome = admitted.run_until_aborted(pin!(called)).await??;
    let failure = match &outcome {
        Ok(output) => output.is_error.then_some(ToolErrorCode::ToolExecutionFailed),
        Err(error) => Some(error.code),
    };
    request_context.log.update(|facts| facts.code = failure.map(|code| code.as_str().into()));
    Ok(render(view, &request_context.request_id, &name, outcome).into_response())
}

/// `DELETE /v1/tool_cache`
pub(super) async fn purge_cache(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
) -> StatusCode {
    let reach = caller.0.reach(Scope::ToolsAdmin);
    app.services.toolbox.purge_cache(|tenant| reach.covers(tenant));
    StatusCode::NO_CONTENT
}

/// `POST /v1/tools/refresh`: asks every executor for its tools again.
pub(super) async fn refresh(State(app): State<AppState>) -> Result<Response, ErrorResponse> {
    #[derive(Serialize)]
    struct Refreshed {
        object: &'static str,
        version: u64,
        count: usize,
    }
    let toolbox = &app.services.toolbox;
    toolbox.refresh().await.map_err(|error| {
        tracing::warn!(%error, "tool registry refresh failed");
        ApiError::new(ErrorKind::Internal, error.to_string()).with_code("tools_not_refreshed")
    })?;
    let catalog = toolbox.catalog();
    let (version, count) = (catalog.version(), catalog.len());
    Ok(Json(Refreshed { object: "tools.refreshed", version, count }).into_response())
}

/// The body of a direct call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecuteRequest<'a> {
    /// An object, or its text as models write it.
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(default)]
    context: ExecuteContext,
    #[serde(default)]
    cache: ToolCacheMode,
}

/// Channel and chat of a direct call, as the caller names them.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ExecuteContext {
    channel: Option<String>,
    chat_id: Option<String>,
}

struct DirectCall {
    /// JSON text, as tool executors take it.
    arguments: String,
    context: ExecuteContext,
    cache: ToolCacheMode,
}

impl DirectCall {
    fn read(body: &[u8]) -> Result<Self, ApiError> {
        let ExecuteRequest { arguments, context, cache } = read(body)?;
        let arguments = arguments.map_or_else(|| "{}".to_owned(), text);
        Ok(Self { arguments, context, cache })
    }
}

fn read(body: &[u8]) -> Result<ExecuteRequest<'_>, ApiError> {
    let raw: &RawValue = serde_json::from_slice(body).map_err(|error| {
        ApiError::new(ErrorKind::InvalidRequest, format!("The body is not JSON: {error}."))
            .with_code("invalid_json")
    })?;
    if !raw.get().starts_with('{') {
        return Err(ParseError::wrong_type("", "expected an object.").into_api_error("body"));
    }
    parse::read(raw).map_err(|error: ParseError| error.into_api_error(""))
}

/// A tool in lists.
#[derive(Serialize)]
struct ToolObject<'a> {
    object: &'static str,
    #[serde(flatten)]
    definition: &'a ToolDefinition,
}

impl<'a> ToolObject<'a> {
    fn new(definition: &'a ToolDefinition) -> Self {
        Self { object: "tool", definition }
    }
}

/// The arguments as JSON text: a JSON string is taken as the text that it holds.
fn text(raw: &RawValue) -> String {
    serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// The MCP server of the query; `None`: the gateway's own tools.
fn server_label(query: &Query) -> Option<&str> {
    query.get("server_label").filter(|label| *label != BUILTIN_SERVER_LABEL)
}

fn line(tool: &ToolDefinition) -> String {
    format!("- `{}` - {}", tool.name, tool.description)
}

fn permitted<'a>(
    app: &'a AppState,
    catalog: &'a Catalog,
    caller: &'a Authenticated,
) -> impl Iterator<Item = &'a Arc<RegisteredTool>> {
    let subject = PolicySubject { tenant: &caller.0.owner.tenant, agent: None };
    catalog.iter().filter(move |tool| app.services.toolbox.check_access(subject, tool.definition()).is_ok())
}

/// A tool that the caller may use; any other is answered with 404.
fn find(
    app: &AppState,
    own: &CallerCatalog,
    caller: &Authenticated,
    name: &str,
) -> Result<Arc<RegisteredTool>, ApiError> {
    let found = permitted(app, &own.catalog, caller).find(|tool| tool.definition().name == name).cloned();
    found.ok_or_else(|| {
        if let Some(problem) = own.why_unavailable(name) {
            return ApiError::new(ErrorKind::ConnectorUnavailable, format!(
                    "None of the MCP servers that run the tool '{}' can be reached: {problem}",
                    truncate_for_display(name)
                ));
        }
        ApiError::new(ErrorKind::NotFound, format!(
                "The tool '{}' does not exist or is not available to your key; GET /v1/tools lists the available ones.",
                truncate_for_display(name)
            )).with_code("tool_not_found")
    })
}

fn unknown_view(known: &str) -> ApiError {
    ApiError::invalid("invalid_value", "view", format!("Invalid value for 'view': expected {known}."))
}
