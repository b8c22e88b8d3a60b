//! Sessions that are kept: one for each server, tenant and set of credentials, never shared between two.
//!
//! A session that is in use has a permit of the semaphore, on the share of the key that began to use it. All that a
//! request uses are admitted at once, so that no two requests wait for each other. Sessions that nobody uses stay open
//! as long as there is room: as no more are in use than may be open, whoever is admitted finds one that makes way.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::task::TaskTracker;

use super::budget::ListBudget;
use super::connection::{Connector, Endpoint};
use super::credentials::{Credentials, Fingerprint};
use super::session::{Session, SessionLimits};
use super::status::ServerState;
use crate::admission::{Admission, Permit, Requester};
use crate::protocol::error::ApiError;
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

/// What a session is opened with, if there is none yet.
pub(super) struct Opening {
    pub key: Key,
    pub endpoint: Endpoint,
    pub credentials: Arc<dyn Credentials>,
    pub limits: SessionLimits,
}

/// A session, in use for as long as this is held.
pub(super) struct InUse {
    pub session: Arc<Session>,
    pub permit: Arc<Permit>,
}

/// A session that is open, or may be.
struct Kept {
    session: Arc<Session>,
    /// Of those who use it.
    permit: Weak<Permit>,
    /// The key that it was made for.
    made_for: Arc<str>,
}

/// All sessions.
pub(super) struct Pool {
    connector: Arc<dyn Connector>,
    sessions: Mutex<HashMap<Key, Kept>>,
    admission: Arc<Admission>,
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
        admission: &Arc<Admission>,
        idle_timeout: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            connector,
            sessions: Mutex::default(),
            admission: Arc::clone(admission),
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

    /// The sessions that a request uses, in this order, once there is room for those that nobody uses yet.
    ///
    /// # Errors
    /// 503 if there was none in time; 400 if there are more than the requester may ever have.
    pub(super) async fn sessions(
        &self,
        wanted: Vec<Opening>,
        requester: &Requester,
    ) -> Result<Vec<InUse>, ApiError> {
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
            wanted.iter().map(|opening| begin_use(&mut sessions, &opening.key, &mut permit)).collect();
        let both = there.into_iter().zip(wanted);
        let open = |(there, opening): (Option<InUse>, Opening)| {
            there.unwrap_or_else(|| self.open(&mut sessions, opening, requester, &mut permit))
        };
        Ok(both.map(open).collect())
    }

    /// Those that somebody uses already are shared without asking for room.
    fn all_in_use(&self, wanted: &[Opening]) -> Option<Vec<InUse>> {
        let sessions = self.lock();
        wanted.iter().map(|opening| sessions.get(&opening.key)?.in_use()).collect()
    }

    /// A new session, unless another of the request has made it meanwhile.
    fn open(
        &self,
        sessions: &mut HashMap<Key, Kept>,
        opening: Opening,
        requester: &Requester,
        permits: &mut Permit,
    ) -> InUse {
        if let Some(twin) = begin_use(sessions, &opening.key, permits) {
            return twin;
        }
        let permit = Arc::new(permits.split(1));
        if let Some(gone) = self.leaving(sessions, requester).and_then(|key| sessions.remove(&key)) {
            self.tasks.spawn(async move { gone.session.close().await });
        }
        let Opening { key, endpoint, credentials, limits } = opening;
        let session = Arc::new(Session::new(
            endpoint,
            credentials,
            Arc::clone(&self.connector),
            limits,
            Arc::clone(&self.metrics),
            self.tasks.clone(),
            Arc::clone(&self.lists),
        ));
        self.lists.register(&session);
        let made_for = Arc::clone(&requester.key);
        let kept = Kept { session: Arc::clone(&session), permit: Arc::downgrade(&permit), made_for };
        sessions.insert(key, kept);
        InUse { session, permit }
    }

    /// Which session makes way for one more. Where a key or a tenant has all of its share, one of its own, for others
    /// need the rest. Else the caller's own before those of others, and servers that requests brought before those of
    /// the configuration.
    fn leaving(&self, sessions: &HashMap<Key, Kept>, requester: &Requester) -> Option<Key> {
        let shares = self.admission.mcp_sessions.shares();
        let is_tenants = |key: &Key| key.tenant == requester.tenant;
        let is_own = |key: &Key, kept: &Kept| is_tenants(key) && kept.made_for == requester.key;
        let count = |of: &dyn Fn(&Key, &Kept) -> bool| {
            sessions.iter().filter(|(key, kept)| of(key, kept)).count() as u64
        };
        let longest_idle = |of: &dyn Fn(&Key, &Kept) -> bool| {
            let idle = sessions.iter().filter(|(key, kept)| kept.permit.strong_count() == 0 && of(key, kept));
            let rank = |(key, kept): &(&Key, &Kept)| {
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

    /// Closes what nobody has used for long.
    pub(super) async fn reap(&self) {
        let gone: Vec<Kept> = {
            let mut sessions = self.lock();
            let is_idle = |kept: &Kept| {
                kept.permit.strong_count() == 0
                    && is_unused(&kept.session)
                    && kept.session.idle_for() >= self.idle_timeout
            };
            sessions.extract_if(|_, kept| is_idle(kept)).map(|(_, kept)| kept).collect()
        };
        join_all(gone.iter().map(|kept| kept.session.close())).await;
    }

    /// Closes all.
    pub(super) async fn close(&self) {
        let all: Vec<Kept> = self.lock().drain().map(|(_, kept)| kept).collect();
        join_all(all.iter().map(|kept| kept.session.close())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(super) fn known(&self) -> Vec<(Key, Arc<Session>)> {
        self.lock().iter().map(|(key, kept)| (key.clone(), Arc::clone(&kept.session))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn in_use(&self) -> Option<InUse> {
        Some(InUse { session: Arc::clone(&self.session), permit: self.permit.upgrade()? })
    }
}

/// The session of this key, if there is one, on its users' permit or else on one of these.
fn begin_use(sessions: &mut HashMap<Key, Kept>, key: &Key, permits: &mut Permit) -> Option<InUse> {
    let kept = sessions.get_mut(key)?;
    Some(kept.in_use().unwrap_or_else(|| {
        let permit = Arc::new(permits.split(1));
        kept.permit = Arc::downgrade(&permit);
        InUse { session: Arc::clone(&kept.session), permit }
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use reqwest::header::HeaderMap;

    use super::*;
    use crate::config::{KeySettings, Scope, Settings};
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

    /// Room for so many sessions of these keys and their tenants.
    fn pool(max: usize, keys: &[(&str, &str)]) -> Pool {
        let mut settings = Settings::default();
        settings.mcp.sessions.max = max;
        settings.mcp.requests.max_servers = 1;
        let key = |(name, tenant): &(&str, &str)| {
            let key = KeySettings {
                hash: [0; 32],
                tenant: (*tenant).into(),
                owner: (*name).into(),
                scopes: vec![Scope::All],
                dialect: None,
                client_action_status: None,
                max_runs: None,
            };
            ((*name).to_owned(), key)
        };
        settings.auth.keys = keys.iter().map(key).collect();
        let metrics = Metrics::install();
        let admission = Admission::new(&settings, &metrics);
        Pool::new(Arc::new(Nowhere), &admission, Duration::from_mins(5), metrics)
    }

    /// Sessions with these servers, for `tenant/key`.
    async fn open_all(pool: &Pool, servers: &[&str], who: &str) -> Result<Vec<InUse>, ApiError> {
        let (tenant, key) = who.split_once('/').unwrap();
        let requester = Requester::new(&tenant.into(), &key.into());
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
        let opening = |server: &&str| Opening {
            key: Key::new((*server).to_owned(), &*credentials, &requester.tenant),
            endpoint: endpoint.clone(),
            credentials: Arc::clone(&credentials),
            limits,
        };
        pool.sessions(servers.iter().map(opening).collect(), &requester).await
    }

    async fn open(pool: &Pool, server: &str, who: &str) -> Result<InUse, ApiError> {
        open_all(pool, &[server], who).await.map(|mut sessions| sessions.remove(0))
    }

    fn known(pool: &Pool) -> Vec<String> {
        let mut all: Vec<_> =
            pool.known().iter().map(|(key, _)| format!("{} {}", key.tenant, key.server)).collect();
        all.sort();
        all
    }

    fn assert_overloaded(refused: Result<InUse, ApiError>) {
        let error = refused.err().expect("there is no room");
        assert_eq!((error.status, error.body.code.as_deref()), (503, Some("server_is_overloaded")));
        assert!(error.body.message.contains("mcp.sessions.max"), "{}", error.body.message);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_with_many_servers_takes_no_room_of_others() {
        let pool = pool(4, &[("a", "red"), ("b", "blue"), ("c", "green")]);
        for (server, who) in
            [("label:a", "red/a"), ("label:b", "blue/b"), ("label:c", "blue/b"), ("url:d", "blue/b")]
        {
            // Which is idle for longest is told by the clock.
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(open(&pool, server, who).await.is_ok());
        }
        for i in 0..20 {
            assert!(open(&pool, &format!("url:{i}"), "blue/b").await.is_ok());
        }
        // Also while there is room, none has more than half.
        assert_eq!(known(&pool), ["blue label:c", "blue url:19", "red label:a"]);
        let _in_use = open(&pool, "label:x", "red/a").await;
        assert_eq!(known(&pool), ["blue label:c", "blue url:19", "red label:a", "red label:x"]);
        let _too = open(&pool, "label:y", "red/a").await;
        assert_eq!(known(&pool), ["blue label:c", "blue url:19", "red label:x", "red label:y"]);
        assert_overloaded(open(&pool, "label:z", "red/a").await);
        assert!(open(&pool, "label:z", "green/c").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_keys_of_one_tenant_none_has_more_than_half() {
        let pool = pool(4, &[("a", "red"), ("b", "red")]);
        let _held =
            [open(&pool, "url:1", "red/a").await.unwrap(), open(&pool, "url:2", "red/a").await.unwrap()];
        assert_overloaded(open(&pool, "url:3", "red/a").await);
        let _others = open_all(&pool, &["url:4"], "red/b").await.unwrap();
        assert!(open(&pool, "url:1", "red/b").await.is_ok(), "what is in use is shared within a tenant");
        for i in 5..20 {
            assert!(open(&pool, &format!("url:{i}"), "red/b").await.is_ok());
        }
        assert_eq!(known(&pool), ["red url:1", "red url:19", "red url:2", "red url:4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_tenant_has_all_the_room() {
        for keys in [&[][..], &[("a", "red")][..]] {
            let pool = pool(4, keys);
            let mut held = Vec::new();
            for i in 0..4 {
                held.push(open(&pool, &format!("url:{i}"), "red/a").await.unwrap());
            }
            assert_overloaded(open(&pool, "url:4", "red/a").await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_session_that_is_used_no_more() {
        let pool = pool(1, &[]);
        let (held, shared) =
            (open(&pool, "url:1", "red/a").await.unwrap(), open(&pool, "url:1", "red/a").await);
        let mut waiting = std::pin::pin!(open(&pool, "url:2", "red/a"));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(held);
        assert!(futures_util::poll!(&mut waiting).is_pending(), "somebody else uses it still");
        drop(shared);
        assert!(waiting.await.is_ok());
        assert_eq!(known(&pool), ["red url:2"]);
    }

    /// Each used to hold what the other waited for.
    #[tokio::test(start_paused = true)]
    async fn all_sessions_of_a_request_are_admitted_at_once() {
        let pool = pool(3, &[]);
        let one = open_all(&pool, &["url:1", "url:2", "url:1"], "red/a").await.unwrap();
        assert!(Arc::ptr_eq(&one[0].session, &one[2].session), "the same one twice takes one place");
        let mut two = std::pin::pin!(open_all(&pool, &["url:3", "url:4"], "red/a"));
        assert!(futures_util::poll!(&mut two).is_pending());
        assert_eq!(known(&pool), ["red url:1", "red url:2"], "it holds nothing while it waits");
        drop(one);
        // The one that is there does not make way for another of the same request.
        drop(two.await.unwrap());
        let three = open_all(&pool, &["url:5", "url:4", "url:6"], "red/a").await.unwrap();
        assert_eq!(
            (three.len(), known(&pool)),
            (3, ["url:4", "url:5", "url:6"].map(|url| format!("red {url}")).into())
        );
        let error = open_all(&pool, &["url:1", "url:2", "url:3", "url:4"], "red/a").await.err().unwrap();
        assert_eq!((error.status, error.body.param.as_deref()), (400, Some("tools")), "it will never fit");
    }
}
