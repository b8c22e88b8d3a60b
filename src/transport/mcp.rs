//! MCP servers of the configuration: their status, and their tools as one caller may use them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use secrecy::SecretString;
use serde::Serialize;

use super::AppState;
use super::access::Authenticated;
use antwort_identity::Scope;
use antwort_mcp::{
    BindError, CallDecision, CallerCatalog, Freshness, McpCaller, McpError, OnBehalfOf, ServedTool,
    ServerHandle, ServerStatus, ServerToolSet,
};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::parse::truncate_for_display;
use antwort_tools::{PolicySubject, RegisteredTool, ToolDefinition};

/// `GET /v1/mcp/servers`
pub(super) async fn servers(
    State(app): State<AppState>,
    Extension(caller): Extension<Authenticated>,
) -> Response {
    #[derive(Serialize)]
    struct List {
        object: &'static str,
        data: Vec<ServerStatus>,
        has_more: bool,
    }
    let data = app.services.mcp.statuses(caller.0.reach(Scope::McpAdmin));
    Json(List { object: "list", data, has_more: false }).into_response()
}

/// The client's `Authorization` header, if any configured server forwards callers' credentials.
pub(super) fn caller_authorization(app: &AppState, headers: &HeaderMap) -> Option<SecretString> {
    if !app.services.mcp.uses_caller_credentials() {
        return None;
    }
    headers.get(header::AUTHORIZATION)?.to_str().ok().map(SecretString::from)
}

/// The gateway's own tools for one caller. `place`: channel and chat, for servers that receive them.
pub(super) async fn own_tools(
    app: &AppState,
    caller: &Authenticated,
    headers: &HeaderMap,
    place: (Option<&str>, Option<&str>),
    is_wanted: impl Fn(&str) -> bool,
) -> Result<CallerCatalog, ApiError> {
    let authorization = caller_authorization(app, headers);
    let caller_context = caller_context(caller, authorization.as_ref(), place);
    app.services.mcp.bind_catalog(&app.services.toolbox, caller_context, is_wanted).await
}

fn caller_context<'a>(
    caller: &'a Authenticated,
    authorization: Option<&'a SecretString>,
    place: (Option<&'a str>, Option<&'a str>),
) -> McpCaller<'a> {
    let owner = &caller.0.owner;
    let of = OnBehalfOf { user: None, principal: &owner.principal, channel: place.0, chat: place.1 };
    McpCaller {
        tenant: &owner.tenant,
        key: &caller.0.name,
        authorization,
        on_behalf_of: of,
        shows: ElicitationModes::default(),
    }
}

/// A configured server with its tools for one caller.
pub(super) struct McpServerTools {
    binding: ServerHandle,
    set: Arc<ServerToolSet>,
}

impl McpServerTools {
    /// Lists the tools of the server with this label, or takes the cached list. `place`: channel and chat, for servers
    /// that receive them.
    pub(super) async fn load(
        app: &AppState,
        caller: &Authenticated,
        headers: &HeaderMap,
        label: &str,
        place: (Option<&str>, Option<&str>),
    ) -> Result<Self, ApiError> {
        let authorization = caller_authorization(app, headers);
        let caller_context = caller_context(caller, authorization.as_ref(), place);
        let mcp = &app.services.mcp;
        let found = mcp.find_label(label, None, caller_context).map_err(|error| bind_error(&error))?;
        let binding = mcp.bind(vec![found], caller_context).await?.pop().ok_or_else(ApiError::internal)?;
        let set = binding.tools(Freshness::Cached).await.map_err(|error| unavailable(label, &error))?;
        Ok(Self { binding, set })
    }

    /// The number of the session's list of tools: it goes up with every new list.
    pub(super) fn version(&self) -> u64 {
        self.set.number()
    }

    /// Definitions of the tools that the caller may use, in the server's order.
    pub(super) fn definitions<'a>(
        &'a self,
        app: &'a AppState,
        caller: &'a Authenticated,
    ) -> impl Iterator<Item = &'a ToolDefinition> {
        self.permitted(app, caller).map(|tool| &**tool.registered.definition())
    }

    /// A tool for a direct call, outside any response. A tool whose calls need approval is refused with 403, as there is
    /// no response in which approval could be requested.
    pub(super) fn find(
        &self,
        app: &AppState,
        caller: &Authenticated,
        name: &str,
    ) -> Result<Arc<RegisteredTool>, ApiError> {
        let Some(tool) = self.permitted(app, caller).find(|tool| tool.listed.name == name) else {
            return Err(not_found(
                "tool_not_found",
                format!(
                    "The MCP server '{1}' has no tool '{0}' that is available to your key.",
                    truncate_for_display(name),
                    self.binding.label()
                ),
            ));
        };
        if self.binding.decide(tool, None) == CallDecision::Ask {
            return Err(ApiError::new(
                ErrorKind::PermissionDenied,
                format!(
                    "Calls of '{}' need approval by a person; call it in a response.",
                    truncate_for_display(name)
                ),
            )
            .with_code("approval_required"));
        }
        Ok(Arc::clone(&tool.registered))
    }

    fn permitted<'a>(
        &'a self,
        app: &'a AppState,
        caller: &'a Authenticated,
    ) -> impl Iterator<Item = &'a ServedTool> {
        let subject = PolicySubject { tenant: &caller.0.owner.tenant, agent: None };
        self.set.tools.iter().filter(move |tool| {
            self.binding.is_offered(tool)
                && app.services.toolbox.check_access(subject, tool.registered.definition()).is_ok()
        })
    }
}

fn bind_error(error: &BindError) -> ApiError {
    match error {
        BindError::Credentials(problem) => {
            ApiError::invalid("invalid_value", "authorization", problem.to_string())
        }
        BindError::UnknownLabel(label) => not_found(
            "mcp_server_not_found",
            format!(
                "The MCP server '{}' does not exist or is not available to your key.",
                truncate_for_display(label)
            ),
        ),
        // These concern servers that a request brings with it.
        BindError::Disabled
        | BindError::Unsupported { .. }
        | BindError::Url(_)
        | BindError::Header { .. } => ApiError::internal(),
    }
}

fn unavailable(label: &str, error: &McpError) -> ApiError {
    error.log(label, "the tools of an MCP server cannot be listed");
    ApiError::new(
        ErrorKind::ConnectorUnavailable,
        format!("The tools of the MCP server '{}' cannot be listed: {error}", truncate_for_display(label)),
    )
    .with_param("server_label")
}

fn not_found(code: &'static str, message: String) -> ApiError {
    ApiError::new(ErrorKind::NotFound, message).with_code(code)
}
