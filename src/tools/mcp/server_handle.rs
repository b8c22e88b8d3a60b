//! A server as one request uses it: its tools, and what becomes of calls of them before a person is asked.

use std::collections::HashSet;
use std::sync::Arc;

use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};

use super::configured::ServerToolConfig;
use super::context::CallerContext;
use super::error::McpError;
use super::list_cache::CachedToolList;
use super::pool::{SessionLease, SessionSpec};
use super::session::{Freshness, Session};
use super::toolset::{ServedTool, ServerToolBuilder, ServerToolSet};
use crate::admission::Permit;
use crate::config::{McpRule, McpServerSettings, McpTrust};
use crate::protocol::item::hosted::McpListedTool;
use crate::protocol::tool::{ApprovalPolicy, McpAllowedTools, McpTool, McpToolFilter};

/// What is to become of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDecision {
    /// It is made.
    Call,
    /// A person is asked first.
    Ask,
    /// It is not made.
    Deny,
}

/// A server that a request may use, and has no session with yet.
pub struct ResolvedServer {
    pub(super) opening: SessionSpec,
    pub(super) server: ServerScope,
}

/// A server as one request uses it, apart from its session.
pub(super) struct ServerScope {
    pub label: Arc<str>,
    /// What it is told of the caller.
    pub context: Option<Arc<CallerContext>>,
    pub tool_config: Arc<ServerToolConfig>,
    pub rules: Arc<ServerToolRules>,
    /// Whether the operator configured it.
    pub is_configured: bool,
    /// Whether it is shown what belongs to the caller alone.
    pub uses_caller_credentials: bool,
    pub required: bool,
}

/// A server as one request uses it. Keeps its session, which counts as in use as long as there is one.
pub struct ServerHandle {
    server: ServerScope,
    session: Arc<Session>,
    /// What it has for the caller.
    list: Arc<CachedToolList>,
    _in_use: Arc<Permit>,
}

/// Who decides about calls before a person is asked.
pub(super) struct ServerToolRules {
    pub allowed: Option<GlobSet>,
    pub blocked: GlobSet,
    pub by_pattern: Vec<(GlobMatcher, McpRule)>,
    pub trust: Option<McpTrust>,
}

impl ResolvedServer {
    /// Its name in the request.
    pub fn label(&self) -> &Arc<str> {
        &self.server.label
    }
}

impl ServerHandle {
    pub(super) fn new(server: ServerScope, SessionLease { session, permit }: SessionLease) -> Self {
        let list = session.lists.for_context(server.context.as_ref());
        Self { server, session, list, _in_use: permit }
    }

    /// Its name in the request.
    pub fn label(&self) -> &Arc<str> {
        &self.server.label
    }

    /// Whether the response fails where its tools cannot be listed.
    pub fn is_required(&self) -> bool {
        self.server.required
    }

    /// Whether it is shown what belongs to the caller alone.
    pub(super) fn uses_caller_credentials(&self) -> bool {
        self.server.uses_caller_credentials
    }

    /// What a person allows who allows a call of this tool: the tool as it is shown, and the credentials with which
    /// it would be called. A secret: it is made of theirs.
    pub fn approval_subject(&self, tool: &ServedTool) -> [u8; 64] {
        let mut subject = [0; 64];
        let (shown, credentials) = subject.split_at_mut(32);
        shown.copy_from_slice(&tool.fingerprint);
        credentials.copy_from_slice(&self.session.credentials.fingerprint().0);
        subject
    }

    /// Its tools.
    ///
    /// # Errors
    /// If they cannot be listed and none are known.
    pub async fn tools(&self, freshness: Freshness) -> Result<Arc<ServerToolSet>, McpError> {
        let listing = self.session.tools(&self.list, freshness).await?;
        self.list.sets.get_or_build(&self.builder(), &listing)
    }

    /// Its tools as an earlier response listed them, if nothing newer is known. Asks nobody.
    pub fn tools_from_item(&self, listed: &[McpListedTool]) -> Option<Arc<ServerToolSet>> {
        if self.list.known().is_some() {
            return None;
        }
        Some(Arc::new(self.builder().build_from_item(listed)))
    }

    fn builder(&self) -> ServerToolBuilder<'_> {
        let Self { server: ServerScope { label, tool_config: terms, .. }, session, list, .. } = self;
        ServerToolBuilder { session, context: list.context.as_ref(), label, tool_config: terms }
    }

    /// Whether the server has other tools now, or says so.
    pub fn has_changed_since(&self, set: &ServerToolSet) -> bool {
        let Some(known) = self.list.known() else { return false };
        set.number != 0 && (known.number != set.number || self.session.has_changed(&known))
    }

    /// Whether a tool is offered at all, by the operator's lists.
    pub fn is_offered(&self, tool: &ServedTool) -> bool {
        self.server.rules.is_offered(&tool.listed.name)
    }

    /// What is to become of a call: the operator's rule for the tool; else what the request says; else how far the
    /// server is trusted. The operator's wish to be asked is stronger than a client's not to be.
    pub fn decide(&self, tool: &ServedTool, request: Option<&RequestRules>) -> CallDecision {
        let asked = request.and_then(|request| request.decide(tool));
        let ServerScope { rules, is_configured, .. } = &self.server;
        match (rules.rule(&tool.listed.name), asked) {
            (Some(McpRule::Deny), _) => CallDecision::Deny,
            (Some(McpRule::Ask), _) | (_, Some(CallDecision::Ask)) => CallDecision::Ask,
            (Some(McpRule::Allow), _) => CallDecision::Call,
            (None, asked) => match (rules.trust, asked) {
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

/// What a request says of a server's tools: which may be called, and which calls a person has to allow.
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

/// Picks tools; what is absent does not matter. Names are looked up: a list may have a thousand, and a server as many.
struct ToolFilter {
    names: Option<HashSet<String>>,
    read_only: Option<bool>,
}

impl RequestRules {
    /// Those of a tool as requests name it.
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

    /// Whether the tool may be called at all.
    pub fn allows(&self, tool: &ServedTool) -> bool {
        self.allowed.as_ref().is_none_or(|filter| filter.picks(tool))
    }

    fn decide(&self, tool: &ServedTool) -> Option<CallDecision> {
        let picks = |filter: &Option<ToolFilter>| filter.as_ref().is_some_and(|filter| filter.picks(tool));
        let asks = match self.approval.as_ref()? {
            CompiledApproval::Always => true,
            CompiledApproval::Never => false,
            // Named by both, or by none: a person is asked.
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
