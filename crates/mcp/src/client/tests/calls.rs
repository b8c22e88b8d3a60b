//! Calls: how long they may be silent, what they report, how they are given up, and what servers ask meanwhile.

use super::server::{Seen, Server, event, events, shake};
use super::*;
use crate::sampler::{SampleAnswer, SampleContent, SampleRequest};

const SHORT: Duration = Duration::from_millis(300);

/// Never answers; what it has to say about a call it says at once.
async fn silent() -> Arc<Server> {
    let open: Mutex<Vec<tokio::sync::mpsc::UnboundedSender<String>>> = Mutex::default();
    Server::calling(move |seen: Seen| {
        let (writer, response) = events();
        let waits = seen.body["params"]["name"] == "json";
        if !waits {
            open.lock().push(writer);
        }
        async move {
            if waits {
                std::future::pending::<()>().await;
            }
            response
        }
    })
    .await
}

#[tokio::test]
async fn silence_ends_a_call_and_the_server_is_told() {
    let server = silent().await;
    let connection = connect(&server.url).await;
    let arguments = Arguments::new();

    for (nth, name) in ["json", "events"].into_iter().enumerate() {
        let call = RemoteCall { idle: SHORT, ..call(name, &arguments) };
        let error = connection.call_tool(call, &Progress::none()).await.unwrap_err();

        assert!(matches!(error, McpError::Timeout { after: SHORT, .. }), "{error:?}");
        eventually("it is cancelled", || server.asked("notifications/cancelled").len() == nth + 1).await;
        let id = &server.asked("tools/call")[nth].body["id"];
        assert_eq!(&server.asked("notifications/cancelled")[nth].body["params"]["requestId"], id);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    let server = silent().await;
    let connection = connect(&server.url).await;

    let dropped = tokio::time::timeout(SHORT, call_tool(&*connection, "events")).await;
    assert!(dropped.is_err());

    eventually("it is cancelled", || server.asked("notifications/cancelled").len() == 1).await;
    let id = &server.asked("tools/call")[0].body["id"];
    assert_eq!(&server.asked("notifications/cancelled")[0].body["params"]["requestId"], id);
}

#[tokio::test]
async fn progress_is_reported_and_keeps_a_call_alive() {
    let server = Server::calling(|seen: Seen| async move {
        let (writer, response) = events();
        TaskTracker::new().spawn(async move {
            let token = seen.body["params"]["_meta"]["progressToken"].clone();
            for step in 1..=5 {
                tokio::time::sleep(SHORT).await;
                let message = (step == 3).then_some("half");
                let params =
                    json!({ "progressToken": token, "progress": step, "total": 5, "message": message });
                let notice =
                    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
                writer.send(event(&notice)).unwrap();
            }
            writer.send(event(&seen.result(&text("done")))).unwrap();
        });
        response
    })
    .await;
    let connection = connect(&server.url).await;
    let (listener, mut reports) = tokio::sync::mpsc::channel(16);
    let arguments = Arguments::new();

    // Longer than it takes a busy machine to report, and shorter than the call.
    let call = RemoteCall { idle: SHORT * 4, ..call("long", &arguments) };
    let result = connection.call_tool(call, &Progress::with_sender(0, listener)).await.unwrap();

    assert_eq!(says(&result), "done");
    let mut all = Vec::new();
    while let Ok((_, report)) = reports.try_recv() {
        all.push(report);
    }
    assert_eq!(all, ["1/5", "2/5", "half", "4/5", "5/5"]);
}

#[tokio::test]
async fn the_key_and_the_trace_of_a_call_go_along() {
    let server = Server::calling(|seen: Seen| async move { seen.ok(&text("")) }).await;
    let connection = connect(&server.url).await;
    let arguments = Arguments::from_iter([("b".to_owned(), json!([1, { "z": 1, "a": 2 }]))]);
    let meta = CallMeta {
        idempotency_key: Some("k1"),
        traceparent: Some("00-1-2-01"),
        context: None,
        callback: None,
    };

    connection.call_tool(RemoteCall { meta, ..call("x", &arguments) }, &Progress::none()).await.unwrap();
    call_tool(&*connection, "y").await.unwrap();

    let calls = server.asked("tools/call");
    let sent = &calls[0].body["params"];
    assert_eq!(sent["arguments"], json!({ "b": [1, { "z": 1, "a": 2 }] }));
    assert_eq!(sent["_meta"]["antwort/idempotency-key"], "k1");
    assert_eq!(sent["_meta"]["traceparent"], "00-1-2-01");
    assert_eq!(calls[0].header("traceparent"), Some("00-1-2-01"));
    assert!(sent["_meta"]["progressToken"].is_number());
    assert_eq!(calls[1].body["params"]["_meta"].as_object().unwrap().len(), 1);
    assert_eq!(calls[1].header("traceparent"), None);
}

#[tokio::test]
async fn calls_at_the_same_time_get_their_own_answers() {
    let server = Server::calling(|seen: Seen| async move {
        let name = seen.body["params"]["name"].as_str().unwrap().to_owned();
        tokio::time::sleep(Duration::from_millis(50 - name.parse::<u64>().unwrap())).await;
        seen.ok(&text(&name))
    })
    .await;
    let connection = connect(&server.url).await;

    let names: Vec<String> = (0..50).map(|nth| nth.to_string()).collect();
    let calls = names.iter().map(|name| call_tool(&*connection, name));
    let results = futures_util::future::join_all(calls).await;

    for (name, result) in names.iter().zip(results) {
        assert_eq!(says(&result.unwrap()), name);
    }
}

#[tokio::test]
async fn what_is_unknown_in_a_result_spoils_nothing_else() {
    let server = Server::calling(|seen: Seen| async move {
        seen.ok(&json!({ "isError": true, "structuredContent": { "n": 1 }, "content": [
            { "type": "text", "text": "a", "annotations": { "audience": ["martian"] } },
            { "type": "hologram", "text": "b" },
            { "type": "image", "data": "aa", "mimeType": "image/png" },
            { "type": "image", "data": 7 },
            { "type": "resource", "resource": { "uri": "f:a", "text": "c", "mimeType": "text/x" } },
            { "type": "resource", "resource": { "uri": "f:b", "blob": "bb" } },
            { "type": "resource_link", "uri": "f:c", "name": "c" },
            { "type": "audio", "data": "cc", "mimeType": "audio/wav" },
            17,
        ] }))
    })
    .await;
    let connection = connect(&server.url).await;

    let result = call_tool(&*connection, "x").await.unwrap();

    assert!(result.is_error);
    assert_eq!(result.structured, Some(json!({ "n": 1 })));
    let (png, wav) = ("image/png".to_owned(), "audio/wav".to_owned());
    let expected = [
        RemoteContent::Text("a".to_owned()),
        RemoteContent::Unknown("hologram".to_owned()),
        RemoteContent::Image { mime_type: png, data: "aa".to_owned() },
        RemoteContent::Unknown("image".to_owned()),
        RemoteContent::TextResource {
            uri: "f:a".to_owned(),
            mime_type: Some("text/x".to_owned()),
            text: "c".to_owned(),
        },
        RemoteContent::BlobResource { uri: "f:b".to_owned(), mime_type: None, data: "bb".to_owned() },
        RemoteContent::ResourceLink { uri: "f:c".to_owned(), name: "c".to_owned(), description: None },
        RemoteContent::Audio { mime_type: wav, data: "cc".to_owned() },
        RemoteContent::Unknown("?".to_owned()),
    ];
    assert_eq!(result.content, expected.map(RemotePart::from));
}

/// Asks the client for something in the middle of a call, and says in its result what it was told.
async fn asking(method: &'static str, params: Value) -> Arc<Server> {
    let (answers, told) = tokio::sync::watch::channel(Value::Null);
    Server::doing(move |seen: Seen| {
        let (answers, mut told, params) = (answers.clone(), told.clone(), params.clone());
        async move {
            if let Some(response) = shake(&seen, Some("s1")) {
                return response;
            }
            if seen.method() != "tools/call" {
                answers.send_replace(seen.body);
                return super::server::status(202);
            }
            let (writer, response) = events();
            let request = json!({ "jsonrpc": "2.0", "id": "q1", "method": method, "params": params });
            writer.send(event(&request)).unwrap();
            TaskTracker::new().spawn(async move {
                let answer = told.wait_for(|answer| !answer.is_null()).await.unwrap().to_string();
                writer.send(event(&seen.result(&text(&answer)))).unwrap();
            });
            response
        }
    })
    .await
}

async fn told(client: &Client, server: &Server) -> (Value, Value) {
    let connection =
        client.connect(&at(&server.url, HttpKind::Streamable), Token::named("t0")).await.unwrap();
    let result = call_tool(&*connection, "x").await.unwrap();
    let announced = server.asked("initialize")[0].body["params"]["capabilities"].clone();
    (announced, serde_json::from_str(says(&result)).unwrap())
}

#[tokio::test]
async fn servers_that_ask_the_user_are_told_what_the_policy_is() {
    let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    for (policy, action) in [(ElicitationPolicy::Decline, "decline"), (ElicitationPolicy::Cancel, "cancel")] {
        let server = asking("elicitation/create", form.clone()).await;
        let (announced, answer) = told(&client_with(policy, None), &server).await;
        assert!(announced["elicitation"].is_object());
        assert_eq!(answer["result"], json!({ "action": action }));
    }
    let server = asking("elicitation/create", form).await;
    let (announced, answer) = told(&client_with(ElicitationPolicy::Off, None), &server).await;
    assert_eq!(announced, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    assert_eq!(answer["error"]["code"], -32601);
}

#[tokio::test]
async fn there_are_no_roots_and_pings_are_answered() {
    let server = asking("roots/list", json!({})).await;
    let (announced, answer) = told(&client(), &server).await;
    assert!(announced.get("roots").is_none());
    assert_eq!(answer["error"]["code"], -32601);

    let server = asking("ping", json!({})).await;
    assert_eq!(told(&client(), &server).await.1["result"], json!({}));
}

struct Parrot;

#[async_trait]
impl Sampler for Parrot {
    async fn sample(&self, request: SampleRequest) -> Result<SampleAnswer, String> {
        assert_eq!((&*request.server, request.max_tokens), ("test", 10));
        match request.messages[0].content.as_slice() {
            [SampleContent::Text(text)] if text != "bad" => Ok(SampleAnswer {
                model: "parrot".to_owned(),
                text: format!("{text}!"),
                stop_reason: Some("endTurn".to_owned()),
            }),
            _ => Err("not that".to_owned()),
        }
    }
}

#[tokio::test]
async fn sampling_is_off_unless_there_is_something_to_sample_with() {
    let ask = |text: &str| {
        json!({ "maxTokens": 10,
            "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] })
    };
    let server = asking("sampling/createMessage", ask("hi")).await;
    let (announced, answer) = told(&client(), &server).await;
    assert!(announced.get("sampling").is_none());
    assert_eq!(answer["error"]["code"], -32601);

    let parrot = client_with(ElicitationPolicy::Decline, Some(Arc::new(Parrot)));
    let server = asking("sampling/createMessage", ask("hi")).await;
    let (announced, answer) = told(&parrot, &server).await;
    assert!(announced["sampling"].is_object());
    assert_eq!(answer["result"]["content"], json!({ "type": "text", "text": "hi!" }));
    assert_eq!(answer["result"]["model"], "parrot");

    let server = asking("sampling/createMessage", ask("bad")).await;
    assert_eq!(told(&parrot, &server).await.1["error"]["message"], "not that");
}

#[tokio::test]
async fn questions_instead_of_a_result_are_answered_by_policy() {
    let server = Server::calling(|seen: Seen| async move {
        let params = &seen.body["params"];
        match params.get("inputResponses") {
            Some(replies) => seen.ok(&text(&json!([replies, params["requestState"]]).to_string())),
            None => {
                let method = params["name"].clone();
                let asked = json!({ "q": { "method": method, "params": {} } });
                seen.ok(
                    &json!({ "resultType": "input_required", "inputRequests": asked, "requestState": "st" }),
                )
            }
        }
    })
    .await;
    let connection = connect(&server.url).await;

    let result = call_tool(&*connection, "elicitation/create").await.unwrap();
    assert_eq!(says(&result), r#"[{"q":{"action":"decline"}},"st"]"#);

    let error = call_tool(&*connection, "sampling/createMessage").await.unwrap_err();
    assert!(
        matches!(&error, McpError::Protocol { message, .. } if message.contains("sampling")),
        "{error:?}"
    );
}

#[tokio::test]
async fn no_slot_outlives_its_call() {
    let server = silent().await;
    let ServerAddress::Http { url, egress, .. } = at(&server.url, HttpKind::Streamable).address else {
        panic!("http")
    };
    let client = client().0;
    let wire = client.router(&at("http://h", HttpKind::Auto));
    let transport = super::super::streamable::transport(
        HttpEndpoint::new(url, MIB, egress, Token::named("t0")),
        Arc::clone(&wire),
    );
    let service = initialize(
        transport,
        &wire,
        client.handler(&wire, &at("http://h", HttpKind::Auto)),
        ProtocolMode::Handshake,
    )
    .await
    .unwrap();
    let connection = SdkConnection::new(service, Arc::clone(&wire), "streamable_http");

    let waiting = futures_util::future::join_all((0..5).map(|_| call_tool(&*connection, "events")));
    let both = tokio::time::timeout(SHORT, async {
        tokio::join!(waiting, eventually("all are filed", || wire.pending.len() == 10))
    });
    assert!(both.await.is_err());
    assert_eq!(wire.pending.len(), 0);
}

#[tokio::test]
async fn closing_does_not_leave_anybody_waiting() {
    let server = silent().await;
    let connection = connect(&server.url).await;

    let waiting = call_tool(&*connection, "json");
    let closing = async {
        eventually("the call is there", || server.asked("tools/call").len() == 1).await;
        connection.close().await;
    };
    let (result, ()) = tokio::join!(waiting, closing);

    assert!(matches!(result, Err(McpError::Broken(_))), "{result:?}");
    let error = call_tool(&*connection, "json").await.unwrap_err();
    assert!(matches!(error, McpError::Connect(_)), "{error:?}");
}

/// Takes longer than a call may be silent.
struct Slow;

#[async_trait]
impl Sampler for Slow {
    async fn sample(&self, _request: SampleRequest) -> Result<SampleAnswer, String> {
        tokio::time::sleep(2 * SHORT).await;
        Err("too late?".to_owned())
    }
}

#[tokio::test]
async fn a_server_that_waits_for_the_model_is_not_silent() {
    let server = asking("sampling/createMessage", json!({ "maxTokens": 1, "messages": [] })).await;
    let client = client_with(ElicitationPolicy::Off, Some(Arc::new(Slow)));
    let connection =
        client.connect(&at(&server.url, HttpKind::Streamable), Token::named("t0")).await.unwrap();
    let arguments = Arguments::new();

    let call = RemoteCall { idle: SHORT, ..call("x", &arguments) };
    let result = connection.call_tool(call, &Progress::none()).await.unwrap();

    assert!(says(&result).contains("too late?"));
}

/// Notes when the span named `request` is over.
struct Ends(Arc<AtomicUsize>);

impl<S> tracing_subscriber::Layer<S> for Ends
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fn on_close(&self, id: tracing::span::Id, context: tracing_subscriber::layer::Context<'_, S>) {
        if context.span(&id).is_some_and(|span| span.name() == "request") {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn a_connection_does_not_keep_the_request_open_that_made_it() {
    use tracing::Instrument;
    use tracing_subscriber::prelude::*;

    let ended = Arc::new(AtomicUsize::new(0));
    let all = tracing_subscriber::registry().with(Ends(Arc::clone(&ended)));
    let _guard = tracing::subscriber::set_default(all);
    let server = Server::calling(|seen: Seen| async move { seen.ok(&text("x")) }).await;

    let request = async {
        let connection = connect(&server.url).await;
        call_tool(&*connection, "x").await.unwrap();
        connection
    };
    let connection = request.instrument(tracing::info_span!("request")).await;

    eventually("the request is over", || ended.load(Ordering::SeqCst) == 1).await;
    assert!(!connection.is_closed());
}
