//! Generations of the configuration: a generation holds what requests use, built from one state of the settings. A reload
//! swaps in the next one; requests keep the one that they began with, and its resources are released with its last request.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::assembly::Assembly;
use super::checks;
use super::tools::GatewayTools;
use crate::transport::{
    AccessRules, AppState, PassThroughRoutes, ReadinessCache, ReadinessState, RequestSettings, SharedBodies,
    SharedState, ShutdownFlag, routes,
};
use antwort_config::{Settings, Switch};

/// The current generation, swapped by reloads.
pub(super) type CurrentGeneration = Arc<ArcSwap<Generation>>;

/// What a request uses from beginning to end.
pub(super) struct Generation {
    pub service: Router,
    pub state: AppState,
}

impl Generation {
    pub(super) fn new(settings: &Settings, assembly: &Assembly, stopping: &ShutdownFlag) -> Self {
        let state = state(settings, assembly, stopping);
        Self { service: routes::router(state.clone()), state }
    }
}

fn state(settings: &Settings, assembly: &Assembly, stopping: &ShutdownFlag) -> AppState {
    let server = &settings.server;
    AppState::new(SharedState {
        engine: Arc::clone(&assembly.engine),
        services: assembly.services(),
        access: AccessRules {
            auth: Arc::clone(&assembly.auth),
            pass_through: PassThroughRoutes::new(&server.pass_through),
            cors_origins: server.cors.allowed_origins.clone(),
            allowed_hosts: server.allowed_hosts.clone(),
            trusted_proxies: server.trusted_proxies.iter().map(|proxy| proxy.0).collect(),
        },
        requests: RequestSettings {
            dialect: settings.engine.dialect,
            keepalive: settings.sse.keepalive,
            body_limit: server.request_body_limit,
            body_idle_timeout: server.body_idle_timeout,
            limits: server.request_limits,
            websocket: server.websocket.clone(),
            client_profiles: settings.compat.client_profiles == Switch::On,
            unserved_tools: settings.compat.unserved_tools,
        },
        readiness: ReadinessState {
            requires: server.ready_requires.clone(),
            cache: ReadinessCache::default(),
            stopping: stopping.clone(),
        },
        serves_api: settings.role.serves_api(),
        ui: checks::page_files(settings),
        metrics: Arc::clone(&assembly.metrics),
        shared_bodies: SharedBodies::default(),
    })
}

/// Shuts the gateway's own tools down once no generation uses them any more, or the process ends.
pub(super) fn spawn_tool_cleanup(tools: &GatewayTools, tasks: &TaskTracker, closing: CancellationToken) {
    let (toolbox, unused) = (Arc::clone(&tools.toolbox), tools.unused.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = unused.cancelled() => {}
            () = closing.cancelled() => {}
        }
        toolbox.shutdown().await;
    });
}
