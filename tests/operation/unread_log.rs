//! A gateway whose log nobody reads: standard error is a pipe, which is full after some lines.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use serde_json::{Value, json};
use tempfile::TempDir;

use antwort_test_support::eventually;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Step, Upstream};

use super::text;

/// More lines than pipe and queue take.
const REQUESTS: usize = 600;

struct Unread {
    process: Process,
    http: reqwest::Client,
    _folder: TempDir,
    /// Without it the pipe could not be opened for writing. Is read when a test asks for lines.
    reader: File,
    read: Vec<u8>,
}

fn nonblocking() -> OpenOptions {
    let mut options = File::options();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Makes a pipe; returns its path, and its end for reading.
fn pipe(folder: &Path) -> (PathBuf, File) {
    let path = folder.join("log");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = nonblocking().read(true).open(&path).unwrap();
    (path, reader)
}

/// Writes to a pipe until it is full.
fn fill(path: &Path) {
    let mut pipe = nonblocking().write(true).open(path).unwrap();
    // A pipe takes small writes as a whole or not at all.
    for bytes in [&[b'x'; 4096][..], b"x"] {
        let full = loop {
            if let Err(error) = pipe.write_all(bytes) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }
}

impl Unread {
    async fn start(upstream: &Upstream) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (_, reader) = pipe(folder.path());
        let environment = [("ANTWORT_LOG", "info"), ("ANTWORT__LOG__QUEUE", "50")];
        let process = Process::start_with_environment(folder.path(), upstream, &environment).await;
        Self { process, http: reqwest::Client::new(), _folder: folder, reader, read: Vec::new() }
    }

    /// The lines in what was read up to now, with what can be read.
    fn lines(&mut self) -> Vec<Value> {
        match self.reader.read_to_end(&mut self.read) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let text = String::from_utf8_lossy(&self.read);
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn create(&self) -> reqwest::RequestBuilder {
        let tools = json!([{"type": "antwort:calculate"}]);
        let body = json!({"model": "test-model", "input": "Hi", "stream": true, "tools": tools});
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
    gateway.process.terminate();
    assert!(eventually(async || gateway.process.exit_code().is_some()).await);
    assert_eq!(gateway.process.exit_code(), Some(0));
}

#[tokio::test]
async fn calls_of_tools_behind_a_flood_are_in_the_audit_log() {
    let upstream = Upstream::spawn().await;
    let mut gateway = Unread::start(&upstream).await;
    gateway.fill().await;
    upstream.reply(Reply::Calls(vec![("calculate", json!({"expression": "6*7"}))])).text("42.");
    let stream = gateway.create().send().await.unwrap().text().await.unwrap();
    assert!(stream.contains("response.completed"), "{stream}");
    // More requests than the queue takes came before the call, and come behind it.
    gateway.fill().await;
    assert_eq!(gateway.dropped("audit").await, 0);
    let mut audit = Vec::new();
    let is_whole = async || {
        audit = gateway.lines();
        audit.retain(|line| line["target"] == "antwort::audit");
        audit.len() >= 2
    };
    assert!(eventually(is_whole).await, "{audit:?}");
    let records: Vec<_> = audit.iter().map(|line| (line["record"].as_str(), line["tool"].as_str())).collect();
    assert_eq!(records, [(Some("decision"), Some("calculate")), (Some("call"), Some("calculate"))]);
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
async fn whoever_reads_the_log_again_is_told_what_is_missing_since_the_last_time() {
    let upstream = Upstream::spawn().await;
    let mut gateway = Unread::start(&upstream).await;
    let mut told = Vec::new();
    for times in 1..=2 {
        gateway.fill().await;
        assert!(gateway.dropped("access").await > told.iter().sum());
        // Their sum is what the metric says, which has a line in the log for each request, too.
        let is_told = async || {
            let lines = gateway.lines();
            told = lines.iter().filter_map(|line| line["access"].as_u64()).collect();
            told.len() >= times && told.iter().sum::<u64>() == gateway.dropped("access").await
        };
        let is_told = eventually(is_told).await;
        assert!(is_told, "round {times}: {told:?} of {}", gateway.dropped("access").await);
    }
    let lines = gateway.lines();
    assert!(lines.iter().filter(|line| line["access"].is_u64()).all(|line| line["level"] == "WARN"));
}

/// Starts a program whose standard error is a pipe that is full; its exit code.
async fn exit_code(folder: &Path, words: &[&str], environment: &[(&str, &str)]) -> i32 {
    let (path, _reader) = pipe(folder);
    fill(&path);
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.args(words).current_dir(folder).env_clear().envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(File::options().write(true).open(&path).unwrap()).spawn().unwrap();
    let ends = eventually(async || child.try_wait().unwrap().is_some()).await;
    // Nothing happens if it has ended.
    _ = child.kill();
    let status = child.wait().unwrap();
    assert!(ends, "{words:?} does not end");
    status.code().unwrap()
}

#[tokio::test]
async fn errors_that_nobody_reads_do_not_keep_a_command_from_its_end() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let environment = [
        ("ANTWORT_LISTEN", listen.as_str()),
        ("ANTWORT_STORE_URL", "memory:"),
        ("ANTWORT_UPSTREAM_URL", "http://127.0.0.1:9/v1"),
    ];
    let invalid = [("ANTWORT_LISTEN", "nowhere"), ("ANTWORT_LOG", "=")];
    for (words, environment, expected) in [
        (&["serve"][..], &environment[..], 1),
        (&["demo"], &environment, 1),
        (&["config", "check"], &invalid, 2),
        (&["serve"], &invalid, 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(exit_code(folder.path(), words, environment).await, expected, "{words:?}");
    }
}
