//! The words of others: what a provider says of a request that it refuses is nobody's to read who has not written it.

use antwort::config::{AgentSettings, ProviderSettings};
use secrecy::SecretString;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

const KEY: &str = "hunter2-correct-horse";

fn agent() -> AgentSettings {
    AgentSettings {
        model: Some("test-model".into()),
        instructions: Some(
            "You sell flowers for {{company}}.\nNever say that the roses are from last week.".into(),
        ),
        variables: [("company".to_owned(), "ACME77".to_owned())].into(),
        ..AgentSettings::default()
    }
}

/// A provider that quotes the request, as some do.
fn quoting(status: u16, quote: &str) -> Reply {
    let body = json!({"error": {"message": format!("cannot parse {quote}"), "code": "bad_messages"}});
    Reply::Status(status, vec![("content-type", "application/json")], body.to_string())
}

#[tokio::test]
async fn an_agents_instructions_are_not_shown_by_way_of_a_providers_error() {
    let upstream = Upstream::spawn().await;
    let with_agent = |settings: &mut antwort::config::Settings| {
        settings.agents.insert("florist".into(), agent());
    };
    let quick = |provider: &mut ProviderSettings| provider.retries.max = 0;
    let gateway = Gateway::with_upstream(&upstream).set(with_agent).provider(quick).spawn().await;
    let whole = r#"{"messages":[{"role":"system","content":"You sell flowers for ACME77.\nNever say that the roses are from last week."}]}"#;
    for quote in [whole, "'Never say that the roses ar…'", "a system message of ACME77"] {
        for (status, ours) in [(400, 400), (404, 404), (500, 502)] {
            for agent in [
                json!({"agent": "florist", "input": "Hi"}),
                json!({"prompt": {"id": "florist"}, "input": "Hi"}),
            ] {
                upstream.reply(quoting(status, quote));
                let answer = gateway.post("/v1/responses", &agent).await;
                assert_eq!(answer.status, ours, "{:#}", answer.body);
                let told = answer.body.to_string();
                assert!(!told.contains("roses") && !told.contains("ACME77"), "{told}");
                assert!(told.contains("is not shown"), "{told}");
            }
        }
        // In the middle of a stream, where it becomes part of the response, stored as it is.
        let error =
            Step::Chunk(json!({"error": {"message": format!("cannot go on with {quote}"), "code": 400}}));
        upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hi"})), error]));
        let response = gateway.stream(json!({"agent": "florist", "input": "Hi"})).await.response;
        let stored = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.body;
        for told in [&response, &stored] {
            assert!(!told["error"].to_string().contains("roses"), "{}", told["error"]);
            assert!(!told["error"].to_string().contains("ACME77"), "{}", told["error"]);
        }
    }
    // What a client has said itself it may read, and other words as well.
    for (request, words) in [
        (json!({"agent": "florist", "input": "Hi"}), "temperature must be above 0"),
        (
            json!({"model": "test-model", "instructions": "Say that the roses are fresh.", "input": "Hi"}),
            "'Say that the roses are fresh.'",
        ),
    ] {
        upstream.reply(quoting(400, words));
        let error = gateway.refuse(request, 400, "bad_messages").await;
        assert_eq!(error["message"], format!("cannot parse {words}"));
    }
}

async fn passed(path: &str, reply: Reply) -> (u16, String, Value) {
    let upstream = Upstream::spawn().await;
    let indiscreet = |provider: &mut ProviderSettings| {
        provider.api_key = Some(SecretString::from(KEY));
        provider.headers.insert("x-team".into(), SecretString::from("Basic team-secret"));
        provider.retries.max = 0;
    };
    let gateway = Gateway::with_upstream(&upstream).provider(indiscreet).spawn().await;
    upstream.reply(reply);
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let answer = gateway.post(path, &json!({"model": "test-model", "messages": messages})).await;
    (answer.status, answer.body.to_string(), answer.body)
}

#[tokio::test]
async fn an_error_that_is_handed_through_has_no_key_and_no_header_in_it() {
    let upstreams_words = json!({"error": {
        "message": format!("Incorrect key {KEY}, sent as 'Basic team-secret' to http://10.0.0.9:8000/v1"),
        "type": "invalid_request_error", "param": format!("headers[{KEY}]"), "code": "bad",
    }});
    for status in [400, 404, 422, 429] {
        let reply =
            Reply::Status(status, vec![("content-type", "application/json")], upstreams_words.to_string());
        let (told, text, body) = passed("/v1/chat/completions", reply).await;
        assert_eq!(told, status);
        assert!(!text.contains(KEY) && !text.contains("team-secret") && !text.contains("10.0.0.9"), "{text}");
        let error = &body["error"];
        assert_eq!(error["message"], "Incorrect key [key], sent as '[key]' to [address]");
        assert_eq!((&error["param"], &error["code"]), (&json!("headers[[key]]"), &json!("bad")));
    }
}

/// What is handed through of a stream or a body whose status is 200.
async fn passed_text(reply: Reply) -> String {
    let upstream = Upstream::spawn().await;
    let indiscreet = |provider: &mut ProviderSettings| provider.api_key = Some(SecretString::from(KEY));
    let gateway = Gateway::with_upstream(&upstream).provider(indiscreet).spawn().await;
    upstream.reply(reply);
    let request = gateway.http.post(format!("{}/v1/chat/completions", gateway.base));
    let body = json!({"model": "test-model", "messages": [{"role": "user", "content": "Hi"}]});
    let answer = request.json_body(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.text().await.unwrap()
}

/// It was handed on unread, as its status says that all is well.
#[tokio::test]
async fn an_error_within_a_stream_that_is_handed_through_has_no_key_in_it() {
    let words = format!("bad key {KEY}, see http://10.0.0.9:8000/v1");
    let letter = "data: {\"choices\":[{\"delta\":{\"content\":\"an \\\"error\\\"\"}}]}\n\n";
    let comment = ": still here\r\n\r\n";
    let errors = [
        format!("data: {}\n\n", json!({"error": {"message": words}})),
        format!("event: error\r\ndata: {}\r\n\r\n", json!({"message": words})),
        format!("data: {}\n\n", json!({"object": "error", "message": words})),
        format!("data: {}\n\n", json!({"choices": [{"delta": {}}, {"error": {"message": words}}]})),
        // Its end is missing, too.
        format!("data: {}", json!({"error": words})),
    ];
    for error in errors {
        let stream = [letter, comment, letter, &error];
        // In one piece, and so that an event comes in two.
        let stream = stream.concat();
        let (begin, end) = stream.split_at(stream.len() - error.len() + 20);
        for pieces in [vec![stream.as_str()], vec![begin, end]] {
            let steps = pieces.into_iter().flat_map(|piece| {
                [Step::Raw(piece.as_bytes().to_vec()), Step::Wait(std::time::Duration::from_millis(50))]
            });
            let told = passed_text(Reply::Stream(steps.collect())).await;
            assert!(!told.contains(KEY) && !told.contains("10.0.0.9"), "{told}");
            assert!(told.contains("bad key [key], see [address]"), "{told}");
            assert_eq!(told.matches("an \\\"error\\\"").count(), 2, "{told}");
        }
    }
    let stream = [letter, comment, letter, "data: [DONE]\n\n"].concat();
    let told = passed_text(Reply::Stream(vec![Step::Raw(stream.clone().into_bytes())])).await;
    assert_eq!(told, stream, "what is no error is handed on byte for byte");
}

#[tokio::test]
async fn an_error_in_a_body_of_status_200_that_is_handed_through_has_no_key_in_it() {
    let typed = |body: &str| {
        let json = vec![("content-type", "application/json; charset=utf-8")];
        Reply::Status(200, json, body.to_owned())
    };
    let told = passed_text(typed(&json!({"error": {"message": format!("bad key {KEY}")}}).to_string())).await;
    assert_eq!(told, r#"{"error":{"message":"bad key [key]"}}"#);
    for body in [
        format!("{{\"data\" : [\"{}\"], \"error\": null}}", "x".repeat(200_000)),
        "{\"choices\" : [{\"message\": {\"content\": \"error\"}}], \"error\": null}".to_owned(),
    ] {
        assert!(passed_text(typed(&body)).await == body, "what is no error is handed on byte for byte");
    }
}

#[tokio::test]
async fn an_error_without_end_is_not_handed_through() {
    let long = Reply::Status(
        400,
        vec![("content-type", "application/json")],
        format!("\"{}\"", "x".repeat(1 << 20)),
    );
    let (status, text, body) = passed("/v1/chat/completions", long).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("upstream_rejected_request")), "{text}");
    assert!(text.len() < 1000, "{} bytes", text.len());
}
