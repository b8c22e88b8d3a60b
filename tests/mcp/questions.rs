//! Questions of servers that the client shows to the user: the call waits, or the run, and goes on with the answer.

mod ended;

use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, before, brought, call, item, told};
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Gateway, JsonBody, frames, text_of};
use antwort_test_support::mcp_server::{Answers, McpServer};
use antwort_test_support::process::Process;
use antwort_test_support::stream::{Stream, answer};
use antwort_test_support::stream_validator::{assert_valid_resumed_stream, assert_valid_stream};
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::{eventually, openapi};

/// A request whose client shows these questions.
fn shows(modes: Value, server: &McpServer) -> Value {
    let mut body = ask(json!([brought(server)]));
    body["stream"] = json!(true);
    body["antwort"] = json!({"elicitation": modes});
    body
}

fn form(server: &McpServer) -> Value {
    shows(json!(["form"]), server)
}

fn accept(question: &Value) -> Value {
    json!({"call_id": question["call_id"], "output": {"action": "accept", "content": {"which": "the red one"}}})
}

fn reply(server: &McpServer) -> Value {
    server.client_answers().last().cloned().unwrap_or_default()["result"].clone()
}

async fn answered(gateway: &Gateway, id: &str, body: &Value) {
    let accepted = answer(gateway, id, body).await;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
}

#[tokio::test]
async fn a_server_asks_the_user_during_a_call_and_the_call_goes_on_with_the_answer() {
    for answers in [Answers::Mixed, Answers::SessionStream] {
        let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
        server.asks("echo", "elicitation/create").answers(answers);
        let gateway = before(&upstream).spawn().await;
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        let mut stream = Stream::open(&gateway, &form(&server)).await;
        let (question, id) = (stream.question().await, stream.id());
        assert_eq!((&question["name"], &question["arguments"]), (&json!("echo"), &json!(r#"{"text":"hi"}"#)));
        assert_eq!(
            question["elicitation"],
            json!({"mode": "form", "message": "Which one?", "requested_schema": {"type": "object",
                "properties": {"which": {"type": "string"}}, "required": ["which"]}})
        );
        let waits = question["expires_at"].as_i64().unwrap() - jiff::Timestamp::now().as_second();
        assert!((295..=300).contains(&waits), "{waits}");
        assert!(server.client_answers().is_empty());
        answered(&gateway, &id, &accept(&question)).await;
        let response = assert_valid_stream(&frames(&stream.rest().await)).response;
        openapi::assert_response(&response);
        assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "Done."));
        assert_eq!(reply(&server), json!({"action": "accept", "content": {"which": "the red one"}}));
        assert_eq!(item(&response, "mcp_call")["output"], "hi");
        assert_eq!(item(&response, "mcp_call")["id"], question["item_id"]);
        assert_eq!(server.count_calls("echo"), 1);
        answered(&gateway, &id, &accept(&question)).await;
        let other = json!({"call_id": question["call_id"], "output": {"action": "decline"}});
        let other = answer(&gateway, &id, &other).await;
        assert_eq!((other.status, &other.body["error"]["code"]), (409, &json!("input_not_pending")));
    }
}

#[tokio::test]
async fn what_the_client_cannot_show_is_answered_by_the_policy() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let announced = |server: &McpServer| {
        let requests = server.requests();
        let initialized = requests.iter().rfind(|request| request.body["method"] == "initialize").unwrap();
        initialized.body["params"]["capabilities"]["elicitation"].clone()
    };
    let url = json!({"mode": "url", "message": "Sign in.", "url": "https://login.example/x", "elicitationId": "e1"});
    server.asks_this("echo", url.clone());
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let response = Stream::open(&gateway, &form(&server)).await.rest().await;
    assert!(!response.contains("input_required"), "{response}");
    assert_eq!((reply(&server), announced(&server)), (json!({"action": "decline"}), json!({"form": {}})));

    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let mut stream = Stream::open(&gateway, &shows(json!(["url"]), &server)).await;
    let (question, id) = (stream.question().await, stream.id());
    assert_eq!(
        question["elicitation"],
        json!({"mode": "url", "message": "Sign in.", "url": "https://login.example/x", "elicitation_id": "e1"})
    );
    answered(&gateway, &id, &json!({"call_id": question["call_id"], "output": {"action": "accept"}})).await;
    stream.rest().await;
    assert_eq!(reply(&server), json!({"action": "accept"}));
    // Where the policy would answer a form, servers may ask with one.
    assert_eq!(announced(&server), json!({"form": {}, "url": {}}));

    server.asks_this(
        "echo",
        json!({"mode": "url", "message": "m", "url": "javascript:alert(1)", "elicitationId": "e"}),
    );
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    Stream::open(&gateway, &shows(json!(["url", "form"]), &server)).await.rest().await;
    assert_eq!(reply(&server), json!({"action": "decline"}), "it is no address to open");
}

/// The SDK reads only some schemas; what a client can show is for the client to say.
#[tokio::test]
async fn a_form_of_values_that_are_not_plain_is_shown_as_well() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let schema = json!({"type": "object", "properties": {"at": {"type": "object", "properties": {"x": {"type": "number"}}}}});
    server.asks_this("echo", json!({"mode": "form", "message": "Where?", "requestedSchema": schema}));
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let (question, id) = (stream.question().await, stream.id());
    assert_eq!(
        question["elicitation"],
        json!({"mode": "form", "message": "Where?", "requested_schema": schema})
    );
    let given = json!({"action": "accept", "content": {"at": {"x": 1.5}}});
    answered(&gateway, &id, &json!({"call_id": question["call_id"], "output": given})).await;
    stream.rest().await;
    assert_eq!(reply(&server), given);
}

#[tokio::test]
async fn a_user_declines_or_the_client_fails_or_nobody_answers() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("echo", "elicitation/create");
    let timeout = Duration::from_millis(300);
    let gateway =
        before(&upstream).set(|settings| settings.engine.elicitation_timeout = timeout).spawn().await;
    for (given, action) in [
        (Some(json!({"output": {"action": "decline"}})), "decline"),
        (Some(json!({"error": "no window"})), "cancel"),
        (None, "cancel"),
    ] {
        upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
        let mut stream = Stream::open(&gateway, &form(&server)).await;
        let (question, id) = (stream.question().await, stream.id());
        if let Some(mut given) = given.clone() {
            given["call_id"] = question["call_id"].clone();
            answered(&gateway, &id, &given).await;
        }
        let response = assert_valid_stream(&frames(&stream.rest().await)).response;
        assert_eq!(response["status"], "completed");
        assert_eq!(reply(&server), json!({"action": action}));
        if given.is_none() {
            let late = answer(&gateway, &id, &accept(&question)).await;
            assert_eq!((late.status, &late.body["error"]["code"]), (410, &json!("input_expired")));
        }
    }
}

#[tokio::test]
async fn answers_of_a_wrong_shape_are_refused_and_the_question_stays_open() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("echo", "elicitation/create");
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let (question, id) = (stream.question().await, stream.id());
    for (output, param) in [
        (json!("the red one"), "output"),
        (json!({"action": "perhaps"}), "output"),
        (json!({"action": "accept", "content": "red"}), "output.content"),
        (json!({"action": "decline", "content": {}}), "output.content"),
        (json!({"action": "accept", "which": "red"}), "output"),
    ] {
        let refused = answer(&gateway, &id, &json!({"call_id": question["call_id"], "output": output})).await;
        assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!(param)), "{output}");
    }
    let a2a = json!({"taskId": id, "inputId": question["call_id"], "success": true,
        "result": {"action": "accept", "content": {"which": "blue"}}});
    assert_eq!(gateway.post("/api/a2a/input", &a2a).await.status, 202);
    stream.rest().await;
    assert_eq!(reply(&server)["content"], json!({"which": "blue"}));
}

#[tokio::test]
async fn a_request_that_cannot_wait_is_refused() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    for (field, value) in [
        ("store", json!(false)),
        ("stream", json!(false)),
        ("antwort", json!({"elicitation": ["form"], "execute_tools": false})),
    ] {
        let mut body = form(&server);
        body[field] = value;
        let refused = gateway.refuse(body, 400, "unsupported_value").await;
        assert_eq!(refused["param"], "antwort.elicitation", "{field}");
    }
    let refused = gateway.post("/v1/responses", &shows(json!(["voice"]), &server)).await;
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("antwort.elicitation[0]")));
    upstream.text("Hello.");
    let mut body = form(&server);
    body["antwort"]["elicitation"] = json!([]);
    body["stream"] = json!(false);
    assert_eq!(text_of(&gateway.create(body).await), "Hello.");
}

#[tokio::test]
async fn parallel_calls_ask_when_they_are_shown() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("echo", "elicitation/create");
    let gateway = before(&upstream).spawn().await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "a"})), ("echo", json!({"text": "b"}))]));
    upstream.text("Done.");
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let (first, id) = (stream.question().await, stream.id());
    assert!(eventually(async || server.in_flight() == 2).await, "both calls are under way");
    assert_eq!(stream.text.matches("event: antwort:input_required").count(), 1);
    answered(&gateway, &id, &accept(&first)).await;
    let second = stream.until("antwort:input_required", 2).await.remove(1);
    assert_ne!((&first["call_id"], &first["item_id"]), (&second["call_id"], &second["item_id"]));
    answered(&gateway, &id, &accept(&second)).await;
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    let outputs: Vec<_> = response["output"].as_array().unwrap().iter().map(|item| &item["output"]).collect();
    assert!(outputs.contains(&&json!("a")) && outputs.contains(&&json!("b")), "{outputs:?}");
    assert_eq!(server.client_answers().len(), 2);
}

/// Neither the tool's timeout nor the run's counts the time for which the user thinks.
#[tokio::test]
async fn time_for_which_a_call_waits_for_the_user_does_not_count() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("echo", "elicitation/create");
    let gateway = before(&upstream)
        .set(|settings| {
            settings.mcp.requests.timeout = Duration::from_secs(1);
            settings.mcp.requests.max_time = Duration::from_secs(1);
        })
        .spawn()
        .await;
    upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let mut body = form(&server);
    body["antwort"]["limits"] = json!({"max_seconds": 2});
    let mut stream = Stream::open(&gateway, &body).await;
    let (question, id) = (stream.question().await, stream.id());
    tokio::time::sleep(Duration::from_millis(2500)).await;
    answered(&gateway, &id, &accept(&question)).await;
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "Done."));
}

#[tokio::test]
async fn a_response_that_is_cancelled_while_the_user_is_asked_cancels_the_call() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("echo", "elicitation/create");
    let gateway = before(&upstream).spawn().await;
    upstream.reply(call("echo", json!({"text": "hi"})));
    let mut stream = Stream::open(&gateway, &form(&server)).await;
    let (question, id) = (stream.question().await, stream.id());
    let cancelled = gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.body["status"], "cancelled", "{}", cancelled.body);
    assert!(eventually(async || server.cancelled().len() == 1).await, "the server is told");
    let late = answer(&gateway, &id, &accept(&question)).await;
    assert_eq!((late.status, &late.body["error"]["code"]), (409, &json!("input_not_pending")));
    stream.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_reaches_the_replica_that_holds_the_session() {
    let fleet = Fleet::new().await;
    let server = McpServer::spawn().await;
    server.asks("echo", "elicitation/create");
    let [first, second] = fleet.two().await;
    fleet.upstream.reply(call("echo", json!({"text": "hi"}))).text("Done.");
    let mut stream = Stream::open(&first, &form(&server)).await;
    let (question, id) = (stream.question().await, stream.id());
    let mut other = Stream::resume(&second, &id, 0).await;
    assert_eq!(other.question().await, question);
    let given = std::time::Instant::now();
    answered(&second, &id, &accept(&question)).await;
    assert!(eventually(async || !server.client_answers().is_empty()).await);
    assert!(given.elapsed() < Duration::from_secs(1), "by the bus, not by polling: {:?}", given.elapsed());
    let response = assert_valid_stream(&frames(&stream.rest().await)).response;
    assert_eq!(text_of(&response), "Done.");
    assert_eq!(other.rest().await.matches("response.completed").count(), 2, "the event's name and its type");
}

/// The question goes with the session of the process that has asked.
#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_a_call_is_unknown_if_its_process_is_lost_while_the_user_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.asks("delete_all", "elicitation/create");
    let environment = [("ANTWORT_EGRESS_ALLOW", "127.0.0.1")];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    upstream.reply(call("delete_all", json!({}))).text("Perhaps.");
    let http = reqwest::Client::new();
    let url = format!("{}/v1/responses", gateway.base);
    let mut stream = Stream::of(http.post(&url).json_body(&form(&server))).await;
    let (question, id) = (stream.question().await, stream.id());
    let seen = stream.text.clone();
    gateway.kill();
    gateway.restart().await;
    let whole = format!("{}/v1/responses/{id}?stream=true", gateway.base);
    let whole = Stream::of(http.get(whole)).await.rest().await;
    assert!(whole.starts_with(&seen), "{seen}\n\n{whole}");
    let response = assert_valid_resumed_stream(&frames(&whole)).response;
    assert_eq!(text_of(&response), "Perhaps.");
    assert!(told(&upstream).contains("the call may have been executed"), "{}", told(&upstream));
    assert_eq!(server.count_calls("delete_all"), 1, "it is not made again");
    let url = format!("{}/v1/responses/{id}/inputs", gateway.base);
    let late = http.post(url).json_body(&accept(&question)).send().await.unwrap();
    assert_eq!(late.status(), 409);
}
