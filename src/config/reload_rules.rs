//! The rules of reloading: which changed keys a running gateway applies, and which need a restart.

/// What a reload does with a changed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReloadEffect {
    /// Applies it.
    Reload,
    /// Reports it; the old value stays in force.
    Restart,
}

use ReloadEffect::{Reload, Restart};

/// Every key, or the section that it is in; the longest match applies. A section with both kinds has no entry of its
/// own, so that each of its keys must have one, which a test checks.
pub(super) const RELOAD_RULES: &[(&str, ReloadEffect)] = &[
    ("listen", Restart),
    ("role", Restart),
    ("config", Reload),
    ("log.filter", Reload),
    // A log file must not contain lines of two formats.
    ("log.format", Restart),
    // Logs are set up once.
    ("log.queue", Restart),
    ("server.request_body_limit", Reload),
    ("server.max_runs", Reload),
    ("server.max_runs_per_tenant", Reload),
    ("server.queue_timeout", Reload),
    ("server.max_buffered_body_bytes", Reload),
    ("server.body_idle_timeout", Reload),
    ("server.ready_requires", Reload),
    ("server.trusted_proxies", Reload),
    ("server.allowed_hosts", Reload),
    ("server.public_url", Reload),
    ("server.pass_through", Reload),
    ("server.cors", Reload),
    ("server.request_limits", Reload),
    // Of connections that are opened after the reload.
    ("server.websocket", Reload),
    // Of the listener, whose connections outlive generations.
    ("server.write_timeout", Restart),
    ("server.shutdown_delay", Restart),
    ("server.drain_listener", Restart),
    ("server.drain_timeout", Restart),
    ("server.max_connections", Restart),
    ("server.first_byte_timeout", Restart),
    ("server.header_timeout", Restart),
    ("server.keep_alive_timeout", Restart),
    ("sse", Reload),
    ("auth", Reload),
    ("engine", Reload),
    ("jobs", Reload),
    ("tools", Reload),
    ("mcp", Reload),
    ("egress", Reload),
    ("network", Reload),
    ("tls", Reload),
    ("agents", Reload),
    ("compat", Reload),
    ("providers", Reload),
    ("models", Reload),
    ("ui", Reload),
    ("store", Restart),
    ("bus", Restart),
    ("telemetry", Restart),
    // Notices in the outbox name them.
    ("webhooks", Restart),
    // Clients hold state that was encrypted with these keys, and runs in flight use them.
    ("seal", Restart),
];

/// What a reload does with this key. Unlisted keys are applied.
pub(super) fn reload_effect(key: &str) -> ReloadEffect {
    let fits = |entry: &&(&str, ReloadEffect)| {
        key.strip_prefix(entry.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    RELOAD_RULES
        .iter()
        .filter(fits)
        .max_by_key(|(entry, _)| entry.len())
        .map_or(Reload, |(_, effect)| *effect)
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
        if let Some((entry, _)) = RELOAD_RULES.iter().find(|(entry, _)| *entry == path) {
            met.push(entry);
            return;
        }
        let keys = keys_of(path);
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
        assert!(missing.is_empty(), "KEYS does not say what a reload does with {missing:?}");
        let unknown: Vec<_> = RELOAD_RULES.iter().filter(|(entry, _)| !met.contains(entry)).collect();
        assert!(unknown.is_empty(), "KEYS has entries that are no keys: {unknown:?}");
    }

    #[test]
    fn the_longest_entry_counts() {
        for (key, expected) in [
            ("listen", Restart),
            ("log.filter", Reload),
            ("server.cors.allowed_origins", Reload),
            ("server.max_runs_per_tenant", Reload),
            ("store.url", Restart),
            ("providers.\"a.b\".url", Reload),
        ] {
            assert_eq!(reload_effect(key), expected, "{key}");
        }
    }
}
