//! Runs and MCP sessions are shared out: by tenant, then by key; what is beyond a share waits in turns.

use std::time::Duration;

use antwort::config::{ApiKeySettings, Scope, Settings};
use reqwest::Response;
use serde_json::{Value, json};

use super::untaken::{ask_and_take_nothing, store};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::upstream::{Reply, Step, Upstream};

/// A key that is its own name.
pub(super) fn key(name: &str, tenant: &str) -> (String, ApiKeySettings) {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, name.as_bytes());
    let key = ApiKeySettings {
        store: antwort::config::StorePolicy::Allow,
        hash: hash.as_ref().try_into().unwrap(),
        tenant: tenant.into(),
        owner: name.into(),
        scopes: vec![Scope::All, Scope::MetricsRead],
        dialect: None,
        client_action_status: None,
        max_runs: None,
    };
    (name.to_owned(), key)
}

/// A gateway for these keys and tenants, with so many runs at a time.
async fn gateway(upstream: &Upstream, keys: &[(&str, &str)], max_runs: usize, queue: Duration) -> Gateway {
    let set = |settings: &mut Settings| {
        settings.server.max_runs = max_runs;
        settings.server.queue_timeout = queue;
        settings.auth.keys = keys.iter().map(|(name, tenant)| key(name, tenant)).collect();
    };
    Gateway::with_upstream(upstream).set(set).spawn().await
}

fn request(gateway: &Gateway, key: &str, stream: bool) -> reqwest::RequestBuilder {
    let body = json!({"model": "test-model", "input": "Hi", "stream": stream});
    gateway.http.post(format!("{}/v1/responses", gateway.base)).bearer_auth(key).json_body(&body)
}

async fn ask(gateway: &Gateway, key: &str) -> HttpAnswer {
    gateway.send(request(gateway, key, false)).await
}

/// A run that lasts until its stream is dropped.
async fn hold(upstream: &Upstream, gateway: &Gateway, key: &str) -> Response {
    hold_until(upstream, request(gateway, key, true)).await
}

async fn hold_until(upstream: &Upstream, request: reqwest::RequestBuilder) -> Response {
    let begun = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]});
    upstream.reply(Reply::Stream(vec![Step::Chunk(begun), Step::Hang]));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

fn assert_overloaded(answer: &HttpAnswer) {
    assert_overloaded_by("server.max_runs", answer);
}

fn assert_overloaded_by(setting: &str, answer: &HttpAnswer) {
    assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("server_is_overloaded")));
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(answer.body["error"]["message"].as_str().unwrap().contains(setting), "{:#}", answer.body);
}

/// A line of the metrics.
pub(super) async fn metric(gateway: &Gateway, key: &str, name: &str) -> Option<u64> {
    let answer = gateway.send(gateway.http.get(format!("{}/metrics", gateway.base)).bearer_auth(key)).await;
    let text = answer.body.as_str().unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

async fn waiting(gateway: &Gateway, key: &str) -> u64 {
    waiting_for("runs", gateway, key).await
}

async fn waiting_for(resource: &str, gateway: &Gateway, key: &str) -> u64 {
    let waiting = metric(gateway, key, &format!("antwort_queue_waiting{{resource=\"{resource}\"}}")).await;
    waiting.unwrap_or_default()
}

const SOON: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn one_key_that_takes_all_the_runs_it_can_leaves_other_tenants_served() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("greedy", "red"), ("modest", "blue")], 4, SOON).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(hold(&upstream, &gateway, "greedy").await);
    }
    assert_overloaded(&ask(&gateway, "greedy").await);
    assert_eq!(ask(&gateway, "modest").await.status, 200);
    // Also while the greedy one waits for more.
    let (refused, served) = tokio::join!(ask(&gateway, "greedy"), ask(&gateway, "modest"));
    assert_overloaded(&refused);
    assert_eq!(served.status, 200);
}

#[tokio::test]
async fn of_two_keys_of_one_tenant_none_takes_more_than_half() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("one", "acme"), ("two", "acme")], 2, SOON).await;
    let _held = hold(&upstream, &gateway, "one").await;
    assert_overloaded(&ask(&gateway, "one").await);
    assert_eq!(ask(&gateway, "two").await.status, 200);
}

#[tokio::test]
async fn a_single_user_has_every_run() {
    let upstream = Upstream::spawn().await;
    for keys in [&[][..], &[("only", "acme")][..]] {
        let gateway = gateway(&upstream, keys, 3, SOON).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(hold(&upstream, &gateway, "only").await);
        }
        assert_overloaded(&ask(&gateway, "only").await);
    }
}

/// With few file descriptors the requests of one key, which hung, once kept every connection busy.
#[tokio::test]
async fn no_tenant_keeps_more_than_its_share_of_the_connections_busy() {
    let upstream = Upstream::spawn().await;
    let set = |settings: &mut Settings| {
        settings.server.max_connections = Some(6);
        settings.auth.keys = [key("busy", "red"), key("other", "blue")].into();
    };
    let gateway = Gateway::with_upstream(&upstream).set(set).spawn().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(hold(&upstream, &gateway, "busy").await);
    }
    assert_overloaded_by("server.max_connections", &ask(&gateway, "busy").await);
    held.push(hold(&upstream, &gateway, "other").await);
    let rejected = metric(&gateway, "other", "antwort_rejected_total{reason=\"max_connections\"}").await;
    assert_eq!(rejected, Some(1));
    // Its connection is free once its request has ended, though it stays open.
    held.remove(0);
    assert!(eventually(async || ask(&gateway, "busy").await.status == 200).await);
    assert_eq!(ask(&gateway, "busy").await.status, 200);
}

/// A response ends for the gateway when its last bytes are queued: its connection is busy until the client has taken them.
#[tokio::test]
async fn a_connection_whose_response_is_not_taken_counts_for_its_tenant() {
    let upstream = Upstream::spawn().await;
    let set = |settings: &mut Settings| {
        settings.server.max_connections = Some(6);
        settings.auth.keys = [key("busy", "red"), key("other", "blue")].into();
    };
    let gateway = Gateway::with_upstream(&upstream).set(set).spawn().await;
    let large = store(&upstream, &gateway, "busy", 8 << 20).await;
    let mut unread = Vec::new();
    for _ in 0..3 {
        let stream = ask_and_take_nothing(&gateway.base, "busy", &format!("GET {large}")).await;
        stream.readable().await.unwrap();
        unread.push(stream);
    }
    assert_overloaded_by("server.max_connections", &ask(&gateway, "busy").await);
    assert_eq!(ask(&gateway, "other").await.status, 200);
    drop(unread);
    assert!(eventually(async || ask(&gateway, "busy").await.status == 200).await);
}

#[tokio::test]
async fn what_the_operator_says_of_a_tenant_or_a_key_counts() {
    let upstream = Upstream::spawn().await;
    let set = |settings: &mut Settings| {
        settings.server.max_runs = 4;
        settings.server.max_runs_per_tenant = Some(3);
        settings.server.queue_timeout = SOON;
        settings.auth.keys = [key("most", "red"), key("few", "blue")].into();
        settings.auth.keys.get_mut("few").unwrap().max_runs = Some(1);
    };
    let gateway = Gateway::with_upstream(&upstream).set(set).spawn().await;
    let mut held = Vec::new();
    for key in ["most", "most", "most", "few"] {
        held.push(hold(&upstream, &gateway, key).await);
    }
    held.truncate(2);
    held.push(hold(&upstream, &gateway, "few").await);
    assert_overloaded(&ask(&gateway, "few").await);
}

#[tokio::test]
async fn a_request_beyond_the_capacity_waits_and_is_served_when_there_is_room() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("only", "acme")], 1, LONG).await;
    let held = hold(&upstream, &gateway, "only").await;
    let release = async {
        assert!(eventually(async || waiting(&gateway, "only").await == 2).await);
        assert_eq!(upstream.requests().len(), 1, "who waits asks no provider");
        drop(held);
    };
    let (whole, streamed, ()) = tokio::join!(
        ask(&gateway, "only"),
        async { request(&gateway, "only", true).send().await.unwrap().text().await.unwrap() },
        release,
    );
    assert_eq!((whole.status, &whole.body["status"]), (200, &Value::from("completed")));
    assert!(
        streamed.contains("event: response.completed") && streamed.contains("data: [DONE]"),
        "{streamed}"
    );
    assert_eq!(waiting(&gateway, "only").await, 0);
    let waited = metric(&gateway, "only", "antwort_queue_wait_seconds_count{resource=\"runs\"}").await;
    assert_eq!(waited, Some(2));
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_frees_its_place() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("only", "acme")], 1, LONG).await;
    let held = hold(&upstream, &gateway, "only").await;
    for stream in [false, true] {
        tokio::select! {
            answer = request(&gateway, "only", stream).send() => panic!("there is no room: {answer:?}"),
            waits = eventually(async || waiting(&gateway, "only").await == 1) => assert!(waits),
        }
        assert!(eventually(async || waiting(&gateway, "only").await == 0).await, "nobody waits any more");
    }
    drop(held);
    assert_eq!(ask(&gateway, "only").await.status, 200);
    assert_eq!(upstream.requests().len(), 2, "nothing was made for who had left");
}

#[tokio::test]
async fn who_waits_when_the_gateway_stops_is_sent_elsewhere() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("only", "acme")], 1, LONG).await;
    let held = hold(&upstream, &gateway, "only").await;
    let stop = async {
        assert!(eventually(async || waiting(&gateway, "only").await == 1).await);
        gateway.begin_stop();
    };
    let (answer, ()) = tokio::join!(ask(&gateway, "only"), stop);
    assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("server_shutting_down")));
    drop(held);
}

#[tokio::test]
async fn direct_calls_of_tools_take_places_too() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream, &[("greedy", "red"), ("modest", "blue")], 2, SOON).await;
    let _held = hold(&upstream, &gateway, "greedy").await;
    let call = async |key: &str| {
        let url = format!("{}/v1/tools/calculate/execute", gateway.base);
        let body = json!({"arguments": {"expression": "6*7"}});
        gateway.send(gateway.http.post(url).bearer_auth(key).json_body(&body)).await
    };
    assert_overloaded(&call("greedy").await);
    assert_eq!(call("modest").await.status, 200);
}

/// A gateway for these keys and tenants, with room for so many sessions with MCP servers.
async fn gateway_with_sessions(
    upstream: &Upstream,
    keys: &[(&str, &str)],
    max_sessions: usize,
    queue: Duration,
) -> Gateway {
    let set = |settings: &mut Settings| {
        settings.egress.allow = vec!["127.0.0.1".into()];
        settings.mcp.sessions.max = max_sessions;
        settings.mcp.requests.max_servers = 1;
        settings.server.queue_timeout = queue;
        settings.auth.keys = keys.iter().map(|(name, tenant)| key(name, tenant)).collect();
    };
    Gateway::with_upstream(upstream).set(set).spawn().await
}

/// A request that uses a session of its own: each address has one.
fn with_session(
    gateway: &Gateway,
    key: &str,
    server: &McpServer,
    n: u32,
    stream: bool,
) -> reqwest::RequestBuilder {
    let url = format!("{}?n={n}", server.url());
    let tool = json!({"type": "mcp", "server_label": "s", "server_url": url, "require_approval": "never"});
    let body = json!({"model": "test-model", "input": "Hi", "stream": stream, "tools": [tool]});
    gateway.http.post(format!("{}/v1/responses", gateway.base)).bearer_auth(key).json_body(&body)
}

#[tokio::test]
async fn sessions_with_mcp_servers_are_shared_by_tenant_then_key() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let keys = [("greedy", "red"), ("other", "red"), ("modest", "blue")];
    let gateway = gateway_with_sessions(&upstream, &keys, 8, SOON).await;
    let use_one =
        async |key: &str, n: u32| gateway.send(with_session(&gateway, key, &server, n, false)).await;
    let mut held = Vec::new();
    for n in 0..2 {
        held.push(hold_until(&upstream, with_session(&gateway, "greedy", &server, n, true)).await);
    }
    assert_overloaded_by("mcp.sessions.max", &use_one("greedy", 2).await);
    assert_eq!(use_one("greedy", 1).await.status, 200, "it has that session already");
    for (key, n) in [("other", 3), ("other", 4), ("modest", 5)] {
        assert_eq!(use_one(key, n).await.status, 200);
    }
    held.remove(0);
    assert!(
        eventually(async || use_one("greedy", 2).await.status == 200).await,
        "what it gave back it may have"
    );
}

#[tokio::test]
async fn a_request_beyond_the_sessions_waits_for_one_that_is_used_no_more() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway_with_sessions(&upstream, &[("only", "acme")], 1, LONG).await;
    let held = hold_until(&upstream, with_session(&gateway, "only", &server, 1, true)).await;
    let release = async {
        assert!(eventually(async || waiting_for("mcp_sessions", &gateway, "only").await == 1).await);
        assert_eq!(server.sessions_made(), 1, "who waits asks no server");
        drop(held);
    };
    let (waited, ()) = tokio::join!(gateway.send(with_session(&gateway, "only", &server, 2, false)), release);
    assert_eq!(waited.status, 200, "{:#}", waited.body);
    assert_eq!((server.sessions_made(), waiting_for("mcp_sessions", &gateway, "only").await), (2, 0));
    assert!(eventually(async || server.open_sessions() == 1).await, "the other one made way");
}

#[tokio::test]
async fn who_waits_for_a_session_when_the_gateway_stops_is_sent_elsewhere() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = gateway_with_sessions(&upstream, &[("only", "acme")], 1, LONG).await;
    let held = hold_until(&upstream, with_session(&gateway, "only", &server, 1, true)).await;
    let stop = async {
        assert!(eventually(async || waiting_for("mcp_sessions", &gateway, "only").await == 1).await);
        gateway.begin_stop();
    };
    let (answer, ()) = tokio::join!(gateway.send(with_session(&gateway, "only", &server, 2, false)), stop);
    assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!("server_shutting_down")));
    drop(held);
}
