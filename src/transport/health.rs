//! Health endpoints: liveness (`/healthz`), readiness (`/readyz`) and metrics (`/metrics`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture, Shared};
use parking_lot::Mutex;
use serde::Serialize;

use super::AppState;
use super::query::Query;
use crate::config::ReadyRequirement;
use crate::store::StoreError;

const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a check's result is reused: readiness needs no key, so callers must not be able to load store and providers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Set once shutdown was requested: the process is not ready any more, and its connections take no further requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShutdownFlag(Arc<AtomicBool>);

impl ShutdownFlag {
    /// Marks shutdown as requested.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether shutdown was requested.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default, Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
    /// State of each provider, by its name in the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    providers: Option<BTreeMap<String, &'static str>>,
}

#[derive(Serialize)]
struct Checks {
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'static str>,
}

const OK: &str = "ok";
const UNAVAILABLE: &str = "unavailable";

/// `GET /healthz`: liveness, always 200.
pub(super) async fn alive() -> Response {
    Json(Health { status: OK, ..Health::default() }).into_response()
}

/// `GET /readyz`: 200 if all required checks pass and shutdown was not requested. `?verbose` runs all checks.
pub(super) async fn ready(State(app): State<AppState>, query: Query) -> Response {
    let health = check_readiness(&app, query.is_on("verbose")).await;
    if health.status == OK { Json(health).into_response() } else { unready(health) }
}

/// The verdict of `/readyz`.
pub(crate) async fn is_ready(app: &AppState) -> bool {
    check_readiness(app, false).await.status == OK
}

async fn check_readiness(app: &AppState, verbose: bool) -> Health {
    let stopping = app.stopping.is_set();
    if stopping && !verbose {
        return Health { status: "draining", ..Health::default() };
    }
    let requires = |what| app.ready_requires.contains(&what);
    let checks = |what| verbose || requires(what);
    let store = checks(ReadyRequirement::Store).then(|| app.readiness.store(app));
    let providers = checks(ReadyRequirement::Provider).then(|| app.readiness.providers(app));
    let (store, providers) = tokio::join!(OptionFuture::from(store), OptionFuture::from(providers));
    let store = store.map(|(state, _)| state);
    let providers = providers.map(|(answering, _)| answering);
    let provider = providers.as_deref().map(|all| state_of(all.values().any(|answers| *answers)));
    let fails = |what, state: Option<&str>| requires(what) && state != Some(OK);
    let failed = fails(ReadyRequirement::Store, store) || fails(ReadyRequirement::Provider, provider);
    let by_name = |all: Arc<Reachability>| {
        all.iter().map(|(name, answers)| (name.clone(), state_of(*answers))).collect()
    };
    Health {
        status: match (stopping, failed) {
            (true, _) => "draining",
            (false, true) => UNAVAILABLE,
            (false, false) => OK,
        },
        checks: Some(Checks { store, provider }),
        providers: providers.filter(|_| verbose).map(by_name),
    }
}

fn state_of(answers: bool) -> &'static str {
    if answers { OK } else { UNAVAILABLE }
}

/// Whether each provider answers, by name.
type Reachability = BTreeMap<String, bool>;

/// The last result of each check, or the check that is running.
#[derive(Default)]
pub(crate) struct ReadinessCache {
    store: CachedCheck<&'static str>,
    providers: CachedCheck<Arc<Reachability>>,
}

impl ReadinessCache {
    fn store(&self, app: &AppState) -> SharedCheck<&'static str> {
        let engine = Arc::clone(&app.engine);
        self.store.get(async move {
            match tokio::time::timeout(CHECK_TIMEOUT, engine.store().ready()).await {
                Ok(Ok(())) => OK,
                Ok(Err(StoreError::Full(_))) => "full",
                Ok(Err(StoreError::Replaced(_))) => "replaced",
                Ok(Err(_)) | Err(_) => UNAVAILABLE,
            }
        })
    }

    fn providers(&self, app: &AppState) -> SharedCheck<Arc<Reachability>> {
        let catalog = Arc::clone(&app.catalog);
        self.providers.get(async move { Arc::new(catalog.reachability(CHECK_TIMEOUT).await) })
    }
}

/// A check that many requests await together: its result and when it ended.
type SharedCheck<T> = Shared<BoxFuture<'static, (T, Instant)>>;

/// The last result of one check; concurrent requests share a running one.
struct CachedCheck<T>(Mutex<Option<LastCheck<T>>>);

struct LastCheck<T> {
    begun: Instant,
    found: SharedCheck<T>,
}

impl<T> Default for CachedCheck<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Send + Sync + 'static> CachedCheck<T> {
    fn get(&self, look: impl Future<Output = T> + Send + 'static) -> SharedCheck<T> {
        let mut last = self.0.lock();
        if let Some(probe) = last.as_ref().filter(|probe| probe.is_current()) {
            return probe.found.clone();
        }
        let found = look.map(|found| (found, Instant::now())).boxed().shared();
        *last = Some(LastCheck { begun: Instant::now(), found: found.clone() });
        found
    }
}

impl<T: Clone> LastCheck<T> {
    /// A running check makes progress only while a request awaits it: the next request continues it, unless its timeout
    /// is over by then.
    fn is_current(&self) -> bool {
        match self.found.peek() {
            None => self.begun.elapsed() < CHECK_TIMEOUT,
            // Counted from the end of the check: the result for a provider that hangs would otherwise be stale at once.
            Some((_, found)) => found.elapsed() < CHECK_INTERVAL,
        }
    }
}

fn unready(health: Health) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render()).into_response()
}
