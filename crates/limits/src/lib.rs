//! Admission control: shares resources fairly among tenants and keys.
//!
//! A [`Resource`] is a weighted semaphore with a bounded, fair queue: no tenant or key holds more than its share,
//! and requests beyond a share or the capacity wait for `server.queue_timeout`, then are rejected with 503.
//! [`Shares`] computes the limits, `semaphore` enforces them. What is done with a permit is the caller's business.

mod blocking;
mod eviction;
mod limits;
mod resource;
mod semaphore;
mod shares;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use antwort_identity::Requester;
use antwort_telemetry::metrics::Metrics;

pub use blocking::{BlockingPool, run_in_place, run_on_bytes};
pub use eviction::losses;
pub use limits::{AdmissionLimits, KeyLimits};
use resource::Label;
pub use resource::Resource;
pub use semaphore::{AcquireError, AcquireOutcome, FairSemaphore, Permit};
pub use shares::Shares;

const RUNS: Label = Label { resource: "runs", reason: "max_runs", limit: "server.max_runs" };
const SMALL_BODIES: Label = Label {
    resource: "small_bodies",
    reason: "max_buffered_body_bytes",
    limit: "an eighth of server.max_buffered_body_bytes",
};
const LARGE_BODIES: Label = Label {
    resource: "large_bodies",
    reason: "max_buffered_body_bytes",
    limit: "server.max_buffered_body_bytes",
};
const RESPONSE_BODIES: Label = Label {
    resource: "response_bodies",
    reason: "max_buffered_body_bytes",
    limit: "server.max_buffered_body_bytes for response bodies that are not taken",
};
const BLOCKING: Label =
    Label { resource: "blocking", reason: "blocking", limit: "threads that read large requests" };

/// Threads of the blocking pool: at least one for each of two tenants, and few enough to leave the processors to
/// others.
const MIN_THREADS: usize = 2;
const MAX_THREADS: usize = 8;

const CONNECTIONS: Label =
    Label { resource: "connections", reason: "max_connections", limit: "server.max_connections" };

const MCP_SESSIONS: Label =
    Label { resource: "mcp_sessions", reason: "max_mcp_sessions", limit: "mcp.sessions.max" };

const CONVERSATIONS: Label = Label {
    resource: "conversations",
    reason: "max_conversation_bytes",
    limit: "four times engine.max_conversation_bytes, in which each counts twice",
};
const KEPT_CONVERSATIONS: Label = Label {
    resource: "kept_conversations",
    reason: "kept_conversations",
    limit: "twice engine.max_conversation_bytes",
};
/// A run holds its conversation twice: as items, and as the provider's request.
pub const CONVERSATION_COPIES: u64 = 2;
/// This many of the largest conversations may be in memory at a time, with all their copies.
const MAX_CONVERSATIONS: u64 = 2;

/// All shared resources.
#[derive(Debug)]
pub struct Admission {
    /// Running responses and direct tool calls; one unit each.
    pub runs: Resource,
    /// Bytes of small bodies, so that these never wait behind large ones.
    pub small_bodies: Resource,
    /// Bytes of all other bodies.
    pub large_bodies: Resource,
    /// Bytes of response bodies until they are read. Apart from those of requests: a request that holds bytes of one
    /// resource must not wait for more of the same.
    pub response_bodies: Resource,
    /// Threads for work in proportion to a request's size.
    pub blocking: BlockingPool,
    /// Bytes of stored conversations that runs hold.
    pub conversations: Resource,
    /// Bytes of conversations that are not stored, and that connections keep for continuations. Apart from those of runs,
    /// which idle connections must not keep from running; and nobody waits for it, since a client can send its
    /// conversation again.
    pub kept_conversations: Resource,
    /// MCP sessions in use; one unit each.
    pub mcp_sessions: Resource,
    /// Connections with active requests; one unit each. Nobody waits for it, since that would take a connection.
    pub connections: Resource,
}

impl Admission {
    /// Resources with these limits.
    pub fn new(limits: &AdmissionLimits, metrics: &Arc<Metrics>) -> Arc<Self> {
        let requesters: Vec<Requester> = limits.keys.iter().map(|key| key.requester.clone()).collect();
        let even = |capacity: usize| Shares::new(capacity as u64, &requesters);
        let mut runs = even(limits.max_runs);
        if let Some(most) = limits.max_runs_per_tenant {
            runs = runs.with_tenant_limit(most as u64);
        }
        for KeyLimits { requester, max_runs } in &limits.keys {
            if let Some(most) = max_runs {
                runs = runs.with_key_limit(requester, *most as u64);
            }
        }
        let resource = |label, shares| Resource::new(label, shares, limits.queue_timeout, metrics);
        let bodies = limits.max_buffered_body_bytes;
        let large = even(bodies - bodies / 8).at_least(limits.request_body_limit as u64);
        // These threads share the processors with those that serve requests.
        let threads = std::thread::available_parallelism().map_or(MIN_THREADS, usize::from);
        let threads = even(threads.clamp(MIN_THREADS, MAX_THREADS));
        // Each share has room for the largest conversation.
        let largest = (limits.max_conversation_bytes as u64).saturating_mul(CONVERSATION_COPIES);
        let conversations = largest.saturating_mul(MAX_CONVERSATIONS);
        let conversations = Shares::new(conversations, &requesters).at_least(largest);
        let kept = Shares::new(largest, &requesters).at_least(limits.max_conversation_bytes as u64);
        // Each share has room for all servers of a request.
        let mcp_sessions = even(limits.max_mcp_sessions).at_least(limits.max_mcp_servers_per_request as u64);
        Arc::new(Self {
            mcp_sessions: resource(MCP_SESSIONS, mcp_sessions),
            runs: resource(RUNS, runs),
            connections: Resource::new(CONNECTIONS, even(limits.max_connections), Duration::ZERO, metrics),
            conversations: resource(CONVERSATIONS, conversations),
            kept_conversations: Resource::new(KEPT_CONVERSATIONS, kept, Duration::ZERO, metrics),
            small_bodies: resource(SMALL_BODIES, even(bodies / 8)),
            large_bodies: resource(LARGE_BODIES, large),
            response_bodies: resource(RESPONSE_BODIES, even(bodies)),
            blocking: BlockingPool::new(resource(BLOCKING, threads), metrics),
        })
    }

    /// The number of connections that the process serves at a time.
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.connections.shares().capacity()).unwrap_or(usize::MAX)
    }

    /// Applies other limits. Permits that are held stay valid, and count.
    pub fn resize(&self, limits: &AdmissionLimits, metrics: &Arc<Metrics>) {
        let new = Self::new(limits, metrics);
        for (old, new) in self.resources().into_iter().zip(new.resources()) {
            old.adopt_limits(new);
        }
    }

    fn resources(&self) -> [&Resource; 9] {
        [
            &self.runs,
            &self.small_bodies,
            &self.large_bodies,
            &self.response_bodies,
            self.blocking.threads(),
            &self.conversations,
            &self.kept_conversations,
            &self.mcp_sessions,
            &self.connections,
        ]
    }

    /// Rejects new and waiting requests from now on. Running ones may still need MCP sessions.
    pub fn close(&self) {
        self.runs.close();
    }

    /// Rejects requests for MCP sessions from now on.
    pub fn close_sessions(&self) {
        self.mcp_sessions.close();
    }
}
