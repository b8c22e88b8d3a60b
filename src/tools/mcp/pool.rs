//! Sessions that are kept: one for each server, tenant and set of credentials, never shared between two.
//!
//! A session that is in use has a permit of the semaphore, on the share of the key that began to use it. All that a
//! request uses are admitted at once, so that no two requests wait for each other. Sessions that nobody uses stay open
//! as long as there is room: as no more are in use than may be open, whoever is admitted finds one that makes way.
//!
//! There is one for the process, so that generations of the settings share what there is room for, and the sessions of servers
//! that are the same in both. A session is closed with the last generation that has its source.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connector, Endpoint};
use super::credentials::{Credentials, Fingerprint};
use super::list_budget::ListBudget;
use super::session::{Session, SessionLimits};
use super::source::SessionSource;
use super::status::ServerStatus;
use crate::admission::{Admission, Permit, Requester};
use crate::config::settings::McpSessionSettings;
use crate::protocol::error::ApiError;
use crate::telemetry::metrics::Metrics;

/// How often sessions are looked for that nobody uses.
const EVICT_INTERVAL: Duration = Duration::from_secs(5);

/// What tells sessions apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    /// `label:…` or `url:…`.
    server: String,
    source: u64,
    credentials: Fingerprint,
    tenant: Arc<str>,
}

impl SessionKey {
    pub(super) fn new(
        server: String,
        source: &SessionSource,
        credentials: &dyn Credentials,
        tenant: &Arc<str>,
    ) -> Self {
        let (source, credentials) = (source.id, credentials.fingerprint());
        Self { server, source, credentials, tenant: Arc::clone(tenant) }
    }

    /// The session's state, for people.
    pub(super) fn state(&self, session: &Session) -> ServerStatus {
        let label = self.server.strip_prefix("label:");
        ServerStatus::from_session(label, &self.tenant, session)
    }
}

/// What a session is opened with, if there is none yet.
pub(super) struct SessionSpec {
    pub key: SessionKey,
    pub source: Arc<SessionSource>,
    pub endpoint: Endpoint,
    pub credentials: Arc<dyn Credentials>,
}

/// A session, in use for as long as this is held.
pub(super) struct SessionLease {
    pub session: Arc<Session>,
    pub permit: Arc<Permit>,
}

/// A session that is open, or may be.
struct PooledSession {
    session: Arc<Session>,
    /// Of the generations that may use it.
    source: Weak<SessionSource>,
    /// Of those who use it.
    permit: Weak<Permit>,
    /// The key that it was made for.
    made_for: Arc<str>,
}

/// All sessions.
pub struct Pool {
    sessions: Mutex<HashMap<SessionKey, PooledSession>>,
    admission: Arc<Admission>,
    idle_timeout: ArcSwap<Duration>,
    metrics: Arc<Metrics>,
    /// A source is gone.
    source_gone: Arc<Notify>,
    /// What goes on behind requests: lists that are renewed, sessions that are closed.
    tasks: TaskTracker,
    /// For the tool lists of all sessions.
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

    /// Keeps sessions by these settings from now on. How many there may be is the admission's to say.
    pub fn resize(&self, settings: &McpSessionSettings) {
        self.idle_timeout.store(Arc::new(settings.idle_timeout));
        self.lists.resize(settings.max_list_bytes);
    }

    /// What sessions of this pool are opened with.
    pub(super) fn source(&self, connector: &Arc<dyn Connector>, limits: SessionLimits) -> Arc<SessionSource> {
        SessionSource::new(Arc::clone(connector), limits, Arc::clone(&self.source_gone))
    }

    /// The sessions that a request uses, in this order, once there is room for those that nobody uses yet.
    ///
    /// # Errors
    /// 503 if there was none in time; 400 if there are more than the requester may ever have.
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
        let most = resource.shares().of_key(requester);
        if distinct as u64 > most {
            return Err(too_many(distinct, most));
        }
        let mut permit = resource.acquire(requester, distinct as u64).await?;
        let mut sessions = self.lock();
        // None of those that are there makes way for another of the same request.
        let there: Vec<_> =
            wanted.iter().map(|opening| lease(&mut sessions, &opening.key, &mut permit)).collect();
        let both = there.into_iter().zip(wanted);
        let open = |(there, opening): (Option<SessionLease>, SessionSpec)| {
            there.unwrap_or_else(|| self.open(&mut sessions, opening, requester, &mut permit))
        };
        Ok(both.map(open).collect())
    }

    /// Those that somebody uses already are shared without asking for room.
    fn all_in_use(&self, wanted: &[SessionSpec]) -> Option<Vec<SessionLease>> {
        let sessions = self.lock();
        wanted.iter().map(|opening| sessions.get(&opening.key)?.try_lease()).collect()
    }

    /// A new session, unless another of the request has made it meanwhile.
    fn open(
        &self,
        sessions: &mut HashMap<SessionKey, PooledSession>,
        opening: SessionSpec,
        requester: &Requester,
        permits: &mut Permit,
    ) -> SessionLease {
        if let Some(twin) = lease(sessions, &opening.key, permits) {
            return twin;
        }
        let permit = Arc::new(permits.split(1));
        if let Some(gone) = self.pick_eviction(sessions, requester).and_then(|key| sessions.remove(&key)) {
            self.tasks.spawn(async move { gone.session.close().await });
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
        self.lists.register(&session);
        let made_for = Arc::clone(&requester.key);
        let kept = PooledSession {
            session: Arc::clone(&session),
            source: Arc::downgrade(&source),
            permit: Arc::downgrade(&permit),
            made_for,
        };
        sessions.insert(key, kept);
        SessionLease { session, permit }
    }

    /// Which session makes way for one more. Where a key or a tenant has all of its share, one of its own, for others
    /// need the rest. Else the caller's own before those of others, and servers that requests brought before those of
    /// the configuration.
    fn pick_eviction(
        &self,
        sessions: &HashMap<SessionKey, PooledSession>,
        requester: &Requester,
    ) -> Option<SessionKey> {
        let shares = self.admission.mcp_sessions.shares();
        let is_tenants = |key: &SessionKey| key.tenant == requester.tenant;
        let is_own =
            |key: &SessionKey, kept: &PooledSession| is_tenants(key) && kept.made_for == requester.key;
        let count = |of: &dyn Fn(&SessionKey, &PooledSession) -> bool| {
            sessions.iter().filter(|(key, kept)| of(key, kept)).count() as u64
        };
        let longest_idle = |of: &dyn Fn(&SessionKey, &PooledSession) -> bool| {
            let idle = sessions.iter().filter(|(key, kept)| kept.permit.strong_count() == 0 && of(key, kept));
            let rank = |(key, kept): &(&SessionKey, &PooledSession)| {
                let session = &kept.session;
                (is_unused(session), is_tenants(key), key.server.starts_with("url:"), session.idle_for())
            };
            idle.max_by_key(rank).map(|(key, _)| key.clone())
        };
        // What a key made others of its tenant may use, so that it need not have an idle one.
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

    /// Closes sessions that are used no more, until `closing`; then all.
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

    /// Closes what nobody has used for long, and what belongs to no generation any more.
    async fn evict_idle(&self) {
        let gone: Vec<PooledSession> = {
            let mut sessions = self.lock();
            let idle_timeout = **self.idle_timeout.load();
            let is_idle = |kept: &PooledSession| {
                kept.permit.strong_count() == 0
                    && is_unused(&kept.session)
                    && kept.session.idle_for() >= idle_timeout
            };
            let is_gone = |kept: &PooledSession| kept.source.strong_count() == 0 || is_idle(kept);
            let gone = sessions.extract_if(|_, kept| is_gone(kept)).map(|(_, kept)| kept).collect();
            sessions.values().for_each(|kept| kept.session.forget_ended_generations());
            gone
        };
        join_all(gone.iter().map(|kept| kept.session.close())).await;
    }

    /// Closes all.
    pub async fn close(&self) {
        let all: Vec<PooledSession> = self.lock().drain().map(|(_, kept)| kept).collect();
        join_all(all.iter().map(|kept| kept.session.close())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Those that were opened with one of these sources.
    pub(super) fn known(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<(SessionKey, Arc<Session>)> {
        let sessions = self.lock();
        let wanted = sessions.iter().filter(|(key, _)| is_wanted(key.source));
        wanted.map(|(key, kept)| (key.clone(), Arc::clone(&kept.session))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, PooledSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledSession {
    fn try_lease(&self) -> Option<SessionLease> {
        Some(SessionLease { session: Arc::clone(&self.session), permit: self.permit.upgrade()? })
    }
}

/// The session of this key, if there is one, on its users' permit or else on one of these.
fn lease(
    sessions: &mut HashMap<SessionKey, PooledSession>,
    key: &SessionKey,
    permits: &mut Permit,
) -> Option<SessionLease> {
    let kept = sessions.get_mut(key)?;
    Some(kept.try_lease().unwrap_or_else(|| {
        let permit = Arc::new(permits.split(1));
        kept.permit = Arc::downgrade(&permit);
        SessionLease { session: Arc::clone(&kept.session), permit }
    }))
}

/// Whether only the pool holds it: nothing goes on behind requests either.
fn is_unused(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) == 1
}

/// Waiting would not help.
fn too_many(wanted: usize, most: u64) -> ApiError {
    let message = format!(
        "This takes sessions with {wanted} MCP servers at a time; this key may have {most} (mcp.sessions.max)."
    );
    ApiError::invalid("array_above_max_length", "tools", message)
}
