//! What the log and the metrics say of providers that fail, each in its own way.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::text;
use crate::support::eventually;
use crate::support::process::Process;
use crate::support::upstream::{Reply, Step, Upstream};

/// A gateway in front of several providers, whose log is read.
struct Logged {
    process: Process,
    folder: TempDir,
    http: reqwest::Client,
}

impl Logged {
    async fn start(upstream: &Upstream, providers: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = json!({"providers": providers, "egress": {"allow": ["127.0.0.1"]}}).to_string();
        std::fs::write(folder.path().join("antwort.yaml"), file).unwrap();
        let process =
            Process::start_with_environment(folder.path(), upstream, &[("ANTWORT_LOG", "info")]).await;
        Self { process, folder, http: reqwest::Client::new() }
    }

    async fn post(&self, path: &str, id: &str, body: &Value) -> (u16, String) {
        let request = self.http.post(format!("{}{path}", self.process.base)).header("x-request-id", id);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap_or_default())
    }

    async fn ask(&self, model: &str, id: &str) -> (u16, String) {
        self.post("/v1/responses", id, &json!({"model": model, "input": "Hi", "stream": true})).await
    }

    /// The lines of this request that say that the provider failed.
    fn failures(&self, id: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter(|line| line["message"] == "the provider failed" && line["request_id"] == id).collect()
    }

    async fn metrics(&self) -> String {
        self.http.get(format!("{}/metrics", self.process.base)).send().await.unwrap().text().await.unwrap()
    }
}

/// Providers by name, URL and time limits, which are asked once; the name is the prefix of their models.
fn named(providers: &[(&str, String, Value)]) -> Value {
    let entry = |(name, url, timeouts): &(&str, String, Value)| {
        let settings = json!({"url": url, "prefix": name, "retries": {"max": 0}, "timeouts": timeouts});
        ((*name).to_owned(), settings)
    };
    Value::Object(providers.iter().map(entry).collect())
}

/// Accepts connections and says this, whatever it is asked.
async fn server(says: &'static [u8]) -> (String, tokio::task::JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 1024];
            _ = stream.read(&mut asked).await;
            _ = stream.write_all(says).await;
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn connections_that_fail_are_warned_of_with_their_causes_and_the_url() {
    let upstream = Upstream::spawn().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (plain, _tasks) = server(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let none = json!({});
    let gateway = Logged::start(
        &upstream,
        &named(&[
            ("nowhere", "http://no-such-host.invalid/v1".to_owned(), none.clone()),
            ("refused", format!("http://{closed}/v1"), none.clone()),
            ("untls", format!("https://{plain}/v1"), none),
        ]),
    )
    .await;
    for (name, kind, cause) in [
        ("nowhere", "name_not_found", "dns error"),
        ("refused", "connection_refused", "Connection refused"),
        ("untls", "tls", "InvalidContentType"),
    ] {
        let id = format!("req_{name}");
        let (status, told) = gateway.ask(&format!("{name}/m"), &id).await;
        assert_eq!(status, 502, "{told}");
        assert!(told.contains("upstream_unreachable") && !told.contains(cause), "{told}");
        let lines = gateway.failures(&id);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let line = &lines[0];
        assert_eq!(
            (&line["level"], &line["kind"], &line["provider"]),
            (&json!("WARN"), &json!(kind), &json!(name))
        );
        assert!(line["cause"].as_str().unwrap().contains(cause), "{line}");
        let url = line["url"].as_str().unwrap();
        assert!(url.ends_with("/v1/chat/completions"), "{url}");
        assert!(line["response_id"].as_str().unwrap().starts_with("resp_"), "{line}");
        let counted = format!("antwort_provider_failures_total{{provider=\"{name}\",kind=\"{kind}\"}} 1\n");
        assert!(gateway.metrics().await.contains(&counted), "{counted}");
    }
}

#[tokio::test]
async fn each_time_limit_of_a_provider_is_warned_of_by_its_name() {
    let upstream = Upstream::spawn().await;
    let at = |limit: &str| (upstream.url.clone(), json!({limit: "300ms"}));
    let [first, idle, total] = ["first_byte", "idle", "total"].map(at);
    let gateway = Logged::start(
        &upstream,
        &named(&[("first", first.0, first.1), ("idle", idle.0, idle.1), ("total", total.0, total.1)]),
    )
    .await;
    for (name, reply, kind, cause) in [
        ("first", Reply::Silence, "first_byte_timeout", "timeouts.first_byte"),
        ("idle", Reply::Stream(vec![text("Hel"), Step::Hang]), "idle_timeout", "timeouts.idle"),
        ("total", Reply::Stream(vec![text("Hel"), Step::Hang]), "total_timeout", "timeouts.total"),
    ] {
        upstream.reply(reply);
        let id = format!("req_{name}");
        gateway.ask(&format!("{name}/m"), &id).await;
        assert!(eventually(async || !gateway.failures(&id).is_empty()).await);
        let line = &gateway.failures(&id)[0];
        assert_eq!((&line["level"], &line["kind"]), (&json!("WARN"), &json!(kind)), "{line}");
        assert!(line["cause"].as_str().unwrap().starts_with(cause), "{line}");
    }
}

#[tokio::test]
async fn answers_that_are_failures_are_warned_of_and_refusals_of_a_request_are_not() {
    let upstream = Upstream::spawn().await;
    let gateway = Logged::start(&upstream, &named(&[("p", upstream.url.clone(), json!({}))])).await;
    let status = |status| Reply::Status(status, vec![], r#"{"error": {"message": "secret words"}}"#.into());
    let malformed = Reply::Typed("application/json", vec![Step::Raw(b"{\"choices\": 7}".to_vec())]);
    let cut = Reply::Stream(vec![text("Hel"), Step::Wait(Duration::from_millis(50)), Step::Cut]);
    for (name, reply, kind, level, answered) in [
        ("429", status(429), "rate_limit", "WARN", Some(429)),
        ("500", status(500), "status_5xx", "WARN", Some(500)),
        ("401", status(401), "credentials", "WARN", Some(401)),
        ("400", status(400), "status_4xx", "INFO", Some(400)),
        ("malformed", malformed, "malformed", "WARN", None),
        ("cut", cut, "cut", "WARN", None),
    ] {
        upstream.reply(reply.clone());
        let id = format!("req_{name}");
        gateway.ask("p/m", &id).await;
        assert!(eventually(async || !gateway.failures(&id).is_empty()).await, "{name}");
        let line = &gateway.failures(&id)[0];
        assert_eq!((&line["level"], &line["kind"]), (&json!(level), &json!(kind)), "{line}");
        assert_eq!(line["upstream_status"].as_u64(), answered, "{line}");
        // What is passed through is told of as well.
        upstream.reply(reply);
        let id = format!("req_passed_{name}");
        let chat = json!({"model": "p/m", "messages": [{"role": "user", "content": "Hi"}], "stream": true});
        gateway.post("/v1/chat/completions", &id, &chat).await;
        if name != "malformed" {
            assert!(eventually(async || !gateway.failures(&id).is_empty()).await, "{name}");
            assert_eq!(gateway.failures(&id)[0]["kind"], kind, "{name}");
        }
    }
    let log = std::fs::read_to_string(gateway.folder.path().join("log")).unwrap();
    assert!(!log.contains("secret words"));
}
