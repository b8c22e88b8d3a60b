//! What the tests of the tools share, and which tools a configuration makes possible.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::executor;
use crate::{ToolExecutor, ToolKind};
use antwort_config::BuiltinSettings;
use antwort_net::client::HttpClientOptions;
use antwort_net::egress::{Egress, EgressOptions};

/// Reaches the loopback address, and no other inner one.
pub(super) fn open_egress() -> Arc<Egress> {
    let options = EgressOptions {
        allow: vec!["127.0.0.1".into()],
        allowed_domains: None,
        max_redirects: 3,
        max_response_bytes: 1 << 20,
        timeout: Duration::from_secs(30),
        http: HttpClientOptions::default(),
    };
    Arc::new(Egress::new(&options).unwrap())
}

/// Serves on the loopback address until the test's runtime is gone; the base URL.
pub(super) async fn serve(routes: axum::Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, routes).await.unwrap() });
    format!("http://{address}")
}

fn settings(json: serde_json::Value) -> BuiltinSettings {
    serde_json::from_value(json).unwrap()
}

async fn names(json: serde_json::Value, allow_file_access: bool) -> Result<Vec<String>, String> {
    let executor =
        executor(&settings(json), allow_file_access, &open_egress()).map_err(|error| error.to_string())?;
    let definitions = executor.list().await.unwrap();
    for definition in &definitions {
        assert_eq!((definition.kind, &*definition.executor), (ToolKind::Builtin, "builtin"));
        assert!(definition.annotations.read_only && definition.version.is_some());
        let schema: serde_json::Value = serde_json::from_str(definition.parameters.get()).unwrap();
        assert!(jsonschema::validator_for(&schema).is_ok() && schema["type"] == "object");
    }
    Ok(definitions.into_iter().map(|definition| definition.name).collect())
}

#[tokio::test]
async fn tools_are_there_when_they_have_what_they_need() {
    for (settings, tools) in [
        (json!({}), &["calculate", "datetime"][..]),
        (json!({"calculate": {"enabled": false}}), &["datetime"]),
        (json!({"calculate": {"enabled": false}, "datetime": {"enabled": false}}), &[]),
        (json!({"get_weather": {"api_key": "k"}}), &["calculate", "datetime", "get_weather"]),
        (json!({"get_weather": {"api_key": ""}}), &["calculate", "datetime"]),
        (json!({"get_weather": {"base_url": "http://127.0.0.1:1"}}), &["calculate", "datetime"]),
        (json!({"web_search": {"api_key": "k"}}), &["calculate", "datetime", "web_search"]),
        (json!({"web_search": {"api_key": ""}}), &["calculate", "datetime"]),
        (json!({"web_search": {"provider": "duckduckgo"}}), &["calculate", "datetime", "web_search"]),
        (json!({"web_search": {"provider": "brave"}}), &["calculate", "datetime"]),
        (
            json!({"web_search": {"provider": "tavily", "api_key": "k"}}),
            &["calculate", "datetime", "web_search"],
        ),
        (
            json!({"web_search": {"provider": "brave", "api_key": "k"}}),
            &["calculate", "datetime", "web_search"],
        ),
        (json!({"web_search": {"provider": "searxng"}}), &["calculate", "datetime"]),
        (
            json!({"web_search": {"provider": "searxng", "base_url": "http://search.internal:8080/"}}),
            &["calculate", "datetime", "web_search"],
        ),
    ] {
        assert_eq!(names(settings.clone(), false).await.unwrap(), tools, "{settings}");
    }
    let temp = tempfile::TempDir::new().unwrap();
    let files = json!({"file_read": {"allowed_paths": [temp.path()]}});
    assert_eq!(names(files.clone(), true).await.unwrap(), ["calculate", "datetime", "file_read"]);
    assert_eq!(names(files, false).await.unwrap(), ["calculate", "datetime"]);
}

#[tokio::test]
async fn what_is_required_or_wrong_is_named() {
    for (settings, key) in [
        (json!({"get_weather": {"required": true}}), "tools.builtin.get_weather.api_key"),
        (
            json!({"get_weather": {"api_key": "k", "base_url": "ftp://x"}}),
            "tools.builtin.get_weather.base_url",
        ),
        (json!({"get_weather": {"api_key": "k", "base_url": "x"}}), "tools.builtin.get_weather.base_url"),
        (
            json!({"get_weather": {"api_key": "k", "base_url": "http://x/?a"}}),
            "tools.builtin.get_weather.base_url",
        ),
        (json!({"web_search": {"required": true}}), "tools.builtin.web_search.provider"),
        (
            json!({"web_search": {"required": true, "provider": "searxng"}}),
            "tools.builtin.web_search.base_url",
        ),
        (json!({"web_search": {"required": true, "provider": "tavily"}}), "tools.builtin.web_search.api_key"),
        (json!({"web_search": {"provider": "brave", "api_key": "a\nb"}}), "tools.builtin.web_search.api_key"),
        (json!({"file_read": {"required": true}}), "tools.allow_file_access"),
    ] {
        let error = names(settings.clone(), false).await.unwrap_err();
        assert!(error.starts_with(&format!("{key}: ")), "{settings}: {error}");
    }
    let files = json!({"file_read": {"required": true, "allowed_paths": ["/does/not/exist"]}});
    let error = names(files, true).await.unwrap_err();
    assert_eq!(error, "tools.builtin.file_read.allowed_paths: names no directory that can be opened");
}
