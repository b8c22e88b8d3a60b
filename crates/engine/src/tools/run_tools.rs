//! The tools of a run that is under way: they are collected again when a server has changed its own.

use super::approvals::{ApprovalScope, ApprovedCall};
use super::mcp_servers::ListedServer;
use super::offered::OfferedTools;
use super::scope::ToolScope;
use crate::context::{EngineParts, OnUnservedTool};
use crate::run::trace::Interval;
use crate::run_spec::RunSpec;
use antwort_mcp::CallerCatalog;
use antwort_protocol::error::ApiError;
use antwort_protocol::request::CreateResponse;

/// The tools of a run.
pub(crate) struct RunTools {
    /// The tools that the model is offered.
    pub offer: OfferedTools,
    /// MCP servers with their tools.
    pub servers: Vec<ListedServer>,
    /// The gateway's own tools for this caller.
    pub catalog: CallerCatalog,
    /// The parts of the request that collect tools, for when servers change theirs.
    pub request: Option<Box<CreateResponse>>,
    pub unserved: OnUnservedTool,
    /// Approved calls of the input.
    pub approved: Vec<ApprovedCall>,
    /// How long its MCP servers took to list them, unless nobody would notice.
    pub listing: Option<Interval>,
}

impl RunTools {
    /// Collects the tools again after servers have changed theirs.
    pub(crate) fn refresh(&mut self, parts: &EngineParts, spec: &RunSpec) -> Result<(), ApiError> {
        let Some(request) = &self.request else { return Ok(()) };
        let scope = ToolScope {
            tenant: &spec.owner.tenant,
            agent: spec.agent.as_deref(),
            executes_tools: spec.executes_tools,
            presentation: spec.display.calls,
            catalog: &self.catalog,
            servers: &self.servers,
            unserved: self.unserved,
        };
        self.offer = scope.collect_tools(parts, request, &spec.input.items, true)?;
        Ok(())
    }

    /// What the run's approval requests belong to.
    pub(crate) fn approval_scope<'a>(&'a self, spec: &'a RunSpec) -> ApprovalScope<'a> {
        ApprovalScope { owner: &spec.owner, response: &spec.response.id, servers: &self.servers }
    }
}
