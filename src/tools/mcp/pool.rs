//! Sessions that are kept: one for each server, tenant and set of credentials, never shared between two.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use super::budget::ListBudget;
use super::connection::{Connector, Endpoint};
use super::credentials::{Credentials, Fingerprint};
use super::session::{Session, SessionLimits};
use super::status::ServerState;
use crate::admission::Shares;
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
    /// Of one tenant.
    most_per_tenant: usize,
    idle_timeout: Duration,
    metrics: Arc<Metrics>,
    /// What goes on behind requests: lists that are renewed, sessions that are closed.
    tasks: TaskTracker,
    /// For the tool lists of all sessions.
    lists: Arc<ListBudget>,
}

impl Pool {
    pub(super) fn new(
        connector: Arc<dyn Connector>,
        shares: &Shares,
        idle_timeout: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            connector,
            sessions: Mutex::default(),
            most: usize::try_from(shares.capacity()).unwrap_or(usize::MAX),
            most_per_tenant: usize::try_from(shares.of_tenant()).unwrap_or(usize::MAX),
            idle_timeout,
            metrics,
            tasks: TaskTracker::new(),
            lists: ListBudget::new(usize::MAX),
        }
    }

    /// The same with a byte budget for the tool lists of all sessions.
    pub(super) fn with_list_budget(mut self, max_bytes: usize) -> Self {
        self.lists = ListBudget::new(max_bytes);
        self
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
        let held = sessions.keys().filter(|held| held.tenant == key.tenant).count();
        let only_own = held >= self.most_per_tenant;
        if only_own || sessions.len() >= self.most {
            let leaving = leaving(&sessions, &key.tenant, only_own)?;
            if let Some(gone) = sessions.remove(&leaving) {
                self.tasks.spawn(async move { gone.close().await });
            }
        }
        let metrics = Arc::clone(&self.metrics);
        let connector = Arc::clone(&self.connector);
        let tasks = self.tasks.clone();
        let session = Arc::new(Session::new(
            endpoint.clone(),
            credentials,
            connector,
            limits,
            metrics,
            tasks,
            Arc::clone(&self.lists),
        ));
        self.lists.register(&session);
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

/// Which session makes way for one more of a tenant. Of a tenant with all of its share, only its own: others need the
/// rest. Else its own before those of others, and servers that requests brought before those of the configuration.
fn leaving(sessions: &HashMap<Key, Arc<Session>>, tenant: &Arc<str>, only_own: bool) -> Option<Key> {
    let idle =
        sessions.iter().filter(|(key, session)| is_unused(session) && (!only_own || key.tenant == *tenant));
    let rank = |(key, session): &(&Key, &Arc<Session>)| {
        (key.tenant == *tenant, key.server.starts_with("url:"), session.idle_for())
    };
    idle.max_by_key(rank).map(|(key, _)| key.clone())
}

/// Whether only the pool holds it. Runs hold theirs for as long as they last.
fn is_unused(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) == 1
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use reqwest::header::HeaderMap;

    use super::*;
    use crate::admission::Requester;
    use crate::tools::mcp::connection::{Connection, Place, StdioCommand};
    use crate::tools::mcp::credentials::Fixed;
    use crate::tools::mcp::error::McpError;

    struct Nowhere;

    #[async_trait]
    impl Connector for Nowhere {
        async fn connect(
            &self,
            _: &Endpoint,
            _: Arc<dyn Credentials>,
        ) -> Result<Arc<dyn Connection>, McpError> {
            Err(McpError::Connect("nobody is there".into()))
        }
    }

    fn open(pool: &Pool, server: &str, tenant: &str) -> Option<Arc<Session>> {
        let credentials: Arc<dyn Credentials> = Arc::new(Fixed::new(HeaderMap::new()));
        let command = StdioCommand {
            program: "none".into(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            cwd: None,
        };
        let endpoint = Endpoint {
            name: "s".into(),
            place: Place::Stdio(Arc::new(command)),
            is_configured: true,
            may_sample: false,
        };
        let second = Duration::from_secs(1);
        let limits = SessionLimits { list_timeout: second, tool_ttl: second, max_in_flight: 1, max_tools: 1 };
        let key = Key::new(server.to_owned(), &*credentials, &tenant.into());
        pool.session(key, &endpoint, credentials, limits)
    }

    /// Room for four sessions of these tenants.
    fn of_tenants(tenants: &[&str]) -> Shares {
        let requesters = tenants.iter().map(|tenant| Requester::new(&(*tenant).into(), &"key".into()));
        Shares::new(4, &requesters.collect::<Vec<_>>())
    }

    fn known(pool: &Pool) -> Vec<String> {
        let mut all: Vec<_> =
            pool.sessions().iter().map(|(key, _)| format!("{} {}", key.tenant, key.server)).collect();
        all.sort();
        all
    }

    #[tokio::test]
    async fn a_tenant_with_many_servers_takes_no_room_of_others() {
        let idle = Duration::from_mins(5);
        let pool =
            Pool::new(Arc::new(Nowhere), &of_tenants(&["red", "blue", "green"]), idle, Metrics::install());
        for (server, tenant) in
            [("label:a", "red"), ("label:b", "blue"), ("label:c", "blue"), ("url:d", "blue")]
        {
            assert!(open(&pool, server, tenant).is_some());
        }
        for i in 0..20 {
            assert!(open(&pool, &format!("url:{i}"), "blue").is_some());
        }
        // Also while there is room, none has more than half.
        assert_eq!(known(&pool), ["blue label:c", "blue url:19", "red label:a"]);
        let _in_use = open(&pool, "label:x", "red");
        assert_eq!(known(&pool), ["blue label:c", "blue url:19", "red label:a", "red label:x"]);
        let _too = open(&pool, "label:y", "red");
        assert_eq!(known(&pool), ["blue label:c", "blue url:19", "red label:x", "red label:y"]);
        assert!(open(&pool, "label:z", "red").is_none(), "its half is in use");
        assert!(open(&pool, "label:z", "green").is_some());
    }

    #[tokio::test]
    async fn a_single_tenant_has_all_the_room() {
        for tenants in [&[][..], &["red"][..]] {
            let pool = Pool::new(Arc::new(Nowhere), &of_tenants(tenants), Duration::MAX, Metrics::install());
            let held: Vec<_> = (0..4).map(|i| open(&pool, &format!("url:{i}"), "red")).collect();
            assert!(held.iter().all(Option::is_some));
            assert!(open(&pool, "url:4", "red").is_none());
        }
    }
}
