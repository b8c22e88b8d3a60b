//! Sessions that are kept: one for each server, tenant and set of credentials, never shared between two.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use super::connection::{Connector, Endpoint};
use super::credentials::{Credentials, Fingerprint};
use super::session::{Session, SessionLimits};
use super::status::ServerState;
use crate::telemetry::metrics::Metrics;

/// What tells sessions apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// `label:…` or `url:…`.
    server: String,
    credentials: Fingerprint,
    tenant: Arc<str>,
}

impl Key {
    pub(super) fn new(server: String, credentials: &dyn Credentials, tenant: &Arc<str>) -> Self {
        Self { server, credentials: credentials.fingerprint(), tenant: Arc::clone(tenant) }
    }

    /// The session's state, for people.
    pub(super) fn state(&self, session: &Session) -> ServerState {
        let label = self.server.strip_prefix("label:");
        ServerState::of(label, &self.tenant, session)
    }
}

/// All sessions.
pub(super) struct Pool {
    connector: Arc<dyn Connector>,
    sessions: Mutex<HashMap<Key, Arc<Session>>>,
    most: usize,
    idle_timeout: Duration,
    metrics: Arc<Metrics>,
    /// What goes on behind requests: lists that are renewed, sessions that are closed.
    tasks: TaskTracker,
}

impl Pool {
    pub(super) fn new(
        connector: Arc<dyn Connector>,
        most: usize,
        idle_timeout: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            connector,
            sessions: Mutex::default(),
            most: most.max(1),
            idle_timeout,
            metrics,
            tasks: TaskTracker::new(),
        }
    }

    /// The session of this key; `None`: there are too many, and all are in use.
    pub(super) fn session(
        &self,
        key: Key,
        endpoint: &Endpoint,
        credentials: Arc<dyn Credentials>,
        limits: SessionLimits,
    ) -> Option<Arc<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(&key) {
            return Some(Arc::clone(session));
        }
        if sessions.len() >= self.most {
            let idle = sessions.iter().filter(|(_, session)| is_unused(session));
            let longest = idle.max_by_key(|(_, session)| session.idle_for()).map(|(key, _)| key.clone())?;
            if let Some(gone) = sessions.remove(&longest) {
                self.tasks.spawn(async move { gone.close().await });
            }
        }
        let metrics = Arc::clone(&self.metrics);
        let connector = Arc::clone(&self.connector);
        let tasks = self.tasks.clone();
        let session =
            Arc::new(Session::new(endpoint.clone(), credentials, connector, limits, metrics, tasks));
        sessions.insert(key, Arc::clone(&session));
        Some(session)
    }

    /// Closes what nobody has used for long.
    pub(super) async fn reap(&self) {
        let gone: Vec<Arc<Session>> = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = |session: &Arc<Session>| is_unused(session) && session.idle_for() >= self.idle_timeout;
            let keys: Vec<Key> =
                sessions.iter().filter(|(_, session)| idle(session)).map(|(key, _)| key.clone()).collect();
            keys.iter().filter_map(|key| sessions.remove(key)).collect()
        };
        join_all(gone.iter().map(|session| session.close())).await;
    }

    /// Closes all.
    pub(super) async fn close(&self) {
        let all: Vec<Arc<Session>> = {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.drain().map(|(_, session)| session).collect()
        };
        join_all(all.iter().map(|session| session.close())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(super) fn sessions(&self) -> Vec<(Key, Arc<Session>)> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().map(|(key, session)| (key.clone(), Arc::clone(session))).collect()
    }
}

/// Whether only the pool holds it. Runs hold theirs for as long as they last.
fn is_unused(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) == 1
}
