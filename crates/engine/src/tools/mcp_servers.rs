//! The MCP servers of a request: which it uses, what tools they have, and which of these may be called.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;

use super::own::{self, RequestedOwnTools, is_own};
use crate::context::{EngineParts, RunContext};
use crate::profile::AgentProfile;
use antwort_mcp::{
    BindError, CallDecision, Freshness, McpCaller, OnBehalfOf, RequestRules, ResolvedServer, ServedTool,
    ServerHandle, ServerToolSet, is_same_listing,
};
use antwort_protocol::error::{ApiError, ErrorKind};
use antwort_protocol::item::Item;
use antwort_protocol::item::hosted::{McpListTools, McpListedTool};
use antwort_protocol::parse::truncate_for_display;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::tool::{BUILTIN_SERVER_LABEL, McpTool, NamespaceTool, Tool};
use antwort_tools::{PolicySubject, ToolRegistry};

/// A server that a request, its input or its agent profile asks for.
pub(crate) struct RequestedServer {
    binding: ServerHandle,
    audience: AccessScope,
    rules: RequestRules,
    /// The path of its tool in the request.
    path: String,
}

/// The caller, as the operator's lists of allowed tools are for tenants and agents.
#[derive(Clone)]
struct AccessScope {
    toolbox: Arc<ToolRegistry>,
    tenant: Arc<str>,
    agent: Option<Arc<str>>,
}

/// A server with its tools.
pub(crate) struct ListedServer {
    requested: RequestedServer,
    tools: Result<Arc<ServerToolSet>, String>,
    /// Places of the tools that are offered, and whether calls of them need approval.
    offered: Vec<(usize, CallDecision)>,
    /// Whether clients are shown the list, as it is new to the conversation.
    pub is_new: bool,
}

/// A server that is requested and not yet bound to a session.
struct UnboundServer {
    found: ResolvedServer,
    rules: RequestRules,
    path: String,
}

/// Takes sessions for the requested servers and for those of the gateway's own tools, all at once: requests that take
/// them one by one could deadlock. Does not connect.
pub(crate) async fn bind<'a>(
    parts: &EngineParts,
    request: &'a CreateResponse,
    input: &'a [Item],
    caller: &RunContext,
    agent: Option<AgentProfile<'a>>,
) -> Result<(Vec<RequestedServer>, own::Bound<'a>), ApiError> {
    let audience = AccessScope {
        toolbox: Arc::clone(&parts.toolbox),
        tenant: Arc::clone(&caller.owner.tenant),
        agent: agent.map(|agent| agent.name.into()),
    };
    let mcp_caller = mcp_caller(caller, request);
    let own_tools = RequestedOwnTools::from_request(parts, request, input, agent);
    let (requested, mut all) =
        (requested_servers(parts, request, input, mcp_caller, agent)?, own_tools.servers(parts, mcp_caller));
    let of_own = all.len();
    let mut rest = Vec::with_capacity(requested.len());
    for UnboundServer { found, rules, path } in requested {
        all.push(found);
        rest.push((rules, path));
    }
    let mut bound = parts.mcp.bind(all, mcp_caller).await?;
    let bound_servers = bound.split_off(of_own).into_iter().zip(rest);
    let requested = bound_servers.map(|(binding, (rules, path))| {
        let audience = audience.clone();
        RequestedServer { binding, audience, rules, path }
    });
    Ok((requested.collect(), own::Bound { requested: own_tools, servers: bound }))
}

fn requested_servers(
    parts: &EngineParts,
    request: &CreateResponse,
    input: &[Item],
    mcp_caller: McpCaller<'_>,
    agent: Option<AgentProfile<'_>>,
) -> Result<Vec<UnboundServer>, ApiError> {
    let own = request.tools.iter().enumerate().map(|(i, tool)| (tool, format!("tools[{i}]")));
    let more = input.iter().enumerate().filter_map(|(i, item)| match item {
        Item::AdditionalTools(more) => Some((i, &more.tools)),
        _ => None,
    });
    let more = more.flat_map(|(i, tools)| {
        tools.iter().enumerate().map(move |(j, tool)| (tool, format!("input[{i}].tools[{j}]")))
    });
    let tools: Vec<(&Tool, String)> = own.chain(more).collect();
    check_count(parts, &tools)?;
    let mut requested: Vec<UnboundServer> = Vec::new();
    let mut spaces = HashSet::new();
    for (tool, path) in tools {
        match tool {
            Tool::Mcp(mcp) if !is_own(mcp) => {
                check(mcp, &path, &requested)?;
                let found = parts.mcp.find(mcp, mcp_caller).map_err(|error| bind_error(error, &path))?;
                requested.push(UnboundServer { found, rules: RequestRules::new(mcp), path });
            }
            Tool::Namespace(NamespaceTool { name, .. }) => _ = spaces.insert(name.as_str()),
            _ => {}
        }
    }
    for label in agent.iter().flat_map(|agent| &agent.settings.mcp_servers) {
        if requested.iter().any(|known| **known.found.label() == **label) {
            continue;
        }
        match parts.mcp.find_label(label, None, mcp_caller) {
            Ok(found) => {
                requested.push(UnboundServer { found, rules: RequestRules::default(), path: "agent".into() });
                if requested.len() > parts.mcp.max_servers() {
                    return Err(too_many_servers(parts, "agent"));
                }
            }
            Err(error) => {
                tracing::warn!(server = %label, %error, "an MCP server of the agent profile is not available to this caller; skipping it");
            }
        }
    }
    match requested.iter().find(|server| spaces.contains(&**server.found.label())) {
        Some(UnboundServer { found, path, .. }) => Err(ApiError::invalid(
            "invalid_value",
            format!("{path}.server_label"),
            format!(
                "The server label '{}' is also the name of a function namespace; names must be unique.",
                found.label()
            ),
        )),
        None => Ok(requested),
    }
}

/// Checked before sessions are taken: each takes a place in the pool, for which others wait.
fn check_count(parts: &EngineParts, tools: &[(&Tool, String)]) -> Result<(), ApiError> {
    let mut servers = tools.iter().filter(|(tool, _)| matches!(tool, Tool::Mcp(mcp) if !is_own(mcp)));
    match servers.nth(parts.mcp.max_servers()) {
        None => Ok(()),
        Some((_, path)) => {
            Err(too_many_servers(parts, path.rsplit_once('[').map_or("tools", |(list, _)| list)))
        }
    }
}

fn too_many_servers(parts: &EngineParts, param: &str) -> ApiError {
    let most = parts.mcp.max_servers();
    let message = format!("A request may use at most {most} MCP servers (mcp.requests.max_servers).");
    ApiError::invalid("array_above_max_length", param, message)
}

/// The caller, as MCP servers are told of it.
pub(crate) fn mcp_caller<'a>(caller: &'a RunContext, request: &'a CreateResponse) -> McpCaller<'a> {
    let note = |key: &str| {
        let found = request.metadata.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    };
    let of = OnBehalfOf {
        user: request.safety_identifier.as_deref().or(request.user.as_deref()),
        principal: &caller.owner.principal,
        channel: note("channel"),
        chat: note("chat_id"),
    };
    McpCaller {
        tenant: &caller.owner.tenant,
        key: &caller.key,
        authorization: caller.authorization.as_ref(),
        on_behalf_of: of,
        shows: request.shown_questions(),
    }
}

/// Lists the tools of all servers concurrently; `approved` names those that have to run an approved call. One whose list
/// fails has no tools; the others are not affected.
pub(crate) async fn list(
    requested: Vec<RequestedServer>,
    past: &[Item],
    input: &[Item],
    approved: &HashSet<&str>,
) -> Result<Vec<ListedServer>, ApiError> {
    let listed =
        join_all(requested.into_iter().map(|requested| list_one(requested, past, input, approved))).await;
    for server in &listed {
        if let (true, Err(problem)) = (server.requested.binding.is_required(), &server.tools) {
            return Err(ApiError::new(
                ErrorKind::ConnectorUnavailable,
                format!("The tools of the MCP server '{}' cannot be listed: {problem}", server.label()),
            )
            .with_param(server.requested.path.clone()));
        }
    }
    Ok(listed)
}

async fn list_one(
    requested: RequestedServer,
    past: &[Item],
    input: &[Item],
    approved: &HashSet<&str>,
) -> ListedServer {
    let label = Arc::clone(requested.binding.label());
    let is_of = |list: &&McpListTools| *list.server_label == *label && list.error.is_none();
    // An approved call is compared with the tool's definition as it is now.
    let awaited = approved.contains(&*label);
    let freshness = if awaited { Freshness::Fresh } else { Freshness::Cached };
    let tools = match requested.binding.tools(freshness).await {
        Ok(tools) => Ok(tools),
        Err(error) => {
            error.log(&label, "the tools of an MCP server cannot be listed");
            // The list of an earlier response is used: the server may be back when a tool is called. Only stored
            // lists are, as a client could replay anything.
            let stored = past.iter().rev().filter_map(list_of).find(is_of);
            let earlier =
                stored.filter(|_| !awaited).and_then(|list| requested.binding.tools_from_item(&list.tools));
            earlier.ok_or_else(|| error.to_string())
        }
    };
    let mut listed = ListedServer { offered: requested.pick(&tools), requested, tools, is_new: true };
    let latest = input.iter().rev().chain(past.iter().rev()).filter_map(list_of).find(is_of);
    if let (Some(latest), Ok(_)) = (latest, &listed.tools) {
        listed.is_new = !is_same_listing(listed.offered_listings(), &latest.tools);
    }
    listed
}

impl AccessScope {
    fn may_use(&self, tool: &ServedTool) -> bool {
        let subject = PolicySubject { tenant: &self.tenant, agent: self.agent.as_deref() };
        self.toolbox.check_access(subject, tool.registered.definition()).is_ok()
    }
}

impl RequestedServer {
    /// Places of the tools that the request and the operator's lists allow, and whether their calls need approval.
    fn pick(&self, tools: &Result<Arc<ServerToolSet>, String>) -> Vec<(usize, CallDecision)> {
        let all = tools.as_ref().map(|set| set.tools.as_slice()).unwrap_or_default();
        let is_open = |tool: &ServedTool| self.binding.is_offered(tool) && self.audience.may_use(tool);
        let offered = all.iter().enumerate().filter(|(_, tool)| self.rules.allows(tool) && is_open(tool));
        offered
            .map(|(place, tool)| (place, self.binding.decide(tool, Some(&self.rules))))
            .filter(|(_, decision)| *decision != CallDecision::Deny)
            .collect()
    }
}

fn list_of(item: &Item) -> Option<&McpListTools> {
    match item {
        Item::McpListTools(list) => Some(list),
        _ => None,
    }
}

impl ListedServer {
    pub(crate) fn label(&self) -> &Arc<str> {
        self.requested.binding.label()
    }

    /// The tools that are offered, and whether calls of them need approval.
    pub(crate) fn offered(&self) -> impl Iterator<Item = (&ServedTool, CallDecision)> {
        let all = self.tools.as_ref().map(|set| set.tools.as_slice()).unwrap_or_default();
        self.offered.iter().filter_map(|(place, decision)| Some((all.get(*place)?, *decision)))
    }

    /// Why the tools could not be listed.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.tools.as_ref().err().map(String::as_str)
    }

    /// The tools as clients see them, or why they could not be listed.
    pub(crate) fn listed_tools(&self) -> Result<Vec<McpListedTool>, String> {
        match &self.tools {
            Ok(_) => Ok(self.offered_listings().cloned().collect()),
            Err(problem) => Err(problem.clone()),
        }
    }

    fn offered_listings(&self) -> impl Iterator<Item = &McpListedTool> {
        self.offered().map(|(tool, _)| &*tool.listed)
    }

    /// Whether the server has said that its tools have changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.tools.as_ref().is_ok_and(|set| self.requested.binding.has_changed_since(set))
    }

    /// Lists the tools again; if that fails, the known ones stay. Returns whether what clients see has changed.
    pub(crate) async fn refresh(&mut self) -> bool {
        let before: Vec<McpListedTool> = self.offered_listings().cloned().collect();
        match self.requested.binding.tools(Freshness::Cached).await {
            Ok(tools) => {
                self.tools = Ok(tools);
                self.offered = self.requested.pick(&self.tools);
            }
            Err(error) => error
                .log(self.label(), "listing changed tools of an MCP server failed; keeping the earlier list"),
        }
        !is_same_listing(self.offered_listings(), &before)
    }

    /// What an approval of this tool covers, if it is offered: its definition with the credentials of its server. A
    /// secret.
    pub(crate) fn approval_subject(&self, name: &str) -> Option<[u8; 64]> {
        let set = self.tools.as_ref().ok()?;
        let place = set.place(name)?;
        // `offered` is in the order of places.
        self.offered.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        Some(self.requested.binding.approval_subject(set.tools.get(place)?))
    }
}

fn check(tool: &McpTool, path: &str, earlier: &[UnboundServer]) -> Result<(), ApiError> {
    let invalid =
        |message: String| Err(ApiError::invalid("invalid_value", format!("{path}.server_label"), message));
    let label = &tool.server_label;
    if label == BUILTIN_SERVER_LABEL {
        return invalid(format!("The server label '{BUILTIN_SERVER_LABEL}' is the gateway's own."));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if label.len() > 64 || !label.bytes().all(is_plain) {
        return invalid("A server label has 1 to 64 letters, digits, '_' or '-'.".into());
    }
    if earlier.iter().any(|earlier| **earlier.found.label() == **label) {
        return invalid(format!(
            "There is more than one MCP server with the label '{}'.",
            truncate_for_display(label)
        ));
    }
    let unserved = [
        (
            "connector_id",
            tool.connector_id.is_some(),
            "OpenAI's connectors are not supported; name the server by its 'server_url'.",
        ),
        (
            "tunnel_id",
            tool.tunnel_id.is_some(),
            "OpenAI's tunnels are not supported; name the server by its 'server_url'.",
        ),
        (
            "defer_loading",
            tool.defer_loading == Some(true),
            "Tool search is not supported: omit 'defer_loading'.",
        ),
    ];
    match unserved.iter().find(|(_, given, _)| *given) {
        Some((field, _, why)) => Err(ApiError::unsupported(format!("{path}.{field}"), *why)),
        None => Ok(()),
    }
}

fn bind_error(error: BindError, path: &str) -> ApiError {
    let invalid =
        |field: &str, message: String| ApiError::invalid("invalid_value", format!("{path}.{field}"), message);
    match error {
        BindError::UnknownLabel(label) => ApiError::invalid(
            "missing_required_parameter",
            format!("{path}.server_url"),
            format!(
                "Missing required parameter: '{path}.server_url'. No MCP server with the label '{}' is configured.",
                truncate_for_display(&label)
            ),
        ),
        BindError::Disabled => ApiError::unsupported(
            format!("{path}.server_url"),
            "This gateway uses only MCP servers of its configuration; name one by its 'server_label'.",
        ),
        BindError::Unsupported { field, why } => ApiError::unsupported(format!("{path}.{field}"), why),
        BindError::Url(message) => invalid("server_url", message),
        BindError::Header { field, why } => invalid(field, why),
        BindError::Credentials(error) => invalid("authorization", format!("{error}.")),
    }
}
