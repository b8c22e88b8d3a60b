//! What a collector of traces gets, and what the metrics and the audit record say of the same calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Said;
use parking_lot::Mutex;
use prost::Message;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Upstream};

/// A span as it arrived.
#[derive(Debug, Clone)]
struct Seen {
    name: String,
    id: Vec<u8>,
    parent: Vec<u8>,
    /// 2: ERROR.
    status: i32,
    attributes: BTreeMap<String, String>,
}

/// A collector that keeps all spans.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Seen>>>);

impl Collector {
    async fn spawn() -> (Self, String) {
        let this = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(Self::take)).with_state(this.clone());
        #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        (this, base)
    }

    async fn take(State(this): State<Self>, body: Bytes) {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        for span in scopes.flat_map(|scope| scope.spans) {
            let text = |value: Option<Said>| match value {
                Some(Said::StringValue(text)) => text,
                Some(Said::IntValue(number)) => number.to_string(),
                Some(Said::BoolValue(truth)) => truth.to_string(),
                other => format!("{other:?}"),
            };
            let attributes = span.attributes.into_iter();
            this.0.lock().push(Seen {
                name: span.name,
                id: span.span_id,
                parent: span.parent_span_id,
                status: span.status.unwrap_or_default().code,
                attributes: attributes
                    .map(|one| (one.key, text(one.value.and_then(|value| value.value))))
                    .collect(),
            });
        }
    }

    fn named(&self, name: &str) -> Vec<Seen> {
        self.0.lock().iter().filter(|span| span.name == name).cloned().collect()
    }

    fn one(&self, name: &str) -> Seen {
        self.named(name).remove(0)
    }
}

impl Seen {
    fn says(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

#[tokio::test]
async fn functions_of_clients_are_counted_without_their_names() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let function = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}});
    upstream.reply(Reply::Calls(vec![("look_up", json!({})), ("tell", json!({}))]));
    let tools = json!([function("look_up"), function("tell"), {"type": "antwort:calculate"}]);
    gateway.create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
    let text = gateway.get("/metrics").await.body.as_str().unwrap().to_owned();
    let line = r#"antwort_tool_calls_total{tool="other",outcome="handed_over",executor="client"} 2"#;
    assert!(text.contains(&format!("\n{line}\n")) && !text.contains("look_up"), "{text}");
}

#[tokio::test]
async fn spans_metrics_and_records_of_calls_say_who_ran_them_and_how_they_failed() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let (collector, endpoint) = Collector::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let routes = "tools: {routes: {echo: {executors: ['mcp:sums', 'mcp:twin']}}}\n";
    std::fs::write(folder.path().join("antwort.yaml"), routes).unwrap();
    let environment = [
        ("ANTWORT__TELEMETRY__OTLP_ENDPOINT", endpoint.as_str()),
        ("ANTWORT__MCP__SERVERS__SUMS__URL", url.as_str()),
        ("ANTWORT__MCP__SERVERS__TWIN__URL", url.as_str()),
        ("ANTWORT_LOG", "error,antwort::audit=info"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let process = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let http = reqwest::Client::new();
    let create = async |body: Value| {
        let request = http.post(format!("{}/v1/responses", process.base)).body(body.to_string());
        let answer = request.header("content-type", "application/json").send().await.unwrap();
        serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap()
    };
    upstream.reply(Reply::Calls(vec![
        ("calculate", json!({"expression": "1+1"})),
        ("boom", json!({})),
        ("fail", json!({})),
        ("echo", json!({"text": "hi"})),
    ]));
    upstream.text("Done.");
    let tools = json!([{"type": "antwort:calculate"}, {"type": "antwort:echo"},
        {"type": "mcp", "server_label": "sums", "allowed_tools": ["boom", "fail"]}]);
    let answer = create(json!({"model": "test-model", "input": "Go.", "tools": tools})).await;
    assert_eq!(answer["status"], "completed", "{answer:#}");
    upstream.reply(Reply::Status(404, vec![], "no such model".into()));
    assert!(create(json!({"model": "none", "input": "Go."})).await["error"].is_object());

    let arrived = async || {
        let all = ["execute_tool calculate", "execute_tool boom", "execute_tool fail", "execute_tool echo"];
        all.iter().all(|name| collector.named(name).len() == 1) && collector.named("chat").len() == 3
    };
    assert!(eventually(arrived).await, "{:#?}", collector.0.lock());
    let fine = collector.one("execute_tool calculate");
    assert_eq!((fine.status, fine.says("error.type"), fine.says("mcp.server")), (0, None, None));
    assert_eq!(
        (fine.says("antwort.tool.executor"), fine.says("antwort.tool.attempts")),
        (Some("builtin"), Some("1"))
    );
    assert_failed_calls(&collector, &server);
    let routed = collector.one("execute_tool echo");
    assert_eq!((routed.status, routed.says("mcp.server")), (0, Some("sums")), "{routed:#?}");
    assert_eq!(routed.says("antwort.tool.executor"), Some("mcp:sums"));
    assert_chats(&collector);

    let metrics = http.get(format!("{}/metrics", process.base)).send().await.unwrap().text().await.unwrap();
    assert_call_metrics(&metrics);
    let log = process.log();
    assert_call_record(&log);
}

/// Spans of calls that failed at an MCP server say how, where, and which request the server saw.
fn assert_failed_calls(collector: &Collector, server: &McpServer) {
    let address = server.base.trim_start_matches("http://127.0.0.1:");
    for (name, executor) in [("execute_tool boom", "mcp:sums"), ("execute_tool fail", "mcp:sums")] {
        let span = collector.one(name);
        assert_eq!((span.status, span.says("error.type")), (2, Some("tool_execution_failed")), "{span:#?}");
        assert_eq!(
            (span.says("antwort.tool.executor"), span.says("mcp.server")),
            (Some(executor), Some("sums"))
        );
        assert_eq!(span.says("mcp.method.name"), Some("tools/call"));
        assert_eq!(
            (span.says("server.address"), span.says("server.port")),
            (Some("127.0.0.1"), Some(address))
        );
        assert!(span.says("gen_ai.tool.call.id").is_some());
        let call = server.calls().into_iter().find(|call| name.ends_with(&call.tool)).unwrap();
        let parent = call.meta["traceparent"].as_str().unwrap();
        let id: String = span.id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(parent.contains(&id), "the server is told of the span of its own call: {parent} {id}");
    }
}

/// Spans of inference have the provider's address, their tokens, and how they failed.
fn assert_chats(collector: &Collector) {
    let chats = collector.named("chat");
    assert_eq!(chats.iter().filter(|chat| chat.status == 2).count(), 1, "{chats:#?}");
    for chat in &chats {
        assert_eq!(chat.says("server.address"), Some("127.0.0.1"));
        assert!(!chat.parent.is_empty() && chat.says("server.port").is_some());
        let tokens = (chat.says("gen_ai.usage.input_tokens"), chat.says("gen_ai.usage.output_tokens"));
        let failed = chat.status == 2;
        assert_eq!(tokens, if failed { (None, None) } else { (Some("5"), Some("3")) }, "{chat:#?}");
        assert_eq!(chat.says("error.type"), failed.then_some("model_not_found"));
    }
}

fn assert_call_metrics(metrics: &str) {
    for line in [
        r#"antwort_tool_calls_total{tool="calculate",outcome="ok",executor="local"} 1"#,
        r#"antwort_tool_calls_total{tool="sums__boom",outcome="tool_execution_failed",executor="mcp:sums"} 1"#,
        r#"antwort_tool_calls_total{tool="sums__fail",outcome="error",executor="mcp:sums"} 1"#,
        r#"antwort_tool_attempts_total{tool="sums__boom",executor="mcp:sums"} 1"#,
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line} is not in\n{metrics}");
    }
}

fn assert_call_record(log: &str) {
    let records = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let record =
        records.into_iter().find(|line| line["record"] == "call" && line["tool"] == "sums__boom").unwrap();
    assert_eq!((&record["executor"], &record["attempts"]), (&json!("mcp:sums"), &json!(1)));
    assert_eq!(record["code"], "tool_execution_failed");
    assert!(record["ms"].is_f64());
}
