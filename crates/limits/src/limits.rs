//! The limits of all shared resources, as plain numbers: whoever reads a configuration fills them in.

use std::time::Duration;

use antwort_identity::Requester;

/// Limits of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// The tenant and key of each configured API key.
    pub keys: Vec<KeyLimits>,
    /// Maximum runs at a time.
    pub max_runs: usize,
    /// Maximum runs of one tenant; absent: a share of `max_runs`.
    pub max_runs_per_tenant: Option<usize>,
    /// How long a request waits for a permit before it is rejected.
    pub queue_timeout: Duration,
    /// Maximum bytes of one request body.
    pub request_body_limit: usize,
    /// Maximum bytes of all request bodies, and apart from these of all response bodies.
    pub max_buffered_body_bytes: usize,
    /// Maximum bytes of one stored conversation.
    pub max_conversation_bytes: usize,
    /// Maximum MCP sessions at a time.
    pub max_mcp_sessions: usize,
    /// Maximum MCP servers of one request.
    pub max_mcp_servers_per_request: usize,
    /// Maximum connections at a time.
    pub max_connections: usize,
}

/// One API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLimits {
    /// Its tenant and name.
    pub requester: Requester,
    /// Maximum runs at a time; absent: a share of its tenant's.
    pub max_runs: Option<usize>,
}

impl Default for AdmissionLimits {
    /// Those of a configuration without keys that changes nothing, and of one connection.
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            max_runs: 1024,
            max_runs_per_tenant: None,
            queue_timeout: Duration::from_secs(10),
            request_body_limit: 32 << 20,
            max_buffered_body_bytes: 256 << 20,
            max_conversation_bytes: 64 << 20,
            max_mcp_sessions: 256,
            max_mcp_servers_per_request: 16,
            max_connections: 1,
        }
    }
}
