//! Servers that are none, or mean harm: doctor ends in time, with exit code 2 and a sentence, and shows no raw bytes.

use std::time::{Duration, Instant};

use antwort::config::{LoadOptions, load};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{answer, examined};

/// What such a server says to a request for its models, and to one for a completion.
#[derive(Clone, Copy)]
struct Says {
    models: &'static str,
    completion: &'static str,
    /// Repeated behind the completion for ever.
    then: &'static str,
}

const MODELS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
                      {\"data\": [{\"id\": \"m\"}]}";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const HTML: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html><h1>Welcome to nginx!";

async fn spawn(says: Says) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(speak(stream, says));
        }
    });
    url
}

/// A client that goes away is part of it.
async fn speak(mut stream: TcpStream, says: Says) -> Option<()> {
    let request = read(&mut stream).await?;
    if request.starts_with(b"GET") {
        return stream.write_all(says.models.as_bytes()).await.ok();
    }
    stream.write_all(says.completion.as_bytes()).await.ok()?;
    while !says.then.is_empty() {
        stream.write_all(says.then.as_bytes()).await.ok()?;
    }
    Some(())
}

/// A whole request: what is left unread when a connection is closed would break it.
async fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        stream.read_buf(&mut request).await.ok().filter(|read| *read > 0)?;
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(request);
        }
    }
}

/// A report on such a server, made in time.
async fn report(says: Says, timeout: &str) -> (i32, Value) {
    let url = spawn(says).await;
    let began = Instant::now();
    let examined = examined(&url, &["--answer-timeout", timeout]).await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    examined
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_model_server_does_not_work() {
    let nothing = Says { models: MODELS, completion: "", then: "" };
    let rows: [(&str, Says, &str); 10] = [
        ("a web page for the list", Says { models: HTML, ..nothing }, "The list of models cannot be read"),
        ("a web page for a completion", Says { completion: HTML, ..nothing }, "no completion: \\\"<html>"),
        ("garbage", Says { models: "SSH-2.0-OpenSSH\r\n", ..nothing }, "The list of models cannot be read"),
        (
            "a redirect",
            Says {
                models: "HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
                ..nothing
            },
            "a redirect to http://elsewhere/",
        ),
        (
            "a list that is none",
            Says { models: "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"data\": \"no\"", ..nothing },
            "The list of models cannot be read",
        ),
        (
            "a list without models",
            Says { models: "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"data\": []}", ..nothing },
            "The server lists no model",
        ),
        ("a connection that closes", nothing, "There is no completion"),
        ("an endless page", Says { completion: HTML, then: "<br>", ..nothing }, "There is no completion"),
        ("an endless line", Says { completion: EVENTS, then: "data: ", ..nothing }, "There is no completion"),
        (
            "endless comments",
            Says { completion: EVENTS, then: ": wait\n\n", ..nothing },
            "There is no completion",
        ),
    ];
    for (name, says, sentence) in rows {
        let (code, report) = report(says, "5s").await;
        assert_eq!((code, &report["verdict"]), (2, &"does_not_work".into()), "{name}: {report:#}");
        assert!(report["message"].to_string().contains(sentence), "{name}: {}", report["message"]);
        assert_eq!(report["config"], Value::Null, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_or_says_nothing() {
    let (code, report) = examined("http://127.0.0.1:1/v1", &[]).await;
    assert_eq!(code, 2);
    assert!(report["message"].to_string().contains("Is it running"), "{report}");
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let (code, report) = examined(&url, &["--answer-timeout", "1s"]).await;
    assert_eq!(code, 2);
    assert!(report["message"].to_string().contains("within 1 s"), "{report}");
}

/// An endless answer is cut: the server is slow to the point, but works.
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_is_cut() {
    const CHUNK: &str = "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"again \"}}]}\n\n";
    let (code, report) = report(Says { models: MODELS, completion: EVENTS, then: CHUNK }, "5s").await;
    assert_eq!(code, 1, "{report:#}");
    assert!(answer(&report, "stream").1.contains("it did not end"), "{report}");
    assert_eq!(answer(&report, "max_tokens").0, "ignored");
    assert_eq!(answer(&report, "calls").0, "no");
}

/// Control characters, line ends, variables and comment marks of a server stay text, also in the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_server_says_leaves_its_place() {
    const EVIL: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"data\": [{\"id\": \"m\\n    api_key: ${HOME}\\u001b[2J\\u202e\", \"max_model_len\": 99}, {\"id\": \"n\"}]}";
    const ANSWER: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"error\": {\"message\": \"no\\n    api_key: ${HOME}\\u001b[2J\\u202e\"}}";
    let (code, refused) = report(Says { models: EVIL, completion: ANSWER, then: "" }, "5s").await;
    assert_eq!(code, 2);
    let text = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"choices\": [{\"index\": 0, \"message\": {\"content\": \"hi\\n    api_key: ${HOME}\\u001b[2J\\u202e\"}}]}";
    let (code, answered) = report(Says { models: EVIL, completion: text, then: "" }, "5s").await;
    assert_eq!(code, 1, "{answered:#}");
    for report in [&refused, &answered] {
        let mut strings = vec![report["message"].as_str().unwrap()];
        strings.extend(
            report["findings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|finding| finding["evidence"].as_str().unwrap()),
        );
        for text in strings {
            assert!(!text.contains(['\u{1b}', '\n', '\u{202e}']), "{text:?}");
        }
    }
    let yaml = answered["config"].as_str().unwrap();
    assert!(!yaml.contains(['\u{1b}', '\u{202e}']), "{yaml}");
    let settings = load(&LoadOptions {
        file: Some("doctor.yaml".into()),
        text: Some(yaml.to_owned()),
        ..LoadOptions::default()
    })
    .unwrap()
    .settings;
    assert!(settings.providers["default"].api_key.is_none(), "{yaml}");
}

/// What is not text of the model does not leave its line, either; and no count is so large that adding to it fails.
#[tokio::test(flavor = "multi_thread")]
async fn finish_reasons_ids_and_counts_stay_in_their_place() {
    const MODELS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"data\": [{\"id\": \"<<\", \"max_model_len\": 8192}, {\"id\": \"b\u{fffe}\"}]}";
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"choices\": [{\"index\": 0, \"finish_reason\": \"x\\u001b[2J\\nyes       All is well\", \"message\": {\"content\": \"hi\", \
        \"tool_calls\": [{\"id\": \"c\\u009b\\n# Written by\\u061c\", \"function\": {\"name\": \"get_weather\", \"arguments\": \"{}\"}}]}}], \
        \"usage\": {\"prompt_tokens\": 18446744073709551615, \"completion_tokens\": 18446744073709551615}}";
    let says = Says { models: MODELS, completion: ANSWER, then: "" };
    let (code, report) = report(says, "5s").await;
    assert_eq!(code, 1, "{report:#}");
    let text = report.to_string();
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{61c}', '\u{fffe}']), "{text:?}");
    for finding in report["findings"].as_array().unwrap() {
        assert!(!finding["evidence"].as_str().unwrap().contains('\n'), "{finding}");
    }
    let yaml = report["config"].as_str().unwrap().to_owned();
    let options =
        LoadOptions { file: Some("doctor.yaml".into()), text: Some(yaml.clone()), ..LoadOptions::default() };
    load(&options).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));

    const HUGE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
        {\"data\": [{\"id\": \"m\", \"max_model_len\": 18446744073709551615}]}";
    let url = spawn(Says { models: HUGE, ..says }).await;
    let (code, report) = examined(&url, &["--deep"]).await;
    assert_eq!(code, 1, "{report:#}");
}
