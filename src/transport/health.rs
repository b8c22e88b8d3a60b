//! Whether the gateway lives, whether it can work, and what it has counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture, Shared};
use serde::Serialize;

use super::AppState;
use super::query::Query;
use crate::config::ReadyRequirement;
use crate::store::StoreError;

/// A check that takes longer has failed.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// How often store and providers are asked, at most: nobody needs a key to ask for readiness.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the process was told to stop: from then on it is not ready, and its connections take no further requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShutdownFlag(Arc<AtomicBool>);

impl ShutdownFlag {
    /// The process was told to.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default, Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
    /// Model servers by name.
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

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Response {
    Json(Health { status: OK, ..Health::default() }).into_response()
}

/// `GET /readyz`: what is required is there, and the process was not told to stop. With `?verbose`, all is looked at.
pub(super) async fn ready(State(app): State<AppState>, query: Query) -> Response {
    let health = check_readiness(&app, query.is_on("verbose")).await;
    if health.status == OK { Json(health).into_response() } else { unready(health) }
}

/// Whether `/readyz` says so.
pub(crate) async fn is_ready(app: &AppState) -> bool {
    check_readiness(app, false).await.status == OK
}

async fn check_readiness(app: &AppState, verbose: bool) -> Health {
    let stopping = app.stopping.is_set();
    if stopping && !verbose {
        return Health { status: "draining", ..Health::default() };
    }
    let requires = |what| app.ready_requires.contains(&what);
    let looks_at = |what| verbose || requires(what);
    let store = looks_at(ReadyRequirement::Store).then(|| app.readiness.store(app));
    let providers = looks_at(ReadyRequirement::Provider).then(|| app.readiness.providers(app));
    let (store, providers) = tokio::join!(OptionFuture::from(store), OptionFuture::from(providers));
    let store = store.map(|(state, _)| state);
    let providers = providers.map(|(answering, _)| answering);
    let provider = providers.as_deref().map(|all| state_of(all.values().any(|answers| *answers)));
    let lacks = |what, found: Option<&str>| requires(what) && found != Some(OK);
    let lacks = lacks(ReadyRequirement::Store, store) || lacks(ReadyRequirement::Provider, provider);
    let by_name =
        |all: Arc<Answering>| all.iter().map(|(name, answers)| (name.clone(), state_of(*answers))).collect();
    Health {
        status: match (stopping, lacks) {
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

/// Providers by name, and whether they answer.
type Answering = BTreeMap<String, bool>;

/// What was found last of each, or is being found.
#[derive(Default)]
pub(crate) struct ReadinessCache {
    store: CachedCheck<&'static str>,
    providers: CachedCheck<Arc<Answering>>,
}

impl ReadinessCache {
    fn store(&self, app: &AppState) -> Found<&'static str> {
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

    fn providers(&self, app: &AppState) -> Found<Arc<Answering>> {
        let catalog = Arc::clone(&app.catalog);
        self.providers.get(async move { Arc::new(catalog.reachability(CHECK_TIMEOUT).await) })
    }
}

/// What a look found, and when.
type Found<T> = Shared<BoxFuture<'static, (T, Instant)>>;

/// What was found last, or is being found: whoever asks meanwhile gets the same answer.
struct CachedCheck<T>(Mutex<Option<Probe<T>>>);

struct Probe<T> {
    begun: Instant,
    found: Found<T>,
}

impl<T> Default for CachedCheck<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Send + Sync + 'static> CachedCheck<T> {
    fn get(&self, look: impl Future<Output = T> + Send + 'static) -> Found<T> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(probe) = last.as_ref().filter(|probe| probe.is_current()) {
            return probe.found.clone();
        }
        let found = look.map(|found| (found, Instant::now())).boxed().shared();
        *last = Some(Probe { begun: Instant::now(), found: found.clone() });
        found
    }
}

impl<T: Clone> Probe<T> {
    /// One whose askers have all gone stands still: the next one goes on with it, unless it is too late for that.
    fn is_current(&self) -> bool {
        match self.found.peek() {
            None => self.begun.elapsed() < CHECK_TIMEOUT,
            // From its end: of a provider that hangs, it would be old as soon as it is there.
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
