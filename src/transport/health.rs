//! Whether the gateway lives, whether it can work, and what it has counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde::Serialize;

use super::AppState;
use crate::engine::Engine;
use crate::provider::models::ModelCatalog;
use crate::store::StoreError;

/// A check that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often store and provider are asked, at most: nobody needs a key to ask for readiness.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Whether the process was told to stop: from then on it is not ready, and its connections take no further requests.
#[derive(Debug, Clone, Default)]
pub struct Stopping(Arc<AtomicBool>);

impl Stopping {
    /// The process was told to.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Checks {
    store: &'static str,
    provider: &'static str,
}

/// `GET /healthz`: the process answers.
pub(super) async fn alive() -> Response {
    Json(Health { status: "ok", checks: None }).into_response()
}

/// `GET /readyz`: the store can be written to, a provider answers, and the process was not told to stop.
pub(super) async fn ready(State(app): State<AppState>) -> Response {
    if app.stopping.has_begun() {
        return unready(Health { status: "draining", checks: None });
    }
    let (checks, _) = app.readiness.checks(&app).await;
    if checks.store == OK && checks.provider == OK {
        Json(Health { status: "ok", checks: Some(checks) }).into_response()
    } else {
        unready(Health { status: "unavailable", checks: Some(checks) })
    }
}

const OK: &str = "ok";

/// What was found last, or is being found: whoever asks meanwhile gets the same answer.
#[derive(Default)]
pub struct Readiness(Mutex<Option<Probe>>);

struct Probe {
    begun: Instant,
    /// What was found, and when.
    checks: Shared<BoxFuture<'static, (Checks, Instant)>>,
}

impl Readiness {
    fn checks(&self, app: &AppState) -> Shared<BoxFuture<'static, (Checks, Instant)>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(probe) = last.as_ref().filter(|probe| probe.is_current()) {
            return probe.checks.clone();
        }
        let looked = look(Arc::clone(&app.engine), Arc::clone(&app.catalog));
        let checks = looked.map(|checks| (checks, Instant::now())).boxed().shared();
        *last = Some(Probe { begun: Instant::now(), checks: checks.clone() });
        checks
    }
}

impl Probe {
    /// One whose askers have all gone stands still: the next one goes on with it, unless it is too late for that.
    fn is_current(&self) -> bool {
        match self.checks.peek() {
            None => self.begun.elapsed() < PATIENCE,
            // From its end: of a provider that hangs, it would be old as soon as it is there.
            Some((_, found)) => found.elapsed() < CHECK_EVERY,
        }
    }
}

async fn look(engine: Arc<Engine>, catalog: Arc<ModelCatalog>) -> Checks {
    let store = tokio::time::timeout(PATIENCE, engine.store().ready());
    let provider = tokio::time::timeout(PATIENCE, catalog.ready());
    let (store, provider) = tokio::join!(store, provider);
    let store = match store {
        Ok(Ok(())) => OK,
        Ok(Err(StoreError::Full(_))) => "full",
        Ok(Err(StoreError::Replaced(_))) => "replaced",
        Ok(Err(_)) | Err(_) => "unavailable",
    };
    Checks { store, provider: if matches!(provider, Ok(true)) { OK } else { "unavailable" } }
}

fn unready(health: Health) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<AppState>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render()).into_response()
}
