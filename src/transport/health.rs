//! Health endpoints: liveness (`/healthz`), readiness (`/readyz`) and metrics (`/metrics`).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::OptionFuture;
use serde::Serialize;

use super::AppState;
use super::query::Query;
use super::readiness::{OK, Reachability, UNAVAILABLE};
use antwort_config::ReadyRequirement;

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
    let stopping = app.readiness.stopping.is_set();
    if stopping && !verbose {
        return Health { status: "draining", ..Health::default() };
    }
    let requires = |what| app.readiness.requires.contains(&what);
    let checks = |what| verbose || requires(what);
    let store = checks(ReadyRequirement::Store).then(|| app.readiness.cache.store(&app.services.store));
    let providers =
        checks(ReadyRequirement::Provider).then(|| app.readiness.cache.providers(&app.services.catalog));
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

fn unready(health: Health) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<AppState>) -> Response {
    let (state, _) = app.readiness.cache.store(&app.services.store).await;
    app.metrics.store_writable(state == OK);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render()).into_response()
}
