//! The HTTP layer against a scripted server on a real port.

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use antwort_protocol::error::ApiError;
use antwort_protocol::item::{Item, Message};
use antwort_protocol::request::{ReasoningRequest, TextFormat};
use antwort_response::turn::{
    CallChoice, FinishReason, HistoryItem, ModelEvent, ProviderHints, SamplingParams,
};
use antwort_telemetry::metrics::Metrics;
use server::{Server as Script, Step, json, status, stream};

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const WHOLE: &str = r#"{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;

fn request(stream: bool) -> ModelRequest {
    ModelRequest {
        model: "m".to_owned(),
        instructions: None,
        conversation: vec![HistoryItem::from(Item::Message(Message::user("hi")))],
        tools: Arc::new([]),
        tool_choice: CallChoice::Auto,
        result_format: antwort_config::ResultFormat::Text,
        parallel_tool_calls: true,
        max_output_tokens: None,
        format: TextFormat::Text,
        verbosity: None,
        reasoning: ReasoningRequest::default(),
        sampling: SamplingParams::default(),
        hints: ProviderHints::default(),
        extra: Vec::new(),
        stream,
    }
}

fn call() -> CallContext {
    let traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    CallContext { deadline: None, traceparent, request_id: "req_1".to_owned(), response_id: None }
}

fn settings(url: &str) -> ProviderSettings {
    let mut settings = ProviderSettings { url: url.to_owned(), ..ProviderSettings::default() };
    settings.api_key = Some("sk-upstream-secret".to_owned().into());
    settings.retries.initial_backoff = Duration::from_millis(1);
    settings
}

fn provider(url: &str, change: impl FnOnce(&mut ProviderSettings)) -> ChatProvider {
    let mut settings = settings(url);
    change(&mut settings);
    ChatProvider::new("p", &settings, &Metrics::new()).unwrap()
}

/// The whole answer: its events in batches, and how it ended.
async fn hear(provider: &ChatProvider, stream: bool) -> (Vec<Vec<ModelEvent>>, Result<(), ProviderError>) {
    let mut answer = provider.infer(&Arc::new(request(stream)), &call()).unwrap();
    let mut batches = Vec::new();
    loop {
        let mut events = Vec::new();
        let more = answer.next(&mut events).await;
        if !events.is_empty() {
            batches.push(events);
        }
        match more {
            Ok(true) => {}
            Ok(false) => return (batches, Ok(())),
            Err(error) => return (batches, Err(error)),
        }
    }
}

/// The same, for answers that are to be "hello".
async fn hear_hello(provider: &ChatProvider, stream: bool) {
    let (batches, end) = hear(provider, stream).await;
    let expected = [
        ModelEvent::Text { delta: "hello".to_owned(), logprobs: Vec::new() },
        ModelEvent::Finish(FinishReason::Stop),
    ];
    assert_eq!((batches.concat(), end.map_err(|error| error.kind)), (expected.to_vec(), Ok(())));
}

async fn failure_of(provider: &ChatProvider, stream: bool) -> ProviderError {
    hear(provider, stream).await.1.unwrap_err()
}

#[tokio::test]
async fn a_request_carries_our_headers_and_no_others() {
    for client in [ProviderClient::Auto, ProviderClient::Pooled] {
        let server = Script::start([stream([HELLO, STOP, DONE]), json(WHOLE)]).await;
        let provider = provider(&server.url, |settings| {
            settings.client = client;
            settings.headers.insert("x-team".to_owned(), "blue".to_owned().into());
        });
        hear_hello(&provider, true).await;
        hear_hello(&provider, false).await;
        let requests = server.requests();
        let mut names: Vec<&str> = requests[0].headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "accept",
                "authorization",
                "content-length",
                "content-type",
                "host",
                "traceparent",
                "user-agent",
                "x-request-id",
                "x-team"
            ]
        );
        assert_eq!(requests[0].line, "POST /v1/chat/completions HTTP/1.1");
        assert_eq!(requests[0].header("authorization"), "Bearer sk-upstream-secret");
        assert_eq!(requests[0].header("x-request-id"), "req_1");
        assert_eq!(requests[0].header("user-agent"), AGENT);
        assert_eq!(
            (requests[0].header("accept"), requests[1].header("accept")),
            ("text/event-stream", "application/json")
        );
        assert!(requests[0].body.contains("\"stream\":true") && !requests[1].body.contains("stream"));
    }
}

#[tokio::test]
async fn what_arrives_together_is_handed_over_together() {
    let two = format!("{HELLO}{HELLO}");
    let server = Script::start([vec![
        Step::head("text/event-stream"),
        Step::chunk(&two),
        Step::Wait(Duration::from_millis(50)),
        Step::chunk(HELLO),
        Step::Wait(Duration::from_millis(50)),
        Step::chunk(STOP),
        Step::chunk(DONE),
        Step::End,
    ]])
    .await;
    let (batches, end) = hear(&provider(&server.url, |_| {}), true).await;
    end.unwrap();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1]);
}

#[tokio::test]
async fn a_connection_serves_many_calls_even_if_the_end_comes_late() {
    let late = || {
        vec![
            Step::head("text/event-stream"),
            Step::chunk(&format!("{HELLO}{STOP}{DONE}")),
            Step::Wait(Duration::from_millis(1)),
            Step::End,
        ]
    };
    let server = Script::start([late(), late(), json(WHOLE), late()]).await;
    let provider = provider(&server.url, |_| {});
    for stream in [true, true, false, true] {
        hear_hello(&provider, stream).await;
    }
    // One, unless the machine is so busy that an end comes very late.
    assert!(server.connections() <= 2, "{} connections", server.connections());
}

#[tokio::test]
async fn the_server_decides_whether_it_streams() {
    let pretty = WHOLE.replace('{', "{\n  ");
    let server =
        Script::start([json(WHOLE), json(&pretty), stream([HELLO, STOP, DONE]), stream([HELLO, STOP])]).await;
    let provider = provider(&server.url, |_| {});
    for stream in [true, true, false, true] {
        hear_hello(&provider, stream).await;
    }
}

#[tokio::test]
async fn each_time_limit_has_its_own_failure() {
    let half =
        || vec![Step::head("text/event-stream"), Step::chunk(HELLO), Step::Wait(Duration::from_secs(9))];
    let server = Script::start([
        vec![Step::Wait(Duration::from_secs(9))],
        vec![Step::head("text/event-stream"), Step::Wait(Duration::from_secs(9))],
        half(),
        half(),
        vec![Step::Wait(Duration::from_secs(9))],
    ])
    .await;
    let short = Duration::from_millis(60);
    let first_byte = provider(&server.url, |settings| settings.timeouts.first_byte = short);
    assert_eq!(failure_of(&first_byte, true).await.kind, ProviderErrorKind::FirstByteTimeout);
    assert_eq!(failure_of(&first_byte, true).await.kind, ProviderErrorKind::FirstByteTimeout);
    let idle = provider(&server.url, |settings| settings.timeouts.idle = short);
    let (heard, end) = hear(&idle, true).await;
    assert_eq!((heard.len(), end.unwrap_err().kind), (1, ProviderErrorKind::IdleTimeout));
    let total = provider(&server.url, |settings| settings.timeouts.total = short);
    assert_eq!(failure_of(&total, true).await.kind, ProviderErrorKind::TotalTimeout);
    assert_eq!(failure_of(&total, false).await.kind, ProviderErrorKind::TotalTimeout);
    // None of them is worth a second try: the server may still be at work.
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_again_and_then_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let error = failure_of(&provider(&url, |_| {}), true).await;
    assert_eq!(error.kind, ProviderErrorKind::Connect);
    let told = ApiError::from(error);
    assert_eq!((told.kind.status(), told.code()), (502, "upstream_unreachable"));
    assert!(!told.body.message.contains("127.0.0.1"));
}

#[tokio::test]
async fn a_connection_that_takes_too_long_is_told_apart() {
    // A full queue of connections that nobody accepts: the system lets further ones wait.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || tokio::time::timeout(Duration::from_millis(50), tokio::net::TcpStream::connect(address));
    let _queue = (connect().await, connect().await, connect().await);
    let provider = provider(&format!("http://{address}/v1"), |settings| {
        settings.timeouts.connect = Duration::from_millis(60);
        settings.retries.max = 0;
    });
    assert_eq!(failure_of(&provider, true).await.kind, ProviderErrorKind::ConnectTimeout);
}

#[tokio::test]
async fn tries_end_with_the_first_event() {
    for client in [ProviderClient::Auto, ProviderClient::Pooled] {
        let cut = |head: &[&str]| {
            let chunks = head.iter().map(|chunk| Step::chunk(chunk));
            std::iter::once(Step::head("text/event-stream"))
                .chain(chunks)
                .chain([Step::Close])
                .collect::<Vec<_>>()
        };
        let busy = || status(503, &[("retry-after", "0")], r#"{"error":{"message":"busy"}}"#);
        let in_band = stream(["data: {\"error\":{\"code\":503,\"message\":\"busy\"}}\n\n"]);
        let server = Script::start([busy(), cut(&[]), stream([HELLO, STOP, DONE])]).await;
        hear_hello(&provider(&server.url, |settings| settings.client = client), true).await;
        assert_eq!(server.requests().len(), 3);

        let server = Script::start([in_band, stream([HELLO, STOP, DONE])]).await;
        hear_hello(&provider(&server.url, |settings| settings.client = client), true).await;

        let server = Script::start([cut(&[HELLO]), stream([HELLO, STOP, DONE])]).await;
        let (heard, end) = hear(&provider(&server.url, |settings| settings.client = client), true).await;
        assert_eq!((heard.len(), end.unwrap_err().kind), (1, ProviderErrorKind::Cut));
        assert_eq!(server.requests().len(), 1);

        let server = Script::start([busy(), busy(), busy(), busy()]).await;
        let error = failure_of(
            &provider(&server.url, |settings| {
                settings.client = client;
                settings.retries.max = 2;
            }),
            false,
        )
        .await;
        assert_eq!((error.kind, error.message.as_str()), (ProviderErrorKind::Status(503), "busy"));
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn an_answer_that_was_whole_survives_a_broken_connection() {
    let broken = vec![Step::head("text/event-stream"), Step::chunk(&format!("{HELLO}{STOP}")), Step::Close];
    let cut_last = vec![
        Step::head("text/event-stream"),
        Step::chunk(&format!("{HELLO}{STOP}data: {{\"choices\":[],\"usa")),
        Step::End,
    ];
    let server = Script::start([broken, cut_last]).await;
    let provider = provider(&server.url, |_| {});
    hear_hello(&provider, true).await;
    hear_hello(&provider, true).await;
}

#[tokio::test]
async fn a_long_wait_is_for_the_client_to_decide() {
    let server =
        Script::start([status(429, &[("retry-after", "223920")], r#"{"error":{"message":"slow down"}}"#)])
            .await;
    let error = failure_of(&provider(&server.url, |_| {}), true).await;
    assert_eq!(
        (error.kind, error.retry_after),
        (ProviderErrorKind::Status(429), Some(Duration::from_secs(223_920)))
    );
    let told = ApiError::from(error);
    assert_eq!((told.kind.status(), told.retry_after), (429, Some(Duration::from_secs(223_920))));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn stream_options_are_left_out_for_a_server_that_refuses_them() {
    let refusal =
        status(400, &[], r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#);
    let ok = || stream([HELLO, STOP, DONE]);
    let server = Script::start([refusal, ok(), ok()]).await;
    let provider = provider(&server.url, |settings| settings.retries.max = 0);
    hear_hello(&provider, true).await;
    hear_hello(&provider, true).await;
    let asked: Vec<bool> =
        server.requests().iter().map(|request| request.body.contains("stream_options")).collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn refusals_keep_their_class_and_lose_what_is_not_for_clients() {
    let page = "<html><body>nginx http://10.0.0.5 sk-upstream-secret</body></html>";
    let server = Script::start([
        status(401, &[], r#"{"error":{"message":"bad key sk-upstream-secret"}}"#),
        status(400, &[], r#"{"error":{"message":"no such field at http://10.0.0.5/v1 for sk-upstream-secret","code":"bad_field"}}"#),
        status(404, &[], r#"{"error":{"message":"model m not found"}}"#),
        status(400, &[], r#"{"error":{"message":"This model's maximum context length is 10 tokens"}}"#),
        status(500, &[], page),
        status(301, &[("location", "http://10.0.0.5/")], ""),
        vec![Step::head("text/html"), Step::chunk(page), Step::End],
        vec![Step::head("text/event-stream"), Step::chunk(page), Step::End],
    ])
    .await;
    let provider = provider(&server.url, |_| {});
    let expected = [
        (502, "upstream_auth_error"),
        (400, "bad_field"),
        (404, "model_not_found"),
        (400, "context_length_exceeded"),
        (502, "upstream_error"),
        (502, "upstream_malformed"),
        (502, "upstream_malformed"),
        (502, "upstream_malformed"),
    ];
    for (status, code) in expected {
        let told = ApiError::from(failure_of(&provider, true).await);
        assert_eq!((told.kind.status(), told.code()), (status, code), "{told}");
        for secret in ["sk-", "10.0.0.5", "nginx", "<"] {
            assert!(!told.body.message.contains(secret), "{told}");
        }
    }
}

#[tokio::test]
async fn sizes_are_limited() {
    let endless = || {
        vec![
            Step::head("text/event-stream"),
            Step::chunk(&"x".repeat(5000)),
            Step::Wait(Duration::from_secs(9)),
        ]
    };
    let server = Script::start([endless(), json(&format!("{}{WHOLE}", " ".repeat(5000)))]).await;
    let provider = provider(&server.url, |settings| {
        settings.max_event_bytes = 1000;
        settings.max_answer_bytes = 1000;
    });
    assert_eq!(failure_of(&provider, true).await.kind, ProviderErrorKind::Malformed);
    assert_eq!(failure_of(&provider, false).await.kind, ProviderErrorKind::Malformed);
}

#[tokio::test]
async fn dropping_an_answer_ends_the_call() {
    let server = Script::start([vec![
        Step::head("text/event-stream"),
        Step::chunk(HELLO),
        Step::Wait(Duration::from_secs(9)),
    ]])
    .await;
    let provider = provider(&server.url, |_| {});
    let mut answer = provider.infer(&Arc::new(request(true)), &call()).unwrap();
    assert!(answer.next(&mut Vec::new()).await.unwrap());
    let dropped = Instant::now();
    drop(answer);
    server.hung_up().await;
    assert!(dropped.elapsed() < Duration::from_millis(100));
}

#[tokio::test]
async fn models_are_listed_however_they_are_written() {
    let list = r#"{"object":"list","data":[{"id":"org/m:7b","created":1.0,"owned_by":"o"},{"id":"n","created":null}]}"#;
    let server = Script::start([json(list), json("[]"), status(404, &[], "not here")]).await;
    let provider = provider(&server.url, |_| {});
    let models = provider.models().await.unwrap();
    let model = |id: &str, created, owned_by: &str| ModelInfo {
        id: id.to_owned(),
        created,
        owned_by: owned_by.to_owned(),
    };
    assert_eq!(models, [model("org/m:7b", 1, "o"), model("n", 0, "")]);
    assert_eq!(server.requests()[0].line, "GET /v1/models HTTP/1.1");
    assert_eq!(provider.models().await.unwrap_err().kind, ProviderErrorKind::Malformed);
    assert_eq!(provider.models().await.unwrap_err().kind, ProviderErrorKind::Status(404));
}

#[tokio::test]
async fn what_is_passed_through_keeps_its_bytes() {
    let odd = "data: {\"odd\" : 1}\n\n";
    let mistake = r#"{"error":{"message":"bad input","param":"input"}}"#;
    let server = Script::start([
        stream([odd, DONE]),
        status(400, &[], mistake),
        status(429, &[("retry-after", "7")], mistake),
        status(401, &[], mistake),
        status(502, &[], "<html>nginx</html>"),
        vec![Step::head("text/event-stream"), Step::chunk(odd), Step::Wait(Duration::from_secs(9))],
    ])
    .await;
    let provider = provider(&server.url, |settings| settings.timeouts.idle = Duration::from_millis(60));
    let pass = async || {
        provider
            .pass_through(
                "/embeddings",
                ProxiedBody { bytes: Bytes::from_static(b"{\"model\": \"m\"}"), form: None },
                &call(),
            )
            .await
    };
    let read = async |passed: ProxiedResponse| {
        let collected = http_body_util::BodyExt::collect(passed.body).await;
        collected.map(|body| String::from_utf8(body.to_bytes().to_vec()).unwrap()).map_err(|_| passed.status)
    };
    let passed = pass().await.unwrap();
    assert_eq!((passed.status, passed.content_type.as_str()), (200, "text/event-stream"));
    assert_eq!(read(passed).await.unwrap(), format!("{odd}{DONE}"));
    let passed = pass().await.unwrap();
    assert_eq!((passed.status, read(passed).await.unwrap().as_str()), (400, mistake));
    assert_eq!(pass().await.unwrap().retry_after.as_deref(), Some("7"));
    assert_eq!(ApiError::from(pass().await.err().unwrap()).code(), "upstream_auth_error");
    assert_eq!(ApiError::from(pass().await.err().unwrap()).code(), "upstream_error");
    let stalled = pass().await.unwrap();
    assert_eq!(read(stalled).await, Err(200));
    let requests = server.requests();
    assert_eq!(
        (requests[0].line.as_str(), requests[0].body.as_str()),
        ("POST /v1/embeddings HTTP/1.1", "{\"model\": \"m\"}")
    );
}
