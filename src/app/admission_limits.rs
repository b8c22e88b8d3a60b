//! The limits of shared resources that the settings ask for.

use antwort_config::Settings;
use antwort_identity::Requester;
use antwort_limits::{AdmissionLimits, KeyLimits};

/// The configured limits of a process that serves this many connections.
pub(crate) fn admission_limits(settings: &Settings, max_connections: usize) -> AdmissionLimits {
    let Settings { server, engine, auth, mcp, .. } = settings;
    let keys = auth.keys.iter().map(|(name, key)| KeyLimits {
        requester: Requester::new(&key.tenant, &name.as_str().into()),
        max_runs: key.max_runs,
    });
    AdmissionLimits {
        keys: keys.collect(),
        max_runs: server.max_runs,
        max_runs_per_tenant: server.max_runs_per_tenant,
        queue_timeout: server.queue_timeout,
        request_body_limit: server.request_body_limit,
        max_buffered_body_bytes: server.max_buffered_body_bytes,
        max_conversation_bytes: engine.max_conversation_bytes,
        max_mcp_sessions: mcp.sessions.max,
        max_mcp_servers_per_request: mcp.requests.max_servers,
        max_connections,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_by_default_are_those_of_a_configuration_that_changes_nothing() {
        assert_eq!(admission_limits(&Settings::default(), 1), AdmissionLimits::default());
    }
}
