//! The rules of reloading: which changed keys a running gateway applies and what it rebuilds for them, and which need a restart.

/// What a reload does with a changed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReloadEffect {
    /// Applies it.
    Reload,
    /// Reports it; the old value stays in force.
    Restart,
}

/// What a reload rebuilds for changed keys, of what keeps state: circuit breakers, caches, sessions. Providers are rebuilt on every
/// reload, and cost only their idle connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rebuilds {
    /// The list of MCP servers; which of them keep their sessions is decided in `mcp::servers`.
    pub mcp_servers: bool,
    /// The connections to all MCP servers.
    pub mcp_client: bool,
    /// The gateway's own tools, with their circuit breakers and caches.
    pub toolbox: bool,
}

impl Rebuilds {
    const NOTHING: Self = Self { mcp_servers: false, mcp_client: false, toolbox: false };
    const MCP_SERVERS: Self = Self { mcp_servers: true, ..Self::NOTHING };
    const MCP_CLIENT: Self = Self { mcp_client: true, ..Self::MCP_SERVERS };
    const TOOLBOX: Self = Self { toolbox: true, ..Self::MCP_SERVERS };
    const ALL: Self = Self { toolbox: true, ..Self::MCP_CLIENT };

    /// What one or the other rebuilds.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            mcp_servers: self.mcp_servers || other.mcp_servers,
            mcp_client: self.mcp_client || other.mcp_client,
            toolbox: self.toolbox || other.toolbox,
        }
    }

    /// Whether nothing is rebuilt.
    pub fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }
}

/// The rule of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Reload(Rebuilds),
    Restart,
}

use Rule::{Reload, Restart};

/// Every key, or the section that it is in; the longest match applies. A section with both kinds has no entry of its
/// own, so that each of its keys must have one, which a test checks.
pub(super) const RELOAD_RULES: &[(&str, Rule)] = &[
    ("listen", Restart),
    ("role", Restart),
    ("config", Reload(Rebuilds::NOTHING)),
    ("log.filter", Reload(Rebuilds::NOTHING)),
    // A log file must not contain lines of two formats.
    ("log.format", Restart),
    // Logs are set up once.
    ("log.queue", Restart),
    ("server.request_body_limit", Reload(Rebuilds::NOTHING)),
    ("server.max_runs", Reload(Rebuilds::NOTHING)),
    ("server.max_runs_per_tenant", Reload(Rebuilds::NOTHING)),
    ("server.queue_timeout", Reload(Rebuilds::NOTHING)),
    ("server.max_buffered_body_bytes", Reload(Rebuilds::NOTHING)),
    ("server.body_idle_timeout", Reload(Rebuilds::NOTHING)),
    ("server.ready_requires", Reload(Rebuilds::NOTHING)),
    ("server.trusted_proxies", Reload(Rebuilds::NOTHING)),
    ("server.allowed_hosts", Reload(Rebuilds::NOTHING)),
    ("server.public_url", Reload(Rebuilds::NOTHING)),
    ("server.pass_through", Reload(Rebuilds::NOTHING)),
    ("server.cors", Reload(Rebuilds::NOTHING)),
    ("server.request_limits", Reload(Rebuilds::NOTHING)),
    // Of connections that are opened after the reload.
    ("server.websocket", Reload(Rebuilds::NOTHING)),
    // Of the listener, whose connections outlive generations.
    ("server.write_timeout", Restart),
    ("server.shutdown_delay", Restart),
    ("server.drain_listener", Restart),
    ("server.drain_timeout", Restart),
    ("server.max_connections", Restart),
    ("server.first_byte_timeout", Restart),
    ("server.header_timeout", Restart),
    ("server.keep_alive_timeout", Restart),
    ("sse", Reload(Rebuilds::NOTHING)),
    ("auth", Reload(Rebuilds::NOTHING)),
    ("engine", Reload(Rebuilds::NOTHING)),
    ("jobs", Reload(Rebuilds::NOTHING)),
    ("tools", Reload(Rebuilds::TOOLBOX)),
    ("mcp", Reload(Rebuilds::MCP_CLIENT)),
    // `requests` concerns configured servers only through the limits of their sessions.
    ("mcp.servers", Reload(Rebuilds::MCP_SERVERS)),
    ("mcp.requests", Reload(Rebuilds::MCP_SERVERS)),
    ("mcp.sessions", Reload(Rebuilds::MCP_SERVERS)),
    ("mcp.approvals", Reload(Rebuilds::MCP_SERVERS)),
    ("egress", Reload(Rebuilds::ALL)),
    ("network", Reload(Rebuilds::ALL)),
    ("tls", Reload(Rebuilds::ALL)),
    // They name tools.
    ("agents", Reload(Rebuilds::TOOLBOX)),
    ("compat", Reload(Rebuilds::NOTHING)),
    ("providers", Reload(Rebuilds::NOTHING)),
    ("models", Reload(Rebuilds::NOTHING)),
    ("ui", Reload(Rebuilds::NOTHING)),
    ("store", Restart),
    ("bus", Restart),
    ("telemetry", Restart),
    // Notices in the outbox name them.
    ("webhooks", Restart),
    // Clients hold state that was encrypted with these keys, and runs in flight use them.
    ("seal", Restart),
];

/// The rule of this key. Unlisted keys are applied.
pub(super) fn rule(key: &str) -> Rule {
    let fits = |entry: &&(&str, Rule)| {
        key.strip_prefix(entry.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    RELOAD_RULES
        .iter()
        .filter(fits)
        .max_by_key(|(entry, _)| entry.len())
        .map_or(Reload(Rebuilds::ALL), |(_, rule)| *rule)
}

/// What a reload does with this key.
pub(super) fn reload_effect(key: &str) -> ReloadEffect {
    match rule(key) {
        Reload(_) => ReloadEffect::Reload,
        Restart => ReloadEffect::Restart,
    }
}

/// What a reload rebuilds if this key has changed.
pub(super) fn rebuilds(key: &str) -> Rebuilds {
    match rule(key) {
        Reload(rebuilds) => rebuilds,
        Restart => Rebuilds::NOTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{de, raw::Raw, tree::Tree};
    use super::*;

    /// The keys of the section at this path, as its type declares them; none for a value.
    fn keys_of(path: &str) -> Vec<String> {
        const NO_KEY: &str = "this_is_the_name_of_no_key_at_all_and_near_to_none";
        let mut steps: Vec<String> =
            path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        steps.push(NO_KEY.to_owned());
        let mut tree = Tree::default();
        tree.set(&steps, "1".into());
        let error = de::from_value::<Raw>(tree.root()).expect_err("no such key").message;
        let known = error.split_once("known are ").map(|(_, known)| known.to_owned());
        known.map(|known| known.split(", ").map(str::to_owned).collect()).unwrap_or_default()
    }

    fn walk(path: &str, missing: &mut Vec<String>, met: &mut Vec<&'static str>) {
        let keys = keys_of(path);
        if let Some((entry, _)) = RELOAD_RULES.iter().find(|(entry, _)| *entry == path) {
            met.push(entry);
            // Keys within may have a rule of their own.
            let within = keys.iter().map(|key| format!("{path}.{key}"));
            let within = within.filter_map(|key| RELOAD_RULES.iter().find(|(entry, _)| *entry == key));
            met.extend(within.map(|(entry, _)| *entry));
            return;
        }
        if keys.is_empty() {
            missing.push(path.to_owned());
        }
        for key in keys {
            walk(&if path.is_empty() { key } else { format!("{path}.{key}") }, missing, met);
        }
    }

    #[test]
    fn every_key_of_the_settings_is_reloaded_or_needs_a_restart() {
        let (mut missing, mut met) = (Vec::new(), Vec::new());
        walk("", &mut missing, &mut met);
        assert!(missing.is_empty(), "RELOAD_RULES does not say what a reload does with {missing:?}");
        let unknown: Vec<_> = RELOAD_RULES.iter().filter(|(entry, _)| !met.contains(entry)).collect();
        assert!(unknown.is_empty(), "RELOAD_RULES has entries that are no keys: {unknown:?}");
    }

    #[test]
    fn the_longest_entry_counts() {
        for (key, expected) in [
            ("listen", ReloadEffect::Restart),
            ("log.filter", ReloadEffect::Reload),
            ("server.cors.allowed_origins", ReloadEffect::Reload),
            ("server.max_runs_per_tenant", ReloadEffect::Reload),
            ("store.url", ReloadEffect::Restart),
            ("providers.\"a.b\".url", ReloadEffect::Reload),
        ] {
            assert_eq!(reload_effect(key), expected, "{key}");
        }
    }

    /// `jobs` and `ui` were missing in lists kept elsewhere: their reload lost the state of circuit breakers and caches.
    #[test]
    fn only_keys_that_tools_depend_on_rebuild_them() {
        for (key, expected) in [
            ("jobs.concurrency", Rebuilds::NOTHING),
            ("ui.enabled", Rebuilds::NOTHING),
            ("providers.a.url", Rebuilds::NOTHING),
            ("store.url", Rebuilds::NOTHING),
            ("mcp", Rebuilds::MCP_CLIENT),
            ("mcp.servers.a.url", Rebuilds::MCP_SERVERS),
            ("mcp.approvals.ttl", Rebuilds::MCP_SERVERS),
            ("mcp.list_timeout", Rebuilds::MCP_CLIENT),
            ("tools.builtin.datetime", Rebuilds::TOOLBOX),
            ("agents.a.tools", Rebuilds::TOOLBOX),
            ("egress.allow", Rebuilds::ALL),
        ] {
            assert_eq!(rebuilds(key), expected, "{key}");
        }
    }
}
