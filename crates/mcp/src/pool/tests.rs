//! The pool with servers that nobody reaches.

use async_trait::async_trait;
use reqwest::header::HeaderMap;

use super::*;
use crate::connection::{Connection, ServerAddress, StdioCommand};
use crate::credentials::StaticHeaders;
use crate::error::McpError;
use antwort_config::McpSessionSettings;
use antwort_limits::{AdmissionLimits, KeyLimits};

struct Nowhere;

#[async_trait]
impl Connector for Nowhere {
    async fn connect(&self, _: &Endpoint, _: Arc<dyn Credentials>) -> Result<Arc<dyn Connection>, McpError> {
        Err(McpError::Connect("nobody is there".into()))
    }
}

/// A pool, and what its sessions are opened with.
struct Opened(Pool, Arc<SessionSource>);

impl std::ops::Deref for Opened {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.0
    }
}

/// Room for so many sessions of these keys and their tenants.
fn pool(max: usize, keys: &[(&str, &str)]) -> Opened {
    let key = |(name, tenant): &(&str, &str)| KeyLimits {
        requester: Requester::new(&(*tenant).into(), &(*name).into()),
        max_runs: None,
    };
    let limits = AdmissionLimits {
        keys: keys.iter().map(key).collect(),
        max_mcp_sessions: max,
        max_mcp_servers_per_request: 1,
        ..AdmissionLimits::default()
    };
    let metrics = Metrics::new();
    let admission = Admission::new(&limits, &metrics);
    let settings = McpSessionSettings { max, ..McpSessionSettings::default() };
    let pool = Pool::new(&settings, &admission, &metrics);
    let source = source(&pool);
    Opened(pool, source)
}

fn source(pool: &Pool) -> Arc<SessionSource> {
    let second = Duration::from_secs(1);
    let limits = SessionLimits { list_timeout: second, tool_ttl: second, max_in_flight: 1, max_tools: 1 };
    let connector: Arc<dyn Connector> = Arc::new(Nowhere);
    pool.source(&connector, limits)
}

/// Sessions with these servers, for `tenant/key`.
async fn open_all(pool: &Opened, servers: &[&str], who: &str) -> Result<Vec<SessionLease>, ApiError> {
    let (tenant, key) = who.split_once('/').unwrap();
    let requester = Requester::new(&tenant.into(), &key.into());
    let credentials: Arc<dyn Credentials> = Arc::new(StaticHeaders::new(HeaderMap::new()));
    let command = StdioCommand {
        program: "none".into(),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
        cwd: None,
        start_timeout: Duration::from_secs(20),
    };
    let endpoint = Endpoint {
        name: "s".into(),
        address: ServerAddress::Stdio(Arc::new(command)),
        is_configured: true,
        may_sample: false,
        shows: Default::default(),
    };
    let opening = |server: &&str| SessionSpec {
        key: SessionKey::new((*server).to_owned(), &pool.1, &*credentials, &requester.tenant, None),
        source: Arc::clone(&pool.1),
        endpoint: endpoint.clone(),
        credentials: Arc::clone(&credentials),
    };
    pool.sessions(servers.iter().map(opening).collect(), &requester).await
}

async fn open(pool: &Opened, server: &str, who: &str) -> Result<SessionLease, ApiError> {
    open_all(pool, &[server], who).await.map(|mut sessions| sessions.remove(0))
}

fn known(pool: &Pool) -> Vec<String> {
    let mut all: Vec<_> =
        pool.known(|_| true).iter().map(|(key, _)| format!("{} {}", key.tenant, key.server)).collect();
    all.sort();
    all
}

fn assert_overloaded(refused: Result<SessionLease, ApiError>) {
    let error = refused.err().expect("there is no room");
    assert_eq!((error.kind.status(), error.body.code.as_deref()), (503, Some("server_is_overloaded")));
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
    let _held = [open(&pool, "url:1", "red/a").await.unwrap(), open(&pool, "url:2", "red/a").await.unwrap()];
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
    let (held, shared) = (open(&pool, "url:1", "red/a").await.unwrap(), open(&pool, "url:1", "red/a").await);
    let mut waiting = std::pin::pin!(open(&pool, "url:2", "red/a"));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(held);
    assert!(futures_util::poll!(&mut waiting).is_pending(), "somebody else uses it still");
    drop(shared);
    assert!(waiting.await.is_ok());
    assert_eq!(known(&pool), ["red url:2"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_the_last_generation_that_has_its_source() {
    let Opened(pool, first) = pool(4, &[]);
    let (old, kept) = (Opened(pool, Arc::clone(&first)), first);
    let running = open(&old, "label:a", "red/a").await.unwrap();
    let Opened(pool, first) = old;
    let next = Opened(pool, Arc::clone(&kept));
    drop(first);
    next.evict_idle().await;
    let same = open(&next, "label:a", "red/a").await.unwrap();
    assert!(Arc::ptr_eq(&running.session, &same.session), "the next generation has the same source");
    let Opened(pool, second) = next;
    let other = source(&pool);
    let changed = Opened(pool, other);
    let new = open(&changed, "label:a", "red/a").await.unwrap();
    assert!(!Arc::ptr_eq(&running.session, &new.session));
    drop(second);
    changed.evict_idle().await;
    assert_eq!(known(&changed).len(), 2, "a run goes on that has it");
    drop(kept);
    changed.source_gone.notified().await;
    changed.evict_idle().await;
    assert_eq!(known(&changed).len(), 1);
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
    assert_eq!((error.kind.status(), error.body.param.as_deref()), (400, Some("tools")), "it will never fit");
}
