//! A gateway whose log nobody reads: standard error is a pipe, which is full after some lines.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;

use crate::support::eventually;
use crate::support::process::Process;
use crate::support::upstream::{Reply, Step, Upstream};

use super::text;

/// More lines than pipe and queue take.
const REQUESTS: usize = 600;

struct Unread {
    process: Process,
    http: reqwest::Client,
    /// Reads nothing unless it is asked to. Open for writing, too, so that the pipe has a reader from the beginning.
    pipe: File,
    _folder: TempDir,
}

impl Unread {
    async fn start(upstream: &Upstream) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("log");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let pipe = File::options().read(true).write(true).open(pipe).unwrap();
        let environment = [("ANTWORT_LOG", "info"), ("ANTWORT__LOG__QUEUE", "50")];
        let process = Process::start_with_environment(folder.path(), upstream, &environment).await;
        Self { process, http: reqwest::Client::new(), pipe, _folder: folder }
    }

    fn create(&self) -> reqwest::RequestBuilder {
        let body = json!({"model": "test-model", "input": "Hi", "stream": true});
        let request = self.http.post(format!("{}/v1/responses", self.process.base));
        request.header("content-type", "application/json").body(body.to_string())
    }

    /// Each of these has a line in the access log.
    async fn fill(&self) {
        for number in 0..REQUESTS {
            let answer =
                self.http.get(format!("{}/v1/responses/none", self.process.base)).send().await.unwrap();
            assert_eq!(answer.status(), 404, "request {number}");
        }
    }

    async fn dropped(&self, kind: &str) -> u64 {
        let metrics = self.http.get(format!("{}/metrics", self.process.base)).send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        let name = format!("antwort_log_lines_dropped_total{{kind=\"{kind}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&*name));
        line.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
    }
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_neither_requests_nor_the_end() {
    let upstream = Upstream::spawn().await;
    let mut gateway = Unread::start(&upstream).await;
    assert_eq!(gateway.dropped("access").await, 0);
    gateway.fill().await;
    upstream.text("Hello.");
    let stream = gateway.create().send().await.unwrap().text().await.unwrap();
    assert!(stream.contains("response.completed"), "{stream}");
    assert!(gateway.dropped("access").await > 0);
    assert_eq!(gateway.dropped("audit").await, 0);
    gateway.process.terminate();
    assert!(eventually(async || gateway.process.exit_code().is_some()).await);
    assert_eq!(gateway.process.exit_code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_a_gateway_whose_log_nobody_reads() {
    let upstream = Upstream::spawn().await;
    let mut gateway = Unread::start(&upstream).await;
    gateway.fill().await;
    upstream.reply(Reply::Stream(vec![text("Hel"), Step::Hang]));
    let mut running = gateway.create().send().await.unwrap();
    super::read_until(&mut running, "Hel").await;
    gateway.process.terminate();
    let unready = async || {
        // The listener may be closed already.
        let url = format!("{}/readyz", gateway.process.base);
        gateway.http.get(url).send().await.map_or(true, |answer| answer.status() == 503)
    };
    assert!(eventually(unready).await);
    assert_eq!(gateway.process.exit_code(), None, "it waits for its run");
    gateway.process.terminate();
    assert!(eventually(async || gateway.process.exit_code().is_some()).await);
    assert_eq!(gateway.process.exit_code(), Some(130));
}

#[tokio::test]
async fn whoever_reads_the_log_again_is_told_what_is_missing() {
    let upstream = Upstream::spawn().await;
    let gateway = Unread::start(&upstream).await;
    gateway.fill().await;
    let (read, mut pipe) = (Arc::new(Mutex::new(Vec::new())), gateway.pipe.try_clone().unwrap());
    let seen = Arc::clone(&read);
    // It ends with the test: its pipe has always a writer.
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count) = pipe.read(&mut buffer) {
            seen.lock().extend_from_slice(&buffer[..count]);
        }
    });
    let has_told = async || String::from_utf8_lossy(&read.lock()).contains("log lines were dropped");
    assert!(eventually(has_told).await);
    let text = String::from_utf8_lossy(&read.lock()).into_owned();
    let lines: Vec<serde_json::Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let told = lines.iter().find(|line| line["access"].is_u64()).unwrap_or_else(|| panic!("{text}"));
    assert!(told["access"].as_u64() > Some(0) && told["level"] == "WARN", "{told}");
}
