//! A process of the gateway inside of this one: on a runtime of its own, so that nothing of it is polled again once it is lost.

use std::sync::Arc;
use std::time::Duration;

use antwort::store::Store;
use antwort_test_support::gateway::{Builder, Gateway};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::SecretBox;
use serde_json::json;
use tokio::runtime::Runtime;

use super::world::{PUBLIC_URL, Tools, World};

/// How often leases are renewed.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// The process.
pub struct Process {
    pub base: String,
    gateway: Option<Gateway>,
    runtime: Option<Runtime>,
}

impl Process {
    /// One with this store.
    pub async fn start(world: &Arc<World>, store: Arc<dyn Store>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let builder = builder(world).executor(Arc::new(Tools(Arc::clone(world)))).store(store);
        let gateway = runtime.spawn(builder.spawn()).await.unwrap();
        world.gateway.send_replace(gateway.base.clone());
        Self { base: gateway.base.clone(), gateway: Some(gateway), runtime: Some(runtime) }
    }

    /// As `kill -9` would.
    pub async fn kill(mut self) {
        let (gateway, runtime) = (self.gateway.take(), self.runtime.take());
        let killed = tokio::task::spawn_blocking(move || {
            drop(gateway);
            runtime.into_iter().for_each(|runtime| runtime.shutdown_timeout(Duration::from_secs(10)));
        });
        killed.await.unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

fn builder(world: &World) -> Builder {
    let servers = [("shop", &world.shop), ("works", &world.works)];
    let servers = servers.map(|(name, server)| (name, json!({"url": server.url(), "trust": "trusted"})));
    Gateway::with_upstream_url(&world.provider).set(|settings| {
        settings.seal.keys = vec![SecretBox::new(Box::new([7; 32])).into()];
        settings.egress.allow = vec!["127.0.0.1".into()];
        let servers =
            servers.map(|(name, server)| (name.to_owned(), serde_json::from_value(server).unwrap()));
        settings.mcp.servers.extend(servers);
        let secret = format!("whsec_{}", BASE64_STANDARD.encode([9; 32]));
        let hook = json!({"url": format!("{}/hook", world.provider), "secret": secret});
        settings.webhooks.insert("hook".to_owned(), serde_json::from_value(hook).unwrap());
        settings.jobs.max_attempts = 100;
        // A question may be answered late: whoever asks is lost, and the machine is busy.
        settings.engine.client_tool_timeout = Duration::from_mins(30);
        settings.engine.elicitation_timeout = Duration::from_mins(30);
        settings.server.public_url = Some(PUBLIC_URL.to_owned());
        let on_complete = [("resumes", "resume"), ("stores", "store"), ("follows", "follow_up")]
            .map(|(tool, leads_to)| (tool, json!({"on_complete": leads_to})));
        let tasked = ("works__tasked", json!({"async": "allow", "on_complete": "resume"}));
        let overrides = on_complete.into_iter().chain([tasked]);
        let overrides = overrides.map(|(tool, to)| (tool.to_owned(), serde_json::from_value(to).unwrap()));
        settings.tools.overrides.extend(overrides);
        settings.store.maintenance_interval = MAINTENANCE_INTERVAL;
    })
}
