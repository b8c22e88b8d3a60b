//! `antwort demo`: the gateway with a scripted model, and a conversation with it.
//!
//! The demo provider is the only part of this project that answers without a model. It is a real chat-completions
//! server on a loopback port, and the gateway calls it like any other. Beside it is an MCP server with the tools of a travel
//! agency.

mod arguments;
mod conversation;
mod gateway;
mod mcp_server;
mod print;
mod provider;
mod reply;
mod trip;
mod turn;
mod words;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::gateway::Gateway;
use crate::app::{self, App, SighupListener};
use antwort_config::{
    ApiKeySettings, McpServerSettings, McpTransport, McpTrust, Preset, ProviderSettings, Scope, Settings,
    StorePolicy,
};
use antwort_provider::model_choice::{self, NoModel};
use antwort_provider::routing::ProviderRouter;
use antwort_telemetry::metrics::Metrics;
use antwort_util::digest::sha256;
use antwort_util::random;

pub(crate) use turn::MODEL;

/// Serves until `shutdown` or SIGHUP; shows a conversation first if the demo provider is used.
pub(crate) async fn run(
    mut settings: Settings,
    mut hangups: SighupListener,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    // There is no load balancer to wait for.
    settings.server.shutdown_delay.get_or_insert(Duration::ZERO);
    let tasks = TaskTracker::new();
    // There is no configuration to reload: SIGHUP means that the terminal was closed.
    let stop = shutdown.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = hangups.next() => stop.cancel(),
            () = stop.cancelled() => {}
        }
    });
    let scripted = settings.providers.is_empty();
    if scripted {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        tasks.spawn(provider::serve(listener, shutdown.clone()));
        let mut demo = ProviderSettings::new(Preset::Generic, format!("http://{address}/v1"));
        demo.default = true;
        settings.providers.insert("demo".to_owned(), demo);
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        tasks.spawn(mcp_server::serve(listener, shutdown.clone()));
        settings.mcp.servers.entry(trip::SERVER.to_owned()).or_insert_with(|| travel_agency(address));
    }
    let key = own_key(&mut settings);
    let listener = app::bind(settings.listen)?;
    let base = format!("http://{}/v1", listener.local_addr()?);
    let gateway = Gateway { base, key };
    let app = App::build(&settings).await?;
    let serving = tasks.spawn(app.serve(listener, shutdown.clone()));
    print::opening(&gateway.base, &settings);
    let model = if scripted {
        show_conversation(&gateway, &shutdown).await?;
        Some(MODEL.to_owned())
    } else {
        first_model(&settings).await?.inspect_err(|failures| print::no_models(failures)).ok()
    };
    if !shutdown.is_cancelled() {
        print::closing(&gateway, model.as_deref());
    }
    serving.await.context("serving")?;
    tasks.close();
    tasks.wait().await;
    Ok(())
}

/// A key for the demo's own requests, if the gateway wants one: those of the user are known by their hashes only.
fn own_key(settings: &mut Settings) -> Option<String> {
    let of_user = settings.auth.keys.values().next()?.clone();
    let key = random::token()?;
    let own = ApiKeySettings {
        hash: sha256(key.as_bytes()),
        scopes: vec![Scope::All],
        dialect: None,
        client_action_status: None,
        store: StorePolicy::Allow,
        max_runs: None,
        ..of_user
    };
    settings.auth.keys.insert("the demo's own".to_owned(), own);
    Some(key)
}

/// A model of the user's servers to name in the commands, or why there is none.
async fn first_model(settings: &Settings) -> anyhow::Result<Result<String, Vec<NoModel>>> {
    let router = ProviderRouter::new(&settings.providers, &Metrics::new()).context("providers")?;
    Ok(model_choice::choose(&router, &settings.providers, model_choice::holds_conversations).await)
}

/// Shows the conversation; whoever stops the demo in the midst of it gets no error.
async fn show_conversation(gateway: &Gateway, shutdown: &CancellationToken) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => Ok(()),
        shown = conversation::show(gateway) => shown.context("the demo conversation"),
    }
}

/// The demo's MCP server: what only reads is called at once, the rest needs an approval.
fn travel_agency(address: SocketAddr) -> McpServerSettings {
    McpServerSettings {
        url: Some(format!("http://{address}/mcp")),
        transport: Some(McpTransport::StreamableHttp),
        description: Some("The demo's travel agency".to_owned()),
        trust: Some(McpTrust::Annotations),
        ..McpServerSettings::default()
    }
}
