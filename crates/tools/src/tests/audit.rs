//! What operators see of calls: the audit record and the metrics.

use std::io;

use tracing_subscriber::fmt::MakeWriter;

use super::*;
use antwort_protocol::id::Id;

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// The audit's events.
    fn records(&self) -> Vec<Value> {
        let bytes = self.0.lock();
        let lines =
            std::str::from_utf8(&bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter(|line: &Value| line["target"] == "antwort::audit").collect()
    }
}

#[tokio::test]
async fn every_decision_and_every_call_is_recorded_without_what_was_said() {
    let log = Log::default();
    // While there is only one subscriber in the process, an event that another thread meets first is decided upon by
    // that thread's, which is none; with two, all are asked.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::fmt().json().with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let tools = vec![lookup("fine"), tool("blocked"), tool("bad")];
    let script = Arc::new(Script::new("x", tools).answering(|call| match call.name.as_str() {
        "fine" => Ok(ToolOutput::text("secret result")),
        _ => Err(ToolError::failed("secret trouble")),
    }));
    let toolbox =
        open(json!({"blocked_tools": ["blocked"], "overrides": {"bad": {"on_error": "skip"}}}), &[&script])
            .await;
    let response = Id::from("resp_7");
    let context = Arc::new(ToolContext {
        response_id: Some(response.clone()),
        agent: Some("helper".into()),
        ..of("acme", "ann")
    });
    for (index, name) in ["fine", "fine", "blocked", "bad"].into_iter().enumerate() {
        let key = CallKey { response: response.clone(), turn: 0, index: index.try_into().unwrap() };
        let call = ToolCall { key: Some(key), ..ToolCall::direct(name, r#"{"q":"secret"}"#.into()) };
        let tool = Arc::clone(toolbox.catalog().get(name).unwrap());
        _ = tool.call(call, Arc::clone(&context), Progress::none()).await;
    }
    let records = log.records();
    let brief: Vec<_> = records
        .iter()
        .map(|record| {
            let field = |name: &str| record["fields"][name].as_str().unwrap_or("-").to_owned();
            [field("record"), field("call_id"), field("tool"), field("decision"), field("code")].join(" ")
        })
        .collect();
    assert_eq!(
        brief,
        [
            "decision resp_7/0/0 fine allowed -",
            "call resp_7/0/0 fine allowed -",
            "decision resp_7/0/1 fine allowed -",
            "call resp_7/0/1 fine cached -",
            "decision resp_7/0/2 blocked denied access_denied",
            "call resp_7/0/2 blocked denied access_denied",
            "decision resp_7/0/3 bad allowed -",
            "call resp_7/0/3 bad allowed tool_execution_failed",
        ]
    );
    let span = &records[1]["span"];
    assert_eq!(
        (&span["name"], &span["gen_ai.operation.name"]),
        (&json!("execute_tool"), &json!("execute_tool"))
    );
    assert_eq!(
        (&span["gen_ai.tool.name"], &span["gen_ai.tool.call.id"]),
        (&json!("fine"), &json!("resp_7/0/0"))
    );
    let first = &records[1]["fields"];
    assert_eq!(first["attempts"], 1);
    for (name, value) in [
        ("tenant", "acme"),
        ("principal", "ann"),
        ("agent", "helper"),
        ("response_id", "resp_7"),
        ("executor", "x"),
    ] {
        assert_eq!(first[name], value);
    }
    // sha256 of {"q":"secret"}, its first half.
    assert_eq!(first["arguments_sha256"].as_str().unwrap().len(), 32);
    assert!(first["ms"].is_f64());
    assert!(!format!("{records:?}").contains("secret"));
}

#[tokio::test]
async fn a_record_says_who_ran_a_call_and_instead_of_whom() {
    let log = Log::default();
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::fmt().json().with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let down = |id| {
        let script = Script::new(id, vec![lookup("search")]);
        Arc::new(
            script.answering(|_| Err(ToolError::refused(ToolErrorCode::ToolUnavailable, "no connection"))),
        )
    };
    let fine = Arc::new(Script::new("b", vec![lookup("search")]));
    for (second, code) in [(fine, None), (down("b"), Some("tool_unavailable"))] {
        let changes = json!({"routes": {"search": {"executors": ["a", "b"]}}, "retry": {"max": 0}});
        let toolbox = open(changes, &[&down("a"), &second]).await;
        _ = call(&toolbox, "search").await;
        let record = log.records().last().unwrap()["fields"].clone();
        assert_eq!((&record["executor"], &record["fallback_from"]), (&json!("b"), &json!("a")), "{record}");
        assert_eq!((record["attempts"].as_u64(), record["code"].as_str()), (Some(2), code), "{record}");
    }
}

#[tokio::test]
async fn calls_are_counted_and_measured() {
    let metrics = Metrics::new();
    let script =
        Arc::new(Script::new("x", vec![lookup("fine"), tool("bad"), tool("slow")]).running(|call| {
            Box::pin(async move {
                match call.name.as_str() {
                    "fine" => Ok(ToolOutput::text("ok")),
                    "bad" => Err(ToolError::failed("no")),
                    _ => std::future::pending().await,
                }
            })
        }));
    let executors = vec![Arc::clone(&script) as Arc<dyn ToolExecutor>];
    let settings = settings(json!({}));
    let toolbox =
        ToolRegistry::open(&settings, &BTreeMap::new(), executors, Arc::clone(&metrics)).await.unwrap();
    for name in ["fine", "fine", "bad"] {
        _ = call(&toolbox, name).await;
    }
    // Dropped by its caller.
    assert!(futures_util::FutureExt::now_or_never(call(&toolbox, "slow")).is_none());
    let text = metrics.render();
    for line in [
        r#"antwort_tool_calls_total{tool="fine",outcome="ok",executor="x"} 1"#,
        r#"antwort_tool_calls_total{tool="fine",outcome="cached",executor="x"} 1"#,
        r#"antwort_tool_calls_total{tool="bad",outcome="tool_execution_failed",executor="x"} 1"#,
        r#"antwort_tool_calls_total{tool="slow",outcome="abandoned",executor="x"} 1"#,
        r#"antwort_tool_duration_seconds_count{tool="fine",executor="x"} 2"#,
        r#"antwort_tool_attempts_total{tool="fine",executor="x"} 1"#,
        r#"antwort_tool_cache_total{result="hit"} 1"#,
        r#"antwort_tool_cache_total{result="miss"} 1"#,
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
    }
}
