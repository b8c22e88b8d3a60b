//! Access policy: which caller may use which tools. Globs and capabilities, compiled once.

use std::borrow::Cow;
use std::collections::BTreeMap;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::context::ToolContext;
use super::definition::ToolDefinition;
use super::error::{ToolError, ToolErrorCode};
use antwort_config::{AgentSettings, ToolsSettings};

/// The caller that a policy decision is about.
#[derive(Debug, Clone, Copy)]
pub struct PolicySubject<'a> {
    /// The caller's tenant.
    pub tenant: &'a str,
    /// The agent profile of the request, if any.
    pub agent: Option<&'a str>,
}

/// All lists. A tool must pass every list that applies: those of tenant and agent narrow the general ones.
pub(super) struct AccessPolicy {
    general: Lists,
    tenants: BTreeMap<String, Lists>,
    agents: BTreeMap<String, Lists>,
    files: bool,
    network: bool,
}

struct Lists {
    /// `None`: all tools.
    allowed: Option<GlobSet>,
    blocked: GlobSet,
}

/// An invalid glob pattern.
#[derive(Debug, thiserror::Error)]
#[error("{list}: {problem}")]
pub struct InvalidPattern {
    /// Key of the setting.
    list: String,
    problem: globset::Error,
}

impl<'a> PolicySubject<'a> {
    pub(super) fn from_context(context: &'a ToolContext) -> Self {
        Self { tenant: &context.tenant, agent: context.agent.as_deref() }
    }
}

impl AccessPolicy {
    pub(super) fn new(
        settings: &ToolsSettings,
        agents: &BTreeMap<String, AgentSettings>,
    ) -> Result<Self, InvalidPattern> {
        let tenants = settings.tenants.iter().map(|(name, lists)| {
            let place = format!("tools.tenants.{name}");
            Ok((name.clone(), Lists::new(&place, lists.allowed_tools.as_deref(), &lists.blocked_tools)?))
        });
        let agents = agents.iter().map(|(name, agent)| {
            let place = format!("agents.{name}");
            Ok((name.clone(), Lists::new(&place, agent.allowed_tools.as_deref(), &agent.blocked_tools)?))
        });
        Ok(Self {
            general: Lists::new("tools", settings.allowed_tools.as_deref(), &settings.blocked_tools)?,
            tenants: tenants.collect::<Result<_, InvalidPattern>>()?,
            agents: agents.collect::<Result<_, InvalidPattern>>()?,
            files: settings.allow_file_access,
            network: settings.allow_network_access,
        })
    }

    /// # Errors
    /// Names the kind of rule that denies access, but not the pattern.
    pub(super) fn check(&self, subject: PolicySubject<'_>, tool: &ToolDefinition) -> Result<(), ToolError> {
        let why = match tool {
            tool if !self.files && tool.has_tag("fs") => Some("file access is disabled"),
            tool if !self.network && tool.has_tag("net") => Some("network access is disabled"),
            tool => self.refusal(subject, tool.server.as_deref(), &tool.name),
        };
        why.map_or(Ok(()), |why| Err(denied(&tool.name, why)))
    }

    /// Checks a name of the gateway's own tools against the lists, whether or not such a tool exists.
    pub(super) fn check_name(&self, subject: PolicySubject<'_>, name: &str) -> Result<(), ToolError> {
        self.refusal(subject, None, name).map_or(Ok(()), |why| Err(denied(name, why)))
    }

    /// Why the lists deny a tool; `None`: they permit it. MCP servers choose the names of their tools, so an allowlist
    /// must name `label__name`, while a blocklist matches both `label__name` and the bare name.
    pub(super) fn refusal(
        &self,
        subject: PolicySubject<'_>,
        server: Option<&str>,
        bare: &str,
    ) -> Option<&'static str> {
        // Any blocklist beats every allowlist.
        if self.blocks(subject, server, bare) {
            return Some("it is blocked");
        }
        let name = labelled(server, bare);
        let allows = |lists: &Lists| lists.allowed.as_ref().is_none_or(|allowed| allowed.is_match(&*name));
        (!self.lists(subject).all(allows)).then_some("it is not in allowed_tools")
    }

    /// Whether a blocklist matches a tool.
    pub(super) fn blocks(&self, subject: PolicySubject<'_>, server: Option<&str>, bare: &str) -> bool {
        let name = labelled(server, bare);
        self.lists(subject).any(|lists| lists.blocked.is_match(&*name) || lists.blocked.is_match(bare))
    }

    /// All lists that apply to the caller.
    fn lists(&self, subject: PolicySubject<'_>) -> impl Iterator<Item = &Lists> {
        let tenant = self.tenants.get(subject.tenant);
        let agent = subject.agent.and_then(|agent| self.agents.get(agent));
        [Some(&self.general), tenant, agent].into_iter().flatten()
    }
}

fn labelled<'a>(server: Option<&str>, bare: &'a str) -> Cow<'a, str> {
    server.map_or(Cow::Borrowed(bare), |label| format!("{label}__{bare}").into())
}

fn denied(tool: &str, why: &str) -> ToolError {
    ToolError::refused(ToolErrorCode::AccessDenied, format!("the tool {tool} may not be used: {why}"))
}

impl Lists {
    fn new(place: &str, allowed: Option<&[String]>, blocked: &[String]) -> Result<Self, InvalidPattern> {
        Ok(Self {
            allowed: match allowed {
                Some(patterns) => Some(globs(&format!("{place}.allowed_tools"), patterns)?),
                None => None,
            },
            blocked: globs(&format!("{place}.blocked_tools"), blocked)?,
        })
    }
}

fn globs(list: &str, patterns: &[String]) -> Result<GlobSet, InvalidPattern> {
    let bad = |problem| InvalidPattern { list: list.to_owned(), problem };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(bad)?);
    }
    set.build().map_err(bad)
}
