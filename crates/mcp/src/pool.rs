//! The session pool: one session per server, tenant and credentials.
//!
//! A session in use holds a permit of the semaphore `mcp.sessions.max`, charged to the key that first used it. All
//! permits of a request are acquired at once, so requests cannot deadlock. Idle sessions stay open while there is room:
//! at most as many are in use as may be open, so an admitted request always finds an idle one to evict.
//!
//! The pool is shared by all configuration generations, so they share the limit and the sessions of unchanged servers.
//! A session is closed when no generation has its source any more.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connector, Endpoint};
use super::credentials::{Credentials, Fingerprint};
use super::list_budget::ListBudget;
use super::session::Session;
use super::source::{SessionLimits, SessionSource};
use super::status::ServerStatus;
use antwort_config::settings::McpSessionSettings;
use antwort_identity::Requester;
use antwort_limits::{Admission, Permit};
use antwort_protocol::elicitation::ElicitationModes;
use antwort_protocol::error::ApiError;
use antwort_telemetry::metrics::Metrics;

/// Interval of the eviction of idle sessions.
const EVICT_INTERVAL: Duration = Duration::from_secs(5);

/// Identifies a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    /// `label:…` or `url:…`.
    server: String,
    source: u64,
    credentials: Fingerprint,
    pub(super) tenant: Arc<str>,
    /// What the server is told of the clients: the questions to the user that they show; and whose these are, as not every
    /// transport says which call asks.
    shows: Option<(ElicitationModes, Arc<str>)>,
}

impl SessionKey {
    pub(super) fn new(
        server: String,
        source: &SessionSource,
        credentials: &dyn Credentials,
        tenant: &Arc<str>,
        shows: Option<(ElicitationModes, Arc<str>)>,
    ) -> Self {
        let (source, credentials) = (source.id, credentials.fingerprint());
        Self { server, source, credentials, tenant: Arc::clone(tenant), shows }
    }

    /// The status of the session.
    pub(super) fn state(&self, session: &Session) -> ServerStatus {
        let label = self.server.strip_prefix("label:");
        ServerStatus::from_session(label, &self.tenant, session)
    }
}

/// A requested session: key, and what it is opened with if there is none yet.
pub(super) struct SessionSpec {
    pub key: SessionKey,
    pub source: Arc<SessionSource>,
    pub endpoint: Endpoint,
    pub credentials: Arc<dyn Credentials>,
}

/// A session in use; returned to the pool on drop.
pub(super) struct SessionLease {
    pub session: Arc<Session>,
    pub permit: Arc<Permit>,
}

/// A session of the pool.
struct PooledSession {
    session: Arc<Session>,
    /// Alive while a generation may use the session.
    source: Weak<SessionSource>,
    /// Alive while the session is in use.
    permit: Weak<Permit>,
    /// API key for which the session was opened.
    opened_for: Arc<str>,
}

/// The pool.
pub struct Pool {
    sessions: Mutex<HashMap<SessionKey, PooledSession>>,
    admission: Arc<Admission>,
    idle_timeout: ArcSwap<Duration>,
    metrics: Arc<Metrics>,
    /// Notified when a source is dropped.
    source_gone: Arc<Notify>,
    /// Background tasks: refreshing lists, closing sessions.
    tasks: TaskTracker,
    /// Memory limit of the tool lists.
    lists: Arc<ListBudget>,
}

impl Pool {
    pub(super) fn new(
        settings: &McpSessionSettings,
        admission: &Arc<Admission>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self {
            sessions: Mutex::default(),
            admission: Arc::clone(admission),
            idle_timeout: ArcSwap::from_pointee(settings.idle_timeout),
            metrics: Arc::clone(metrics),
            source_gone: Arc::default(),
            tasks: TaskTracker::new(),
            lists: ListBudget::new(settings.max_list_bytes),
        }
    }

    /// Applies new settings. `mcp.sessions.max` itself is a limit of the admission control.
    pub fn resize(&self, settings: &McpSessionSettings) {
        self.idle_timeout.store(Arc::new(settings.idle_timeout));
        self.lists.resize(settings.max_list_bytes);
    }

    /// A new source of sessions in this pool.
    pub(super) fn source(&self, connector: &Arc<dyn Connector>, limits: SessionLimits) -> Arc<SessionSource> {
        SessionSource::new(Arc::clone(connector), limits, Arc::clone(&self.source_gone))
    }

    /// Leases the sessions of a request, in this order; waits for permits of those not in use yet.
    ///
    /// # Errors
    /// 503 if there were not enough permits in time; 400 if the request needs more than its key may ever have.
    pub(super) async fn sessions(
        &self,
        wanted: Vec<SessionSpec>,
        requester: &Requester,
    ) -> Result<Vec<SessionLease>, ApiError> {
        if let Some(all) = self.all_in_use(&wanted) {
            return Ok(all);
        }
        let distinct = wanted.iter().map(|opening| &opening.key).collect::<HashSet<_>>().len();
        let resource = &self.admission.mcp_sessions;
        let max = resource.shares().of_key(requester);
        if distinct as u64 > max {
            return Err(too_many(distinct, max));
        }
        let mut permit = resource.acquire(requester, distinct as u64).await?;
        let mut sessions = self.sessions.lock();
        // Lease existing sessions first, so that none is evicted for another of the same request.
        let existing: Vec<_> =
            wanted.iter().map(|opening| lease(&mut sessions, &opening.key, &mut permit)).collect();
        let pairs = existing.into_iter().zip(wanted);
        let open = |(existing, opening): (Option<SessionLease>, SessionSpec)| {
            existing.unwrap_or_else(|| self.open(&mut sessions, opening, requester, &mut permit))
        };
        Ok(pairs.map(open).collect())
    }

    /// Sessions that are in use already are shared without further permits.
    fn all_in_use(&self, wanted: &[SessionSpec]) -> Option<Vec<SessionLease>> {
        let sessions = self.sessions.lock();
        wanted.iter().map(|opening| sessions.get(&opening.key)?.try_lease()).collect()
    }

    /// Opens a session, unless the same request has opened it before.
    fn open(
        &self,
        sessions: &mut HashMap<SessionKey, PooledSession>,
        opening: SessionSpec,
        requester: &Requester,
        permits: &mut Permit,
    ) -> SessionLease {
        if let Some(lease) = lease(sessions, &opening.key, permits) {
            return lease;
        }
        let permit = Arc::new(permits.split(1));
        if let Some(evicted) = self.pick_eviction(sessions, requester).and_then(|key| sessions.remove(&key)) {
            self.tasks.spawn(async move { evicted.session.close().await });
        }
        let SessionSpec { key, source, endpoint, credentials } = opening;
        let session = Arc::new(Session::new(
            endpoint,
            credentials,
            Arc::clone(&source.connector),
            source.limits,
            Arc::clone(&self.metrics),
            self.tasks.clone(),
            Arc::clone(&self.lists),
        ));
        let weak = Arc::downgrade(&session);
        self.lists.register(weak);
        let opened_for = Arc::clone(&requester.key);
        let pooled = PooledSession {
            session: Arc::clone(&session),
            source: Arc::downgrade(&source),
            permit: Arc::downgrade(&permit),
            opened_for,
        };
        sessions.insert(key, pooled);
        SessionLease { session, permit }
    }

    /// The idle session to evict for a new one. If the key or tenant has used up its share, one of its own. Otherwise the
    /// tenant's own before those of others, and servers brought by requests before configured ones.
    fn pick_eviction(
        &self,
        sessions: &HashMap<SessionKey, PooledSession>,
        requester: &Requester,
    ) -> Option<SessionKey> {
        let shares = self.admission.mcp_sessions.shares();
        let is_tenants = |key: &SessionKey| key.tenant == requester.tenant;
        let is_own =
            |key: &SessionKey, pooled: &PooledSession| is_tenants(key) && pooled.opened_for == requester.key;
        let count = |of: &dyn Fn(&SessionKey, &PooledSession) -> bool| {
            sessions.iter().filter(|(key, pooled)| of(key, pooled)).count() as u64
        };
        let longest_idle = |of: &dyn Fn(&SessionKey, &PooledSession) -> bool| {
            let idle =
                sessions.iter().filter(|(key, pooled)| pooled.permit.strong_count() == 0 && of(key, pooled));
            let rank = |(key, pooled): &(&SessionKey, &PooledSession)| {
                let session = &pooled.session;
                (is_unused(session), is_tenants(key), key.server.starts_with("url:"), session.idle_for())
            };
            idle.max_by_key(rank).map(|(key, _)| key.clone())
        };
        // Sessions of the key may all be in use by others of its tenant.
        let of_key = (count(&is_own) >= shares.of_key(requester)).then(|| longest_idle(&is_own)).flatten();
        of_key.or_else(|| {
            if count(&|key, _| is_tenants(key)) >= shares.of_tenant() {
                longest_idle(&|key, _| is_tenants(key))
            } else if sessions.len() as u64 >= shares.capacity() {
                longest_idle(&|_, _| true)
            } else {
                None
            }
        })
    }

    /// Evicts idle sessions until `closing` is cancelled, then closes all.
    pub async fn run_eviction(&self, closing: CancellationToken) {
        let mut interval = tokio::time::interval(EVICT_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = interval.tick() => {}
                () = self.source_gone.notified() => {}
                () = closing.cancelled() => break,
            }
            self.evict_idle().await;
        }
        self.close().await;
    }

    /// Closes sessions idle for longer than `mcp.sessions.idle_timeout` and those without a generation.
    async fn evict_idle(&self) {
        let evicted: Vec<PooledSession> = {
            let mut sessions = self.sessions.lock();
            let idle_timeout = **self.idle_timeout.load();
            let is_idle = |pooled: &PooledSession| {
                pooled.permit.strong_count() == 0
                    && is_unused(&pooled.session)
                    && pooled.session.idle_for() >= idle_timeout
            };
            let is_orphaned = |pooled: &PooledSession| pooled.source.strong_count() == 0 || is_idle(pooled);
            let evicted =
                sessions.extract_if(|_, pooled| is_orphaned(pooled)).map(|(_, pooled)| pooled).collect();
            sessions.values().for_each(|pooled| pooled.session.forget_ended_generations());
            evicted
        };
        join_all(evicted.iter().map(|pooled| pooled.session.close())).await;
    }

    /// Closes all sessions.
    pub async fn close(&self) {
        let all: Vec<PooledSession> = self.sessions.lock().drain().map(|(_, pooled)| pooled).collect();
        join_all(all.iter().map(|pooled| pooled.session.close())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The sessions of these sources.
    pub(super) fn known(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<(SessionKey, Arc<Session>)> {
        let sessions = self.sessions.lock();
        let wanted = sessions.iter().filter(|(key, _)| is_wanted(key.source));
        wanted.map(|(key, pooled)| (key.clone(), Arc::clone(&pooled.session))).collect()
    }
}

impl PooledSession {
    fn try_lease(&self) -> Option<SessionLease> {
        Some(SessionLease { session: Arc::clone(&self.session), permit: self.permit.upgrade()? })
    }
}

/// Leases an existing session, with the permit of its current users or else one of `permits`.
fn lease(
    sessions: &mut HashMap<SessionKey, PooledSession>,
    key: &SessionKey,
    permits: &mut Permit,
) -> Option<SessionLease> {
    let pooled = sessions.get_mut(key)?;
    Some(pooled.try_lease().unwrap_or_else(|| {
        let permit = Arc::new(permits.split(1));
        pooled.permit = Arc::downgrade(&permit);
        SessionLease { session: Arc::clone(&pooled.session), permit }
    }))
}

/// Whether only the pool holds the session: no request and no background task.
fn is_unused(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) == 1
}

/// Rejected at once, since waiting would not help.
fn too_many(wanted: usize, max: u64) -> ApiError {
    let message = format!(
        "This request needs sessions with {wanted} MCP servers at a time; this key may have {max} (mcp.sessions.max)."
    );
    ApiError::invalid("array_above_max_length", "tools", message)
}
