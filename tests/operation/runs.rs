//! `antwort runs`, as a process, against a running gateway.

use std::process::{Command, Output, Stdio};

use antwort::config::ModelPrice;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use antwort_test_support::configured;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::process::peak_memory;
use antwort_test_support::upstream::{Reply, Upstream};

/// Runs the binary with nothing of the test's environment but this.
async fn runs(words: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.arg("runs").args(words).current_dir("/").env_clear().stdin(Stdio::null());
    command.envs(environment.iter().copied());
    // The gateway that it asks lives in this runtime.
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refusal(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A run of two turns with three calls, of which one fails; and one that a limit stops.
async fn two_runs(upstream: &Upstream, gateway: &Gateway) -> [Value; 2] {
    let ask = |extra: Value| {
        let mut body = json!({"model": "test-model", "input": "Go.", "tools": [{"type": "mcp", "server_label": "antwort"}]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    upstream
        .reply(Reply::Calls(vec![("slow", json!({})), ("fails", json!({})), ("noop", json!({}))]))
        .text("All \u{1b}[31mdone.");
    let first = gateway.create(ask(json!({}))).await;
    upstream.reply(Reply::Calls(vec![("noop", json!({}))]));
    let second = gateway.create(ask(json!({"antwort": {"limits": {"max_turns": 1}}}))).await;
    [first, second]
}

async fn priced(upstream: &Upstream) -> Gateway {
    let price = ModelPrice { input: 1.0, cached_input: None, output: 10.0 };
    let gateway = Gateway::with_upstream(upstream)
        .provider(|provider| provider.prices = [("test-model".to_owned(), price)].into());
    gateway.probe().0.spawn().await
}

#[tokio::test]
async fn a_list_has_a_row_for_each_run_and_is_filtered_by_the_gateway() {
    let upstream = Upstream::spawn().await;
    let gateway = priced(&upstream).await;
    let [first, second] = two_runs(&upstream, &gateway).await;
    let table = out(&runs(&["list", "--url", &gateway.base], &[("COLUMNS", "200")]).await);
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(
        lines[1].starts_with(second["id"].as_str().unwrap()) && lines[1].contains("incomplete: "),
        "{table}"
    );
    assert!(
        lines[2].starts_with(first["id"].as_str().unwrap()) && lines[2].contains("  completed "),
        "{table}"
    );
    for part in ["test-model", "  2  ", "  3  ", "$0.00", " UTC  All \\u{1b}[31mdone."] {
        assert!(lines[2].contains(part), "{part} in\n{table}");
    }
    let words = ["list", "--url", &format!("{}/v1/", gateway.base), "--status", "completed", "--limit", "1"];
    let table = out(&runs(&words, &[]).await);
    assert!(table.contains(first["id"].as_str().unwrap()) && table.lines().count() == 2, "{table}");
    let json = out(&runs(&[&words[..], &["--json"]].concat(), &[]).await);
    let page: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&page["data"][0]["object"], &page["data"][0]["id"]),
        (&json!("response.summary"), &first["id"])
    );
    let none = out(&runs(&["list", "--url", &gateway.base, "--model", "other"], &[]).await);
    assert_eq!(none, "no responses\n");
}

#[tokio::test]
async fn a_run_is_drawn_with_its_turns_calls_and_limits() {
    let upstream = Upstream::spawn().await;
    let gateway = priced(&upstream).await;
    let [first, second] = two_runs(&upstream, &gateway).await;
    let id = first["id"].as_str().unwrap();
    let picture = out(&runs(&["show", id, "--url", &gateway.base], &[("COLUMNS", "110")]).await);
    let begins = [
        "turn 1  default test-model",
        "  slow (probe)",
        "  fails (probe)",
        "  noop (probe)",
        "turn 2  default",
    ];
    for begin in begins {
        assert!(picture.contains(&format!("\n{begin}")), "{begin} in\n{picture}");
    }
    assert!(picture.starts_with(id) && picture.contains("completed  test-model  "), "{picture}");
    let failed = picture.lines().find(|line| line.starts_with("  fails")).unwrap();
    assert!(failed.contains('✗') && failed.contains("FAILED "), "{picture}");
    assert!(!picture.contains('\u{1b}'), "a pipe gets no colours\n{picture}");
    assert!(picture.lines().all(|line| line.chars().count() <= 110), "{picture}");
    // 200 ms of almost all.
    let bar =
        |begin: &str| picture.lines().find(|line| line.starts_with(begin)).unwrap().matches('▆').count();
    assert!(bar("  slow") > 3 * bar("  noop"), "{picture}");

    let ascii =
        out(&runs(&["show", second["id"].as_str().unwrap(), "--url", &gateway.base], &[("LANG", "C")]).await);
    assert!(ascii.is_ascii() && ascii.contains("\nlimit max_turns reached after "), "{ascii}");
    let json = out(&runs(&["show", id, "--url", &gateway.base, "--json"], &[]).await);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["object"], "response.trace");
}

#[tokio::test]
async fn the_gateway_is_found_by_listen_and_asked_with_the_key() {
    let upstream = Upstream::spawn().await;
    let settings = configured::settings(&upstream, &[("ANTWORT_API_KEY", "sk-right")], "");
    let gateway = Gateway::with(settings).spawn().await;
    let listen = gateway.base.strip_prefix("http://").unwrap();
    let with =
        |key: &'static str| [("ANTWORT_LISTEN", listen.to_owned()), ("ANTWORT_API_KEY", key.to_owned())];
    let asked = async |key, words: &[&str]| {
        let environment = with(key);
        let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        runs(words, &environment).await
    };
    assert_eq!(out(&asked("sk-right", &["list"]).await), "no responses\n");
    let refused = refusal(&asked("sk-wrong", &["list"]).await);
    assert!(refused.starts_with("antwort: the gateway refuses: 401 invalid_api_key: "), "{refused}");
    let missing = refusal(&asked("sk-right", &["show", "resp_none\u{7}/../x"]).await);
    assert!(
        missing.starts_with("antwort: the gateway refuses: 404 ") && !missing.contains('\u{7}'),
        "{missing}"
    );
}

#[tokio::test]
async fn what_is_no_gateway_is_said() {
    let closed = refusal(&runs(&["list", "--url", "http://127.0.0.1:9"], &[]).await);
    assert!(closed.starts_with("antwort: no answer from http://127.0.0.1:9: "), "{closed}");
    for url in ["ftp://x", "nonsense"] {
        let wrong = refusal(&runs(&["list", "--url", url], &[]).await);
        assert!(wrong.contains("expected an http:// or https:// URL"), "{wrong}");
    }
    let upstream = Upstream::spawn().await;
    let other = refusal(&runs(&["list", "--url", &upstream.url], &[]).await);
    assert!(other.contains("not from a gateway") || other.contains("not a gateway's"), "{other}");
}

/// Answers each request with one of these, the whole of which is on the wire, and closes the connection. Returns the URL.
async fn answering(answers: Vec<String>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "the task ends with its last answer")]
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).await.unwrap() > 0, "there is a request");
            // Whoever has read enough may have gone.
            _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

fn trace() -> String {
    let body = r#"{"id":"resp_1","started_at":1,"ended_at":2,"turns":[],"waits":[],"limits":[]}"#;
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_said_to_in_a_list_a_run_and_a_refusal() {
    let cut = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 1000\r\n\r\n{{\"status\":\"comp");
    for (words, answers) in [
        (&["list"][..], vec![cut("200 OK")]),
        (&["list"], vec![cut("500 Oops")]),
        (&["show", "resp_1"], vec![cut("200 OK")]),
        (&["show", "resp_1"], vec![trace(), cut("200 OK")]),
        (&["show", "resp_1"], vec![trace(), cut("500 Oops")]),
    ] {
        let url = answering(answers.clone()).await;
        let said = refusal(&runs(&[words, &["--url", &url]].concat(), &[]).await);
        assert!(said.starts_with(&format!("antwort: no answer from {url}: ")), "{answers:?}: {said}");
    }
}

#[tokio::test]
async fn a_refusal_that_is_too_long_is_said_to_be() {
    let long = format!("HTTP/1.1 500 Oops\r\n\r\n{}", " ".repeat((8 << 20) + 1));
    let url = answering(vec![trace(), long]).await;
    let said = refusal(&runs(&["show", "resp_1", "--url", &url], &[]).await);
    assert_eq!(said, format!("antwort: {url} sends more than any gateway does\n"));
}

#[tokio::test]
async fn the_output_of_a_run_is_not_held_in_memory() {
    const OUTPUT: usize = 96 << 20;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
    command.args(["runs", "show", "resp_1", "--url", &url]).current_dir("/").env_clear().stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = [0; 4096];
    let (mut stream, _) = listener.accept().await.unwrap();
    assert!(stream.read(&mut head).await.unwrap() > 0, "there is a request");
    stream.write_all(trace().as_bytes()).await.unwrap();
    drop(stream);
    let (mut stream, _) = listener.accept().await.unwrap();
    assert!(stream.read(&mut head).await.unwrap() > 0, "there is a request");
    let begin = "HTTP/1.1 200 OK\r\n\r\n{\"output\":[{\"text\":\"";
    stream.write_all(begin.as_bytes()).await.unwrap();
    for _ in 0..OUTPUT >> 16 {
        stream.write_all(&[b'x'; 1 << 16]).await.unwrap();
    }
    // All but what buffers of the system hold has been read.
    let peak = peak_memory(child.id());
    stream.write_all(b"\"}],\"status\":\"completed\",\"model\":\"m\"}").await.unwrap();
    drop(stream);
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert!(out(&output).starts_with("resp_1"), "{output:?}");
    assert!(peak < OUTPUT, "{peak} bytes");
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "the task ends with the answer that is not read")]
    let endless = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 4096];
        assert!(stream.read(&mut head).await.unwrap() > 0, "there is a request");
        let mut sent = 0;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let chunk = vec![b'['; 64 << 10];
        while stream.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    let said = refusal(&runs(&["list", "--url", &url], &[]).await);
    assert!(said.contains("sends more than any gateway does"), "{said}");
    let sent = endless.await.unwrap();
    // What buffers of the system took, too.
    assert!(sent < 32 << 20, "{sent} bytes were taken");
}
