//! What `antwort prompt` tells who sits at a terminal: `script` of util-linux makes one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish, usage};

/// Runs a shell command at a terminal, with `$antwort` as the binary; returns what the terminal has got.
async fn at_a_terminal(folder: &Path, command: &str, environment: &[(&str, &str)]) -> String {
    let mut script = Command::new("script");
    script
        .args(["--quiet", "--return", "--command", command, "/dev/null"])
        .current_dir(folder)
        .env_clear()
        .envs([
            ("PATH", "/usr/bin:/bin"),
            ("SHELL", "/bin/sh"),
            ("TERM", "xterm"),
            ("antwort", env!("CARGO_BIN_EXE_antwort")),
        ])
        .envs(environment.iter().copied())
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || script.output().unwrap()).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text.replace("\r\n", "\n")
}

fn slow_answer() -> Reply {
    Reply::Stream(vec![
        Step::Wait(Duration::from_millis(900)),
        chunk(json!({"content": "It is "})),
        chunk(json!({"content": "42."})),
        finish("stop"),
        usage(100, 20),
        done(),
    ])
}

/// A prompt that has a tool run, and an answer that is waited for.
fn prompt(upstream: &Upstream, folder: &Path, more: &str) -> String {
    std::fs::write(folder.join("tools.json"), json!([{"name": "calculate"}]).to_string()).unwrap();
    upstream.reply(Reply::Calls(vec![("calculate", json!({"expression": "6*7"}))])).reply(slow_answer());
    format!(
        "\"$antwort\" prompt --base-url {} --protocol tools --tools-file tools.json --execute-tools --prompt '6*7?' {more}",
        upstream.url
    )
}

#[tokio::test]
async fn a_terminal_sees_turns_calls_times_and_tokens_and_a_file_only_the_answer() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let command = prompt(&upstream, folder.path(), "> answer");
    let seen = at_a_terminal(folder.path(), &command, &[]).await;
    for part in [
        "\u{1b}[2mturn 1  first output after ",
        "  ✓ calculate {\"expression\":\"6*7\"}",
        "\r\u{1b}[K\u{1b}[2mturn 2  waiting for the model  ",
        "turn 2  first output after ",
        "2 turns  1 call  ",
        " tokens\u{1b}[0m\n",
    ] {
        assert!(seen.contains(part), "{part:?} in {seen:?}");
    }
    assert!(!seen.contains("turn 2  first output after 0 ms"), "{seen:?}");
    assert!(!seen.contains("It is 42."), "{seen:?}");
    let answer = std::fs::read_to_string(folder.path().join("answer")).unwrap();
    assert!(answer.starts_with("Final response: It is 42.\nTokens: "), "{answer:?}");
    assert!(!answer.contains('\u{1b}') && !answer.contains("turn"), "{answer:?}");
}

#[tokio::test]
async fn text_that_is_streamed_is_on_lines_of_its_own() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let command = prompt(&upstream, folder.path(), "--stream");
    let seen = at_a_terminal(folder.path(), &command, &[("NO_COLOR", "1")]).await;
    assert!(!seen.contains("\u{1b}[2m"), "{seen:?}");
    // What a terminal shows in the end: what was wiped is gone.
    let shown: Vec<_> = seen.lines().map(|line| line.rsplit("\r\u{1b}[K").next().unwrap()).collect();
    assert!(shown.contains(&"It is 42."), "{seen:?}");
    assert!(shown.iter().any(|line| line.starts_with("turn 2  first output")), "{seen:?}");
    assert!(!shown.iter().any(|line| line.contains("waiting")), "{seen:?}");
}

#[tokio::test]
async fn a_dumb_terminal_gets_lines_only_and_no_terminal_nothing() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let command = prompt(&upstream, folder.path(), "");
    let seen = at_a_terminal(folder.path(), &command, &[("TERM", "dumb")]).await;
    assert!(!seen.contains('\u{1b}') && !seen.contains('\r') && seen.contains("turn 1  first"), "{seen:?}");
    let command = prompt(&upstream, folder.path(), "2> errors");
    let seen = at_a_terminal(folder.path(), &command, &[]).await;
    assert!(seen.contains("Final response: It is 42.\n") && !seen.contains("turn"), "{seen:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("errors")).unwrap(), "");
}

/// A server that answers everything with these bytes.
async fn server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 1 << 16];
            _ = stream.read(&mut request).await;
            _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn a_terminal_obeys_nothing_that_a_server_says() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n\u{1b}[2J\u{9b}31mno\u{202e}";
    let no_json = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\u{1b}[2Jno";
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
                {\"data\": [], \"note\": \"\u{9b}31m\u{202e}\u{7f}\"}";
    for (answer, shown) in [
        (refuses, "\\u{1b}[2J\\u{9b}31mno\\u{202e}"),
        (no_json, "the response is not an embedding"),
        (json, "\"\\u009b31m\\u202e\\u007f\""),
    ] {
        let url = server(answer).await;
        let command = format!(
            "\"$antwort\" prompt --base-url {url} --model m --protocol embeddings --prompt x --output json || true"
        );
        let seen = at_a_terminal(folder.path(), &command, &[("NO_COLOR", "1")]).await;
        assert!(seen.contains(shown), "{shown} in {seen:?}");
        assert!(!seen.contains(['\u{9b}', '\u{202e}', '\u{7f}']) && !seen.contains("\u{1b}[2J"), "{seen:?}");
    }
}

#[tokio::test]
async fn a_command_ends_when_nobody_reads_its_output_and_fails_when_it_is_lost() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let mut steps = vec![chunk(json!({"content": "One.\n"}))];
    for _ in 0..3 {
        steps.extend([Step::Wait(Duration::from_millis(200)), chunk(json!({"content": "More.\n"}))]);
    }
    steps.push(Step::Wait(Duration::from_secs(60)));
    upstream.reply(Reply::Stream(steps));
    let command =
        format!("\"$antwort\" prompt --base-url {} --model m --stream --prompt x | head -n 1", upstream.url);
    let began = std::time::Instant::now();
    let seen = at_a_terminal(folder.path(), &command, &[("TERM", "dumb")]).await;
    assert!(seen.contains("One.\n") && began.elapsed() < Duration::from_secs(30), "{seen:?}");

    let command = "\"$antwort\" config show --defaults > /dev/full; echo code $?";
    let seen = at_a_terminal(folder.path(), command, &[]).await;
    assert!(
        seen.contains("standard output cannot be written: No space left") && seen.contains("code 1"),
        "{seen:?}"
    );
}
