//! An MCP server as one request uses it: its tools, and the rules that decide about calls.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};

use super::connection::{TaskLook, TaskState};
use super::content;
use super::context::CallerContext;
use super::error::McpError;
use super::list_cache::CachedToolList;
use super::pool::{SessionLease, SessionSpec};
use super::session::{Freshness, Session};
use super::task::RemoteTask;
use super::tool_builder::ServerToolBuilder;
use super::tool_config::ServerToolConfig;
use super::tool_sets::{ServedTool, ServerToolSet};
use antwort_config::{McpRule, McpServerSettings, McpTrust};
use antwort_limits::Permit;
use antwort_protocol::item::hosted::McpListedTool;
use antwort_protocol::tool::{ApprovalPolicy, McpAllowedTools, McpTool, McpToolFilter};
use antwort_tools::{Progress, ToolError, ToolOutput};

/// The decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDecision {
    /// The call is executed.
    Call,
    /// The call needs approval.
    Ask,
    /// The call is rejected.
    Deny,
}

/// How far a task is, for tools.
pub enum TaskOutput {
    /// It goes on; look again after this time.
    Working(Duration),
    /// It has a result.
    Done(Box<ToolOutput>),
    /// It will have none.
    Failed {
        /// Why.
        error: ToolError,
        /// Whether it has ended; if not, it is to be cancelled.
        has_ended: bool,
    },
}

/// A server that a request may use, before a session is leased.
pub struct ResolvedServer {
    pub(super) opening: SessionSpec,
    pub(super) server: ServerScope,
}

/// The settings under which a request uses a server.
pub(super) struct ServerScope {
    pub label: Arc<str>,
    /// Context sent to the server.
    pub context: Option<Arc<CallerContext>>,
    pub(crate) tool_config: Arc<ServerToolConfig>,
    pub rules: Arc<ServerToolRules>,
    /// Whether the server is configured by the operator.
    pub is_configured: bool,
    /// Whether the server receives credentials of the caller.
    pub uses_caller_credentials: bool,
    pub required: bool,
}

/// A server in use by a request. Holds the lease of its session.
pub struct ServerHandle {
    server: ServerScope,
    session: Arc<Session>,
    /// Tool list for this caller.
    list: Arc<CachedToolList>,
    _in_use: Arc<Permit>,
}

/// The operator's rules for calls.
pub(super) struct ServerToolRules {
    pub allowed: Option<GlobSet>,
    pub blocked: GlobSet,
    pub(crate) by_pattern: Vec<(GlobMatcher, McpRule)>,
    pub trust: Option<McpTrust>,
}

impl ResolvedServer {
    /// Label of the server in the request.
    pub fn label(&self) -> &Arc<str> {
        &self.server.label
    }
}

impl ServerHandle {
    pub(super) fn new(server: ServerScope, SessionLease { session, permit }: SessionLease) -> Self {
        let list = session.lists.for_context(server.context.as_ref());
        Self { server, session, list, _in_use: permit }
    }

    /// Label of the server in the request.
    pub fn label(&self) -> &Arc<str> {
        &self.server.label
    }

    /// Whether the response fails if the tools cannot be listed.
    pub fn is_required(&self) -> bool {
        self.server.required
    }

    /// Whether the server receives credentials of the caller.
    pub(super) fn uses_caller_credentials(&self) -> bool {
        self.server.uses_caller_credentials
    }

    /// What an approval of a call refers to: the tool as shown to the user and the credentials of the call. Secret, since
    /// it contains the fingerprint of credentials.
    pub fn approval_subject(&self, tool: &ServedTool) -> [u8; 64] {
        let mut subject = [0; 64];
        let (shown, credentials) = subject.split_at_mut(32);
        shown.copy_from_slice(&tool.fingerprint);
        credentials.copy_from_slice(&self.session.credentials.fingerprint().0);
        subject
    }

    /// The tools of the server.
    ///
    /// # Errors
    /// If listing fails and no list is cached.
    pub async fn tools(&self, freshness: Freshness) -> Result<Arc<ServerToolSet>, McpError> {
        let listing = self.session.tools(&self.list, freshness).await?;
        let ServerScope { label, tool_config, .. } = &self.server;
        let builder = self.builder();
        self.list.sets.get_or_build(label, tool_config, listing.number, || builder.build(&listing))
    }

    /// The tools as listed by an earlier response, unless a newer list is cached. Makes no request.
    pub fn tools_from_item(&self, listed: &[McpListedTool]) -> Option<Arc<ServerToolSet>> {
        if self.list.known().is_some() {
            return None;
        }
        Some(Arc::new(self.builder().build_from_item(listed)))
    }

    fn builder(&self) -> ServerToolBuilder<'_> {
        let Self { server: ServerScope { label, tool_config, .. }, session, list, .. } = self;
        ServerToolBuilder { session, context: list.context.as_ref(), label, tool_config }
    }

    /// How far a task of the server is: its result as of a call, if it has one. Questions are answered by the policy. An error
    /// says nothing of the task.
    pub async fn task_output(&self, task: &RemoteTask) -> Result<TaskOutput, McpError> {
        let ServerScope { tool_config, context, .. } = &self.server;
        let (progress, mut answered) = (Progress::none(), BTreeMap::new());
        let look = TaskLook {
            task,
            idle: tool_config.timeout,
            context: context.as_deref(),
            asker: None,
            progress: &progress,
            answered: &mut answered,
        };
        Ok(match self.session.task_state(look).await? {
            TaskState::Working(next) => TaskOutput::Working(next),
            TaskState::Done(result) => {
                TaskOutput::Done(Box::new(content::to_output(*result, tool_config.user_output)))
            }
            TaskState::Failed(error) => TaskOutput::Failed { error: error.into(), has_ended: true },
            TaskState::Stuck(error) => TaskOutput::Failed { error: error.into(), has_ended: false },
        })
    }

    /// Tells the server that a task is not needed any more.
    pub async fn cancel_task(&self, task: &RemoteTask) -> Result<(), McpError> {
        self.session.cancel_task(task).await
    }

    /// Whether the server has changed its tools or announced a change.
    pub fn has_changed_since(&self, set: &ServerToolSet) -> bool {
        let Some(known) = self.list.known() else { return false };
        set.number != 0 && (known.number != set.number || self.session.has_changed(&known))
    }

    /// Whether the operator's lists permit offering a tool.
    pub fn is_offered(&self, tool: &ServedTool) -> bool {
        self.server.rules.is_offered(&tool.listed.name)
    }

    /// Decides about a call: by the operator's rule for the tool, else by the request, else by the trust in the server.
    /// An operator's `ask` overrides a client's `never`.
    pub fn decide(&self, tool: &ServedTool, request: Option<&RequestRules>) -> CallDecision {
        let requested = request.and_then(|request| request.decide(tool));
        let ServerScope { rules, is_configured, .. } = &self.server;
        match (rules.rule(&tool.listed.name), requested) {
            (Some(McpRule::Deny), _) => CallDecision::Deny,
            (Some(McpRule::Ask), _) | (_, Some(CallDecision::Ask)) => CallDecision::Ask,
            (Some(McpRule::Allow), _) => CallDecision::Call,
            (None, requested) => match (rules.trust, requested) {
                (Some(McpTrust::Untrusted), _) if *is_configured => CallDecision::Ask,
                (Some(McpTrust::Annotations), _) if *is_configured && !tool.read_only => CallDecision::Ask,
                (_, Some(decision)) => decision,
                (Some(McpTrust::Trusted), None) => CallDecision::Call,
                (Some(McpTrust::Annotations), None) if tool.read_only => CallDecision::Call,
                (Some(McpTrust::Annotations | McpTrust::Untrusted), None) => CallDecision::Ask,
                (None, None) if *is_configured => CallDecision::Call,
                (None, None) => CallDecision::Ask,
            },
        }
    }
}

/// A request's rules for a server: `allowed_tools` and `require_approval`.
#[derive(Default)]
pub struct RequestRules {
    allowed: Option<ToolFilter>,
    approval: Option<CompiledApproval>,
}

enum CompiledApproval {
    Always,
    Never,
    Some { always: Option<ToolFilter>, never: Option<ToolFilter> },
}

/// Selects tools; absent criteria match all. Names are hashed, as both list and server may have thousands.
struct ToolFilter {
    names: Option<HashSet<String>>,
    read_only: Option<bool>,
}

impl RequestRules {
    /// The rules of an `mcp` tool in a request.
    pub fn new(tool: &McpTool) -> Self {
        let allowed = tool.allowed_tools.as_ref().map(|allowed| match allowed {
            McpAllowedTools::Names(names) => {
                ToolFilter { names: Some(names.iter().cloned().collect()), read_only: None }
            }
            McpAllowedTools::Filter(filter) => ToolFilter::new(filter),
        });
        let approval = tool.require_approval.as_ref().map(|approval| match approval {
            ApprovalPolicy::Always => CompiledApproval::Always,
            ApprovalPolicy::Never => CompiledApproval::Never,
            ApprovalPolicy::Rules(rules) => CompiledApproval::Some {
                always: rules.always.as_ref().map(ToolFilter::new),
                never: rules.never.as_ref().map(ToolFilter::new),
            },
        });
        Self { allowed, approval }
    }

    /// Whether `allowed_tools` permits the tool.
    pub fn allows(&self, tool: &ServedTool) -> bool {
        self.allowed.as_ref().is_none_or(|filter| filter.picks(tool))
    }

    fn decide(&self, tool: &ServedTool) -> Option<CallDecision> {
        let picks = |filter: &Option<ToolFilter>| filter.as_ref().is_some_and(|filter| filter.picks(tool));
        let asks = match self.approval.as_ref()? {
            CompiledApproval::Always => true,
            CompiledApproval::Never => false,
            // Named by both or by neither: approval is required.
            CompiledApproval::Some { always, never } => picks(always) || !picks(never),
        };
        Some(if asks { CallDecision::Ask } else { CallDecision::Call })
    }
}

impl ToolFilter {
    fn new(filter: &McpToolFilter) -> Self {
        let names = filter.tool_names.as_ref().map(|names| names.iter().cloned().collect());
        Self { names, read_only: filter.read_only }
    }

    fn picks(&self, tool: &ServedTool) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(&tool.listed.name))
            && self.read_only.is_none_or(|wanted| wanted == tool.read_only)
    }
}

impl ServerToolRules {
    pub(super) fn from_settings(server: &McpServerSettings) -> Result<Self, String> {
        let set = |patterns: &[String]| {
            let mut set = GlobSetBuilder::new();
            for pattern in patterns {
                set.add(Glob::new(pattern).map_err(|error| error.to_string())?);
            }
            set.build().map_err(|error| error.to_string())
        };
        let single = server.rules.iter().map(|(pattern, rule)| {
            let glob = Glob::new(pattern).map_err(|error| error.to_string())?;
            Ok((glob.compile_matcher(), *rule))
        });
        Ok(Self {
            allowed: server.allowed_tools.as_deref().map(set).transpose()?,
            blocked: set(&server.blocked_tools)?,
            by_pattern: single.collect::<Result<_, String>>()?,
            trust: server.trust,
        })
    }

    fn is_offered(&self, name: &str) -> bool {
        !self.blocked.is_match(name)
            && self.allowed.as_ref().is_none_or(|allowed| allowed.is_match(name))
            && self.rule(name) != Some(McpRule::Deny)
    }

    fn rule(&self, name: &str) -> Option<McpRule> {
        self.by_pattern.iter().find(|(glob, _)| glob.is_match(name)).map(|(_, rule)| *rule)
    }
}
