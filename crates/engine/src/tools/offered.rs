//! The tools that a request offers to the model: their names, who runs them, and which may be called.
//!
//! Server-side tools are offered only where the request or its agent profile asks for them. A function of the
//! client keeps its name: a server-side tool of the same name is offered as `antwort__name`.

mod model_tool;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

use self::model_tool::{check_options, from_custom, from_function, no_such_tool, unavailable, with_setting};
use super::choice::CallPolicy;
use super::hosted::{self, HostedBinding, HostedTool};
use super::mcp_servers::ListedServer;
use super::wire_names::{PlainNames, WireNames};
use crate::context::OnUnservedTool;
use antwort_mcp::{CallDecision, CallerCatalog};
use antwort_protocol::error::ApiError;
use antwort_protocol::item::Item;
use antwort_protocol::json::to_raw;
use antwort_protocol::request::CreateResponse;
use antwort_protocol::tool::{
    BUILTIN_SERVER_LABEL, McpAllowedTools, McpTool, McpToolFilter, NamespaceTool, Tool,
};
use antwort_response::presentation::Presentation;
use antwort_response::turn::{CallKind, ModelTool, ToolInput, ToolName};
use antwort_tools::{PolicySubject, RegisteredTool, ToolRegistry, wire_name};

pub(crate) use self::model_tool::not_served;

pub(crate) struct OfferedTools {
    /// As the model sees them: those of the request in its order, then the agent profile's.
    pub tools: Arc<[Arc<ModelTool>]>,
    /// Who runs each tool, by place; `None`: the client.
    pub(crate) bindings: Vec<Option<ToolBinding>>,
    /// Which may be called, and which must.
    pub choice: CallPolicy,
    /// Types of tools that are not supported and were left out, each once.
    pub omitted: Vec<&'static str>,
}

/// Binds an offered tool to the server-side tool that runs it.
#[derive(Clone)]
pub(crate) struct ToolBinding {
    /// The tool with its layers.
    pub tool: Arc<RegisteredTool>,
    /// The hosted tool as which the request has it.
    pub hosted: Option<HostedBinding>,
}

/// The server-side tools that a request may use.
pub(crate) struct ServerTools<'a> {
    pub toolbox: &'a ToolRegistry,
    /// The catalogue for this caller, kept by the run.
    pub catalog: &'a CallerCatalog,
    pub subject: PolicySubject<'a>,
    /// How calls are shown to clients; `None`: tools are not executed here, so that calls are the client's to make.
    pub presentation: Option<Presentation>,
    pub unserved: OnUnservedTool,
}

impl ServerTools<'_> {
    fn find(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.catalog.catalog.get(name).filter(|tool| self.is_allowed(tool))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.catalog.catalog.iter().filter(|tool| self.is_allowed(tool))
    }

    fn is_allowed(&self, tool: &RegisteredTool) -> bool {
        self.toolbox.check_access(self.subject, tool.definition()).is_ok()
    }

    /// Does not say whether the tool does not exist or is forbidden to the caller, but does if its servers are
    /// unavailable, or if one of the gateway's own is not configured.
    fn no_such_tool(&self, path: &str, name: &str) -> ApiError {
        if let Some(problem) = self.catalog.why_unavailable(name) {
            return unavailable(path, name, problem);
        }
        let may_know = self.toolbox.check_name_access(self.subject, name).is_ok();
        match self.toolbox.why_not_configured(name).filter(|_| may_know) {
            Some(why) => ApiError::invalid(
                "tool_not_found",
                path,
                format!("The built-in tool '{name}' is not available: {why}."),
            ),
            None => no_such_tool(path, name),
        }
    }
}

/// Collects the tools of the request, its input and its agent profile, and resolves the tool choice.
///
/// `again`: a later time in the run, after servers have changed their tools.
pub(crate) fn collect_tools(
    request: &CreateResponse,
    input: &[impl Borrow<Item>],
    agent: &[String],
    server: &ServerTools<'_>,
    servers: &[ListedServer],
    again: bool,
) -> Result<OfferedTools, ApiError> {
    let tolerant = again || servers.iter().any(|server| server.problem().is_some());
    let mut tools = OfferBuilder {
        server,
        tools: Vec::new(),
        bindings: Vec::new(),
        names: WireNames::new(),
        offered: HashMap::new(),
        omitted: Vec::new(),
        refused: None,
    };
    // The client's tools are named first.
    for (i, tool) in request.tools.iter().enumerate() {
        tools.add_client_tool(tool, &format!("tools[{i}]"))?;
    }
    let more = || {
        input.iter().enumerate().filter_map(|(i, item)| match item.borrow() {
            Item::AdditionalTools(more) => Some((i, &more.tools)),
            _ => None,
        })
    };
    for (i, more) in more() {
        for (j, tool) in more.iter().enumerate() {
            tools.add_client_tool(tool, &format!("input[{i}].tools[{j}]"))?;
        }
    }
    for (i, tool) in request.tools.iter().enumerate() {
        tools.add_requested_tool(tool, &format!("tools[{i}]"))?;
    }
    for (i, more) in more() {
        for (j, tool) in more.iter().enumerate() {
            tools.add_requested_tool(tool, &format!("input[{i}].tools[{j}]"))?;
        }
    }
    for name in agent {
        match server.find(name) {
            Some(tool) => tools.add_server_tool(tool, server.presentation, None),
            None => {
                tracing::warn!(tool = %name, "skipping an unknown or forbidden tool of the agent profile");
            }
        }
    }
    tools.add_mcp_tools(servers);
    tools.check_something_is_left(servers, again)?;
    let choice = CallPolicy::new(request, &tools.tools, &tools.omitted, tolerant)?;
    let OfferBuilder { tools, bindings, omitted, .. } = tools;
    Ok(OfferedTools { tools: tools.into(), bindings, choice, omitted })
}

impl OfferedTools {
    /// The place of a tool in the list.
    pub(crate) fn find(tools: &[Arc<ModelTool>], namespace: Option<&str>, name: &str) -> Option<usize> {
        tools.iter().position(|tool| tool.name == name && tool.namespace.as_deref() == namespace)
    }

    /// What runs the tool that a call names; `None`: the client.
    pub(crate) fn binding(&self, namespace: Option<&str>, name: &str) -> Option<&ToolBinding> {
        let place = Self::find(&self.tools, namespace, name)?;
        self.bindings.get(place)?.as_ref()
    }

    /// Whether the work of any of the tools may go on after its calls.
    pub(crate) fn may_go_on(&self) -> bool {
        self.bindings.iter().flatten().any(|binding| binding.tool.may_go_on())
    }

    /// Whether the gateway runs any of the tools.
    pub(crate) fn has_server_tools(&self) -> bool {
        self.bindings.iter().any(Option::is_some)
    }
}

struct OfferBuilder<'a> {
    server: &'a ServerTools<'a>,
    tools: Vec<Arc<ModelTool>>,
    bindings: Vec<Option<ToolBinding>>,
    names: WireNames,
    /// Places of server-side tools, by their addresses in the catalogue.
    offered: HashMap<usize, usize>,
    omitted: Vec<&'static str>,
    /// Why the first of those that were left out is not supported.
    refused: Option<ApiError>,
}

impl OfferBuilder<'_> {
    /// Adds a tool that the client runs.
    fn add_client_tool(&mut self, tool: &Tool, path: &str) -> Result<(), ApiError> {
        match tool {
            Tool::Function(function) => self.push(from_function(function, None), path),
            Tool::Custom(custom) => self.push(from_custom(custom, None), path),
            Tool::Namespace(NamespaceTool { name, .. }) if name == BUILTIN_SERVER_LABEL => {
                Err(ApiError::invalid(
                    "invalid_value",
                    format!("{path}.name"),
                    format!("The namespace '{BUILTIN_SERVER_LABEL}' is the gateway's own."),
                ))
            }
            Tool::Namespace(NamespaceTool { name, tools, .. }) => {
                for (i, tool) in tools.iter().enumerate() {
                    let inner = format!("{path}.tools[{i}]");
                    match tool {
                        Tool::Function(function) => self.push(from_function(function, Some(name)), &inner)?,
                        Tool::Custom(custom) => self.push(from_custom(custom, Some(name)), &inner)?,
                        other => self.leave_out(other.kind(), not_served(other.kind(), &inner))?,
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds a tool that the gateway runs.
    fn add_requested_tool(&mut self, tool: &Tool, path: &str) -> Result<(), ApiError> {
        match tool {
            Tool::Function(_) | Tool::Custom(_) | Tool::Namespace(_) => Ok(()),
            Tool::Server(named) => match self.server.find(named.name()).cloned() {
                Some(tool) => {
                    self.add_server_tool(&tool, self.server.presentation, None);
                    Ok(())
                }
                None => Err(self.server.no_such_tool(&format!("{path}.type"), named.name())),
            },
            Tool::Mcp(mcp) if mcp.is_configured() && mcp.server_label == BUILTIN_SERVER_LABEL => {
                self.add_builtin_server(mcp, path)
            }
            // Added last, when all other names are known.
            Tool::Mcp(_) => Ok(()),
            other => match hosted::requested(other) {
                Some(hosted) => self.add_hosted_tool(hosted, other, path),
                None => self.leave_out(other.kind(), not_served(other.kind(), path)),
            },
        }
    }

    fn add_hosted_tool(
        &mut self,
        hosted: &'static HostedTool,
        tool: &Tool,
        path: &str,
    ) -> Result<(), ApiError> {
        let Some(found) = self.server.find(hosted.executor).cloned() else {
            let error = ApiError::unsupported(format!("{path}.type"), hosted.not_configured);
            return self.leave_out(tool.kind(), error);
        };
        let fixed_arguments = match (hosted.fixed_arguments)(tool, path) {
            Ok(fixed) => fixed,
            Err(error) => return self.leave_out(tool.kind(), error),
        };
        let binding = HostedBinding { tool: hosted, fixed_arguments };
        self.check_same_options(&found, &binding, path)?;
        let presentation = self.server.presentation.map(|of_others| hosted.presentation(of_others));
        self.add_server_tool(&found, presentation, Some(binding));
        Ok(())
    }

    /// Leaves out a tool that is not supported, or refuses the request.
    fn leave_out(&mut self, kind: &'static str, error: ApiError) -> Result<(), ApiError> {
        if self.server.unserved == OnUnservedTool::Refuse {
            return Err(with_setting(error, ""));
        }
        if !self.omitted.contains(&kind) {
            self.omitted.push(kind);
        }
        self.refused.get_or_insert(error);
        Ok(())
    }

    /// A request whose only tools are not supported would be answered as if it had none.
    ///
    /// `again`: it was accepted when the run began.
    fn check_something_is_left(&mut self, servers: &[ListedServer], again: bool) -> Result<(), ApiError> {
        let nothing_is_left = self.tools.is_empty() && servers.is_empty();
        if again || !nothing_is_left || self.server.unserved != OnUnservedTool::OmitBesideOthers {
            return Ok(());
        }
        match self.refused.take() {
            Some(error) => Err(with_setting(error, "The request offers no other tools. ")),
            None => Ok(()),
        }
    }

    /// A hosted tool is offered once: of two entries with different options one would be ignored.
    fn check_same_options(
        &self,
        tool: &Arc<RegisteredTool>,
        hosted: &HostedBinding,
        path: &str,
    ) -> Result<(), ApiError> {
        let place = self.offered.get(&address(tool));
        let earlier = place.and_then(|place| self.bindings.get(*place)?.as_ref()?.hosted.as_ref());
        match earlier {
            Some(earlier) if earlier.fixed_arguments != hosted.fixed_arguments => {
                Err(ApiError::invalid("invalid_value", path, hosted.tool.given_twice))
            }
            _ => Ok(()),
        }
    }

    /// Adds the built-in tools, which the request names as a server of the configuration.
    fn add_builtin_server(&mut self, mcp: &McpTool, path: &str) -> Result<(), ApiError> {
        check_options(mcp, path)?;
        let names = match &mcp.allowed_tools {
            Some(McpAllowedTools::Names(names)) => Some(names),
            Some(McpAllowedTools::Filter(McpToolFilter { tool_names, .. })) => tool_names.as_ref(),
            None => None,
        };
        let read_only = match &mcp.allowed_tools {
            Some(McpAllowedTools::Filter(McpToolFilter { read_only, .. })) => *read_only,
            _ => None,
        };
        let mut chosen = Vec::new();
        match names {
            Some(names) => {
                for (i, name) in names.iter().enumerate() {
                    let tool = self.server.find(name);
                    let missing = || self.server.no_such_tool(&format!("{path}.allowed_tools[{i}]"), name);
                    chosen.push(Arc::clone(tool.ok_or_else(missing)?));
                }
            }
            None => chosen.extend(self.server.all().cloned()),
        }
        for tool in chosen {
            if read_only.is_none_or(|wanted| tool.definition().annotations.read_only == wanted) {
                self.add_server_tool(&tool, self.server.presentation, None);
            }
        }
        Ok(())
    }

    /// Adds a server-side tool, once. A hosted tool replaces an earlier entry of the same tool, as its options must
    /// hold.
    fn add_server_tool(
        &mut self,
        tool: &Arc<RegisteredTool>,
        presentation: Option<Presentation>,
        hosted: Option<HostedBinding>,
    ) {
        let definition = tool.definition();
        let place = self.offered.get(&address(tool)).copied();
        if place.is_some() && hosted.is_none() {
            return;
        }
        let seen = tool.model_tool(presentation.map_or(CallKind::Function, CallKind::Server));
        let name = match place.and_then(|place| self.tools.get(place)) {
            Some(earlier) => Some(earlier.wire_name.clone()),
            None => self.own_wire_name(&definition.name),
        };
        let offered = if hosted.is_some() || name.is_some() {
            let mut seen = ModelTool::clone(&seen);
            if let Some(hosted) = &hosted {
                let schema = Some(to_raw(&(hosted.tool.parameters)()));
                seen.input = ToolInput::Json { schema, strict: None };
            }
            seen.wire_name = name.unwrap_or(seen.wire_name);
            Arc::new(seen)
        } else {
            seen
        };
        let binding = presentation.map(|_| ToolBinding { tool: Arc::clone(tool), hosted });
        match place {
            Some(place) => {
                self.tools.splice(place..=place, [offered]);
                self.bindings.splice(place..=place, [binding]);
            }
            None => {
                self.names.add_own(&offered.wire_name);
                self.offered.insert(address(tool), self.tools.len());
                self.tools.push(offered);
                self.bindings.push(binding);
            }
        }
    }

    /// Adds the tools of MCP servers: under their own names where these are unambiguous, else qualified by the
    /// server's label.
    fn add_mcp_tools(&mut self, servers: &[ListedServer]) {
        let server = self.server;
        let own = self.tools.len();
        for listed in servers {
            self.names.add_label(listed.label());
        }
        let tools = || servers.iter().flat_map(ListedServer::offered);
        let wanted =
            tools().map(|(tool, _)| (&**tool.registered.label(), wire_name(None, &tool.listed.name)));
        let plain = PlainNames::new(&self.names, wanted);
        for (tool, decision) in tools() {
            let kind = match (decision, server.presentation) {
                (_, None) => CallKind::Function,
                (CallDecision::Ask, Some(_)) => CallKind::Server(Presentation::Approval),
                (_, Some(presentation)) => CallKind::Server(presentation),
            };
            let tool = &tool.registered;
            let seen = tool.model_tool(kind);
            let mut offered = match plain.is_kept(&self.names, tool.label(), &seen.wire_name) {
                true => seen,
                false => self.with_label(&seen, tool.label(), &plain),
            };
            // The client, which is to run it, knows no servers: the name alone must identify the tool.
            if server.presentation.is_none() && offered.name != offered.wire_name {
                let mut named = ModelTool::clone(&offered);
                named.name.clone_from(&named.wire_name);
                offered = Arc::new(named);
            }
            self.tools.push(offered);
            let binding = server.presentation.map(|_| ToolBinding { tool: Arc::clone(tool), hosted: None });
            self.bindings.push(binding);
        }
        self.label_own(own, &plain);
    }

    /// Qualifies the gateway's own tools whose names a server's tools have, too. Functions of the client always keep
    /// theirs.
    fn label_own(&mut self, until: usize, plain: &PlainNames) {
        for place in 0..until {
            let Some(tool) = self.tools.get(place).cloned() else { return };
            if matches!(tool.kind, CallKind::Server(_)) && plain.wants(&tool.wire_name) {
                let labelled = self.with_label(&tool, BUILTIN_SERVER_LABEL, plain);
                self.tools.splice(place..=place, [labelled]);
            }
        }
    }

    fn with_label(&mut self, tool: &ModelTool, label: &str, plain: &PlainNames) -> Arc<ModelTool> {
        let mut tool = tool.clone();
        let name = self.names.qualify(label, &tool.name, |wanted| !plain.wants(wanted));
        tool.wire_name = name.unwrap_or(tool.wire_name);
        Arc::new(tool)
    }

    /// The qualified name for a tool whose own name a tool of the client has.
    fn own_wire_name(&mut self, name: &str) -> Option<ToolName> {
        let catalog = &self.server.catalog.catalog;
        let is_client = self.names.is_client(name);
        is_client
            .then(|| self.names.qualify(BUILTIN_SERVER_LABEL, name, |wanted| catalog.get(wanted).is_none()))?
    }

    fn push(&mut self, tool: ModelTool, path: &str) -> Result<(), ApiError> {
        if !self.names.add_client(&tool.wire_name) {
            return Err(ApiError::invalid(
                "invalid_value",
                format!("{path}.name"),
                format!("There is more than one tool named '{}'; names must be unique.", tool.name),
            ));
        }
        if let Some(namespace) = &tool.namespace {
            self.names.add_label(namespace);
        }
        self.tools.push(Arc::new(tool));
        self.bindings.push(None);
        Ok(())
    }
}

fn address(tool: &Arc<RegisteredTool>) -> usize {
    Arc::as_ptr(tool).addr()
}
