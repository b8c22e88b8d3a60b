//! A gateway whose log is read.

use serde_json::{Value, json};
use tempfile::TempDir;

use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

/// A gateway as a process of its own.
pub(super) struct Logged {
    process: Process,
    _folder: TempDir,
    http: reqwest::Client,
}

impl Logged {
    /// One with these settings, which may reach this machine.
    pub async fn start(upstream: &Upstream, settings: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings.clone();
        settings["egress"]["allow"] = json!(["127.0.0.1", "localhost"]);
        std::fs::write(folder.path().join("antwort.yaml"), settings.to_string()).unwrap();
        let path = std::env::var("PATH").unwrap();
        let environment = [("ANTWORT_LOG", "info"), ("PATH", path.as_str())];
        let process = Process::start_with_environment(folder.path(), upstream, &environment).await;
        Self { process, _folder: folder, http: reqwest::Client::new() }
    }

    pub async fn post(&self, path: &str, id: &str, body: &Value) -> (u16, String) {
        let request = self.http.post(format!("{}{path}", self.process.base)).header("x-request-id", id);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap_or_default())
    }

    pub async fn ask(&self, model: &str, id: &str) -> (u16, String) {
        self.post("/v1/responses", id, &json!({"model": model, "input": "Hi", "stream": true})).await
    }

    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The lines of this request with this message.
    pub fn lines(&self, message: &str, id: &str) -> Vec<Value> {
        self.with(message, "request_id", id)
    }

    /// The lines about this MCP server with this message.
    pub fn of_server(&self, message: &str, server: &str) -> Vec<Value> {
        self.with(message, "server", server)
    }

    fn with(&self, message: &str, field: &str, value: &str) -> Vec<Value> {
        let log = self.log();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter(|line| line["message"] == message && line[field] == value).collect()
    }

    pub async fn metrics(&self) -> String {
        self.http.get(format!("{}/metrics", self.process.base)).send().await.unwrap().text().await.unwrap()
    }
}
