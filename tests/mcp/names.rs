//! `label__tool` is the name of a server's tool in all settings, and in the metrics.

use std::time::Duration;

use antwort::config::{McpServerSettings, McpTrust, Settings, ToolOverride};
use serde_json::json;

use super::{ask, before, call};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::Upstream;

/// Two calls of `read` of the server `docs`: how often they reached the server, and the metrics.
async fn two_calls(change: impl FnOnce(&mut Settings)) -> (usize, String) {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let known = McpServerSettings {
        url: Some(server.url()),
        trust: Some(McpTrust::Annotations),
        ..McpServerSettings::default()
    };
    let gateway = before(&upstream)
        .set(|settings| {
            settings.mcp.servers.insert("docs".into(), known);
            settings.tools.cache.enabled = true;
            settings.tools.cache.ttl = [("default".to_owned(), Duration::from_mins(1))].into();
            settings.tools.cache.never.clear();
            change(settings);
        })
        .spawn()
        .await;
    for _ in 0..2 {
        upstream.reply(call("read", json!({}))).text("Done.");
        gateway.create(ask(json!([{"type": "mcp", "server_label": "docs"}]))).await;
    }
    let metrics = gateway.http.get(format!("{}/metrics", gateway.base)).send().await.unwrap();
    (server.count_calls("read"), metrics.text().await.unwrap())
}

/// The tool reads only, from an open world: it is cached where that is said of it by name.
#[tokio::test]
async fn settings_and_metrics_know_a_servers_tool_by_one_name() {
    let ttl = |settings: &mut Settings, name: &str| {
        settings.tools.cache.ttl.insert(name.to_owned(), Duration::from_mins(1));
    };
    let cacheable = |settings: &mut Settings, name: &str| {
        let own = ToolOverride { cacheable: Some(true), ..ToolOverride::default() };
        settings.tools.overrides.insert(name.to_owned(), own);
    };
    assert_eq!(two_calls(|_| {}).await.0, 2, "its hints alone are not enough");
    let (calls, metrics) = two_calls(|settings| ttl(settings, "docs__read")).await;
    assert_eq!(calls, 1);
    assert!(metrics.contains(r#"antwort_tool_calls_total{tool="docs__read",outcome="cached""#), "{metrics}");
    assert!(!metrics.contains(r#"tool="read""#), "{metrics}");
    assert_eq!(
        two_calls(|settings| ttl(settings, "read")).await.0,
        1,
        "a bare name is any tool's of that name"
    );
    assert_eq!(two_calls(|settings| ttl(settings, "other__read")).await.0, 2);

    assert_eq!(two_calls(|settings| cacheable(settings, "docs__read")).await.0, 1);
    assert_eq!(two_calls(|settings| cacheable(settings, "read")).await.0, 2, "that is a tool of the gateway");
    for never in ["docs__read", "docs__*", "read", "r?ad"] {
        let forbid = |settings: &mut Settings| {
            ttl(settings, "docs__read");
            settings.tools.cache.never = vec![never.to_owned()];
        };
        assert_eq!(two_calls(forbid).await.0, 2, "{never}");
    }
}
