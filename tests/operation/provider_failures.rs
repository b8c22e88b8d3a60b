//! What the log and the metrics say of providers that fail, each in its own way.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::logged::Logged;
use super::text;
use antwort_test_support::eventually;
use antwort_test_support::network::{Server, TestCa};
use antwort_test_support::upstream::{Reply, Step, Upstream};

const FAILED: &str = "the provider failed";

/// Providers by name, URL and time limits, which are asked once; the name is the prefix of their models.
fn named(providers: &[(&str, String, Value)]) -> Value {
    let entry = |(name, url, timeouts): &(&str, String, Value)| {
        let settings = json!({"url": url, "prefix": name, "retries": {"max": 0}, "timeouts": timeouts});
        ((*name).to_owned(), settings)
    };
    json!({"providers": providers.iter().map(entry).collect::<serde_json::Map<_, _>>()})
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
    // Held, so that nobody else listens there.
    let held = TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = held.local_addr().unwrap();
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
        let lines = gateway.lines(FAILED, &id);
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
async fn a_certificate_that_is_not_accepted_is_warned_of_with_what_is_wrong_with_it() {
    let (upstream, authority) = (Upstream::spawn().await, TestCa::generate());
    let backend = reqwest::Url::parse(&upstream.url).unwrap().port().unwrap();
    let (private, expired, other) = (
        Server::tls(backend, &authority.issue("localhost"), None),
        Server::tls(backend, &authority.issue_expired("localhost"), None),
        Server::tls(backend, &authority.issue("another.test"), None),
    );
    let at = |server: &Server| format!("https://localhost:{}/v1", server.port);
    let none = json!({});
    let mut file = named(&[
        ("private", at(&private), none.clone()),
        ("expired", at(&expired), none.clone()),
        ("other", at(&other), none),
    ]);
    file["providers"]["private"]["api_key"] = "s3cret".into();
    for trusting in ["expired", "other"] {
        file["providers"][trusting]["ca_file"] = authority.file().to_str().unwrap().into();
    }
    let gateway = Logged::start(&upstream, &file).await;
    for (name, causes) in [
        ("private", &["UnknownIssuer", "not issued by a trusted authority", "tls.ca_file"][..]),
        ("expired", &["certificate expired"]),
        ("other", &["not valid for name \"localhost\"", "another.test"]),
    ] {
        let id = format!("req_{name}");
        let (status, told) = gateway.ask(&format!("{name}/m"), &id).await;
        assert!(status == 502 && told.contains("upstream_unreachable"), "{told}");
        let lines = gateway.lines(FAILED, &id);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let line = &lines[0];
        assert_eq!((&line["level"], &line["kind"]), (&json!("WARN"), &json!("tls")), "{line}");
        for cause in causes {
            assert!(line["cause"].as_str().unwrap().contains(cause), "{cause}: {line}");
            assert!(!told.contains(cause), "{told}");
        }
        let url = line["url"].as_str().unwrap();
        assert!(url.starts_with("https://localhost:") && url.ends_with("/v1/chat/completions"), "{url}");
    }
    assert!(!gateway.log().contains("s3cret"));
    assert!(upstream.requests().is_empty());
}

/// A server that accepts no connection: its queue of those that wait to be accepted is full, and stays so.
async fn deaf() -> (String, Vec<TcpStream>, TcpListener) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 100, "the queue has an end");
    }
    (address.to_string(), waiting, listener)
}

#[tokio::test]
async fn a_provider_that_accepts_no_connection_is_warned_of_with_the_limit_for_connecting() {
    let upstream = Upstream::spawn().await;
    let (address, _waiting, _listener) = deaf().await;
    let limits = json!({"connect": "300ms", "first_byte": "1m"});
    let file = named(&[("deaf", format!("http://{address}/v1"), limits)]);
    let gateway = Logged::start(&upstream, &file).await;
    let (status, told) = gateway.ask("deaf/m", "req_deaf").await;
    assert!(status == 504 && told.contains("upstream_connect_timeout"), "{told}");
    let lines = gateway.lines(FAILED, "req_deaf");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!((&lines[0]["level"], &lines[0]["kind"]), (&json!("WARN"), &json!("connect_timeout")));
    assert!(lines[0]["cause"].as_str().unwrap().contains("timeouts.connect"), "{}", lines[0]);
    assert_eq!(lines[0]["url"], format!("http://{address}/v1/chat/completions"));
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
        assert!(eventually(async || !gateway.lines(FAILED, &id).is_empty()).await);
        let line = &gateway.lines(FAILED, &id)[0];
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
        assert!(eventually(async || !gateway.lines(FAILED, &id).is_empty()).await, "{name}");
        let line = &gateway.lines(FAILED, &id)[0];
        assert_eq!((&line["level"], &line["kind"]), (&json!(level), &json!(kind)), "{line}");
        assert_eq!(line["upstream_status"].as_u64(), answered, "{line}");
        // What is passed through is told of as well.
        upstream.reply(reply);
        let id = format!("req_passed_{name}");
        let chat = json!({"model": "p/m", "messages": [{"role": "user", "content": "Hi"}], "stream": true});
        gateway.post("/v1/chat/completions", &id, &chat).await;
        if name != "malformed" {
            assert!(eventually(async || !gateway.lines(FAILED, &id).is_empty()).await, "{name}");
            assert_eq!(gateway.lines(FAILED, &id)[0]["kind"], kind, "{name}");
        }
    }
    assert!(!gateway.log().contains("secret words"));
}
