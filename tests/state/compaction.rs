//! Compaction: by `compaction_trigger` and by `POST /v1/responses/compact`, and what becomes of it afterwards.

mod automatic;
mod tools;

use antwort_protocol::request::COMPACTION_FIELDS;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish, usage};

const SUMMARY: &str = "The user wants a boat. We bought planks.";

fn conversation() -> Vec<Value> {
    vec![
        json!({"role": "developer", "content": "Be a boat builder."}),
        json!({"role": "user", "content": "Build a boat."}),
        json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}),
        json!({"type": "function_call", "call_id": "c1", "name": "buy", "arguments": "{\"what\":\"planks\"}"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "bought"}),
        json!({"role": "assistant", "content": "I bought planks."}),
    ]
}

fn triggered() -> Vec<Value> {
    let mut input = conversation();
    input.push(json!({"type": "compaction_trigger"}));
    input
}

fn request(input: &[Value]) -> Value {
    json!({
        "model": "test-model",
        "input": input,
        "tools": [{"type": "function", "name": "buy", "parameters": {"type": "object"}}, {"type": "web_search"}],
    })
}

fn ask(input: &[Value]) -> Value {
    json!({"model": "test-model", "input": input})
}

/// The texts of the messages that the provider was sent, by role.
fn said(sent: &Value) -> Vec<(String, String)> {
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let messages = sent["messages"].as_array().unwrap().iter();
    messages.map(|message| (message["role"].as_str().unwrap().to_owned(), text(message))).collect()
}

async fn compact(gateway: &Gateway, body: &Value) -> HttpAnswer {
    let answer = gateway.post("/v1/responses/compact", body).await;
    if answer.status == 200 {
        openapi::assert_is("CompactedConversation", &answer.body);
    }
    answer
}

#[tokio::test]
async fn a_trigger_is_answered_with_one_sealed_item() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text(SUMMARY).text(SUMMARY);
    for response in gateway.both(request(&triggered())).await {
        assert_eq!(response["status"], "completed");
        let output = response["output"].as_array().unwrap();
        assert_eq!(output.len(), 1, "{response:#}");
        assert_eq!(output[0]["type"], "compaction");
        let blob = output[0]["encrypted_content"].as_str().unwrap();
        assert!(blob.len() > SUMMARY.len() && !response.to_string().contains("planks."), "{blob}");
        assert!(response["usage"]["input_tokens"].as_u64().unwrap() > 0);
        let sent = upstream.last();
        assert_eq!(sent["tools"][0]["function"]["name"], "buy", "{sent:#}");
        assert_eq!((sent["tools"].as_array().unwrap().len(), &sent["tool_choice"]), (1, &json!("none")));
        let said = said(&sent);
        assert_eq!(said.first().unwrap().1, "Be a boat builder.");
        let (role, question) = said.last().unwrap();
        assert!(role == "user" && question.contains("summary"), "{question}");
        assert!(said.iter().any(|(role, text)| role == "tool" && text == "bought"), "{said:?}");
    }
}

#[tokio::test]
async fn the_events_of_a_compaction_are_an_item_that_comes_whole() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"reasoning_content": "What matters?"})),
        chunk(json!({"content": "The user "})),
        chunk(json!({"content": "wants a boat."})),
        finish("stop"),
        usage(100, 20),
        done(),
    ]));
    let streamed = gateway.stream(request(&triggered())).await;
    let kinds: Vec<_> = streamed.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed"
        ]
    );
    assert_eq!(streamed.response["usage"]["input_tokens"], 100);
    assert_eq!(streamed.response["usage"]["output_tokens"], 20);
}

#[tokio::test]
async fn a_replayed_compaction_is_shown_to_the_model_in_its_place() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text(SUMMARY);
    let item = gateway.create(request(&triggered())).await["output"][0].clone();
    // As Codex goes on: what the user said, the compaction, what the user says next.
    let replayed = [
        json!({"role": "user", "content": "Build a boat."}),
        json!({"type": "compaction", "encrypted_content": item["encrypted_content"]}),
        json!({"role": "user", "content": "Now the mast."}),
    ];
    gateway.create(ask(&replayed)).await;
    let said = said(&upstream.last());
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!((said[0].1.as_str(), said[2].1.as_str()), ("Build a boat.", "Now the mast."));
    assert!(said[1].0 == "user" && said[1].1.contains(SUMMARY), "{said:?}");
    // The name under which some clients send it back, and a conversation that is replayed whole.
    let renamed =
        json!({"type": "compaction_summary", "id": null, "encrypted_content": item["encrypted_content"]});
    let whole = [triggered(), vec![renamed, json!({"role": "user", "content": "Now the mast."})]].concat();
    gateway.create(ask(&whole)).await;
    let said = self::said(&upstream.last());
    let texts: Vec<_> = said.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!((texts[0], texts[1], texts[3]), ("Be a boat builder.", "Build a boat.", "Now the mast."));
    assert!(
        texts.len() == 4 && texts[2].contains(SUMMARY),
        "what was compacted is not shown again: {texts:?}"
    );
}

#[tokio::test]
async fn a_chain_goes_on_behind_its_compaction() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("I shall.");
    let first = gateway.create(ask(&conversation())).await;
    upstream.text(SUMMARY);
    let trigger = json!({"model": "test-model", "previous_response_id": first["id"],
        "input": [{"type": "compaction_trigger"}]});
    let compaction = gateway.create(trigger).await;
    assert!(
        said(&upstream.last()).iter().any(|(_, text)| text == "I shall."),
        "all of the chain is summed up"
    );
    let goes_on =
        json!({"model": "test-model", "previous_response_id": compaction["id"], "input": "Now the mast."});
    upstream.text("Mast made.");
    let third = gateway.create(goes_on).await;
    let seen = said(&upstream.last());
    let texts: Vec<_> = seen.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!((texts[0], texts[1], texts[3]), ("Be a boat builder.", "Build a boat.", "Now the mast."));
    assert!(texts.len() == 4 && texts[2].contains(SUMMARY), "{texts:?}");
    // And once more: the first summary is what the second is made of.
    upstream.text("Second summary.");
    let again = json!({"model": "test-model", "previous_response_id": third["id"],
        "input": [{"role": "user", "content": "Sail!"}, {"type": "compaction_trigger"}]});
    let again = gateway.create(again).await;
    assert!(said(&upstream.last()).iter().any(|(_, text)| text.contains(SUMMARY)));
    gateway.create(json!({"model": "test-model", "previous_response_id": again["id"], "input": "On."})).await;
    let seen = said(&upstream.last());
    let texts: Vec<_> = seen.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts[1..4], ["Build a boat.", "Now the mast.", "Sail!"]);
    assert!(texts.len() == 6 && texts[4].contains("Second summary.") && texts[5] == "On.", "{texts:?}");
    let items = gateway.get(&format!("/v1/responses/{}/input_items", again["id"].as_str().unwrap())).await;
    assert_eq!(items.status, 200);
    openapi::assert_items(&items.body);
}

#[tokio::test]
async fn compact_gives_the_users_messages_and_a_compaction_that_are_the_next_input() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text(SUMMARY);
    let body = json!({"model": "test-model", "input": conversation(), "instructions": "You build.",
        "prompt_cache_key": "k", "previous_response_id": null,
        "tools": [{"type": "function", "name": "buy", "parameters": {}}], "parallel_tool_calls": true});
    let answer = compact(&gateway, &body).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    let made = answer.body;
    assert_eq!(made["object"], "response.compaction");
    let output = made["output"].as_array().unwrap();
    let kinds: Vec<_> = output.iter().map(|item| (item["type"].as_str(), item["role"].as_str())).collect();
    assert_eq!(
        kinds,
        [(Some("message"), Some("developer")), (Some("message"), Some("user")), (Some("compaction"), None)]
    );
    assert_eq!(output[1]["content"], json!([{"type": "input_text", "text": "Build a boat."}]));
    assert_eq!(output[1]["status"], "completed");
    assert!(made["usage"]["total_tokens"].as_u64().unwrap() > 0);
    let sent = upstream.last();
    assert_eq!(
        (&sent["tools"][0]["function"]["name"], &sent["tool_choice"]),
        (&json!("buy"), &json!("none"))
    );
    assert!(said(&sent)[0].1.starts_with("You build."), "{sent:#}");
    // It is no response: it can neither be read nor continued.
    let id = made["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
    let goes_on = json!({"model": "test-model", "previous_response_id": id, "input": "x"});
    gateway.refuse(goes_on, 400, "previous_response_not_found").await;
    assert_eq!(gateway.get("/v1/responses").await.body["data"], json!([]), "nothing is stored");
    let next = [output.clone(), vec![json!({"role": "user", "content": "Now the mast."})]].concat();
    gateway.create(ask(&next)).await;
    let texts: Vec<_> = said(&upstream.last()).into_iter().map(|(_, text)| text).collect();
    assert!(texts.len() == 4 && texts[2].contains(SUMMARY) && texts[3] == "Now the mast.", "{texts:?}");
}

#[tokio::test]
async fn a_stored_chain_can_be_compacted_as_a_whole() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("I shall.");
    let first = gateway.create(json!({"model": "test-model", "input": "Build a boat."})).await;
    for input in [json!(null), json!("And a mast."), json!([{"role": "user", "content": "And a mast."}])] {
        upstream.text(SUMMARY);
        let body = json!({"model": "test-model", "previous_response_id": first["id"], "input": input});
        let answer = compact(&gateway, &body).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        let kept = answer.body["output"].as_array().unwrap().len() - 1;
        assert_eq!(kept, if input.is_null() { 1 } else { 2 });
        let texts: Vec<_> = said(&upstream.last()).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts[..2], ["Build a boat.", "I shall."]);
    }
}

#[tokio::test]
async fn what_makes_no_compaction_is_said_before_the_model_is_asked() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let with = |changes: Value| {
        let mut body = json!({"model": "test-model", "input": "Hi"});
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        body
    };
    for (body, code, param) in [
        (json!({"input": "Hi"}), "missing_required_parameter", json!("model")),
        (json!({"model": "test-model"}), "missing_required_parameter", json!("input")),
        (
            with(json!({"previous_response_id": "resp_x"})),
            "previous_response_not_found",
            json!("previous_response_id"),
        ),
        (
            with(json!({"prompt_cache_key": "k".repeat(65)})),
            "string_above_max_length",
            json!("prompt_cache_key"),
        ),
        (with(json!({"stream": true})), "unsupported_parameter", json!("stream")),
        (with(json!({"store": true})), "unsupported_parameter", json!("store")),
        (with(json!({"foo": 1})), "unknown_parameter", json!("foo")),
        (with(json!({"input": [{"type": "compaction_trigger"}]})), "invalid_value", json!("input")),
    ] {
        let answer = compact(&gateway, &body).await;
        let error = &answer.body["error"];
        assert_eq!((answer.status, error["code"].as_str()), (400, Some(code)), "{body}: {error:#}");
        assert_eq!(error["param"], param, "{body}");
    }
    let unanswered = conversation()[..4].to_vec();
    assert_eq!(compact(&gateway, &ask(&unanswered)).await.body["error"]["code"], "tool_output_not_found");
    let early = [json!({"type": "compaction_trigger"}), json!({"role": "user", "content": "x"})];
    let error = gateway.refuse(ask(&early), 400, "invalid_value").await;
    assert_eq!(error["param"], "input[0].type");
    assert!(upstream.requests().is_empty());
}

#[test]
fn every_field_of_a_compaction_is_one_of_a_response_and_documented() {
    for field in COMPACTION_FIELDS {
        assert!(antwort_protocol::request::FIELDS.contains(field), "{field}");
        let documented = &openapi::DOCUMENT["components"]["schemas"]["CompactRequest"]["properties"];
        assert!(documented.get(field).is_some(), "{field} is not in openapi.yaml");
    }
}

#[tokio::test]
async fn a_model_that_writes_no_summary_makes_no_compaction() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let calls = || Reply::Calls(vec![("buy", json!({"what": "sails"}))]);
    let message = json!({"role": "assistant", "content": null, "refusal": "No."});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let refusal = || {
        Reply::Whole(
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}),
        )
    };
    for reply in [Reply::Text("  \n".into()), calls(), refusal()] {
        upstream.reply(reply.clone()).reply(reply);
        let failed = gateway.create(request(&triggered())).await;
        assert_eq!((&failed["status"], &failed["output"]), (&json!("failed"), &json!([])), "{failed:#}");
        assert_eq!(failed["error"]["code"], "compaction_failed");
        let answer = compact(&gateway, &ask(&conversation())).await;
        assert_eq!((answer.status, answer.body["error"]["code"].as_str()), (502, Some("compaction_failed")));
    }
    // Half a summary would pass for a whole one.
    let cut = || Reply::Stream(vec![chunk(json!({"content": "The user"})), finish("length"), done()]);
    upstream.reply(cut());
    let incomplete = gateway.stream(request(&triggered())).await.response;
    assert_eq!((&incomplete["status"], &incomplete["output"]), (&json!("incomplete"), &json!([])));
    assert_eq!(incomplete["incomplete_details"]["reason"], "max_output_tokens");
}

const KEYS: &str = "
auth:
  keys:
    alice: {key: key-alice, tenant: one}
    bob: {key: key-bob, tenant: one}
    eve: {key: key-eve, tenant: two}
    reader: {key: key-reader, scopes: ['responses:read']}
";

async fn post(gateway: &Gateway, key: &str, path: &str, body: &Value) -> HttpAnswer {
    let request = gateway.http.post(format!("{}{path}", gateway.base)).json_body(body);
    gateway.send(request.header("authorization", format!("Bearer {key}"))).await
}

#[tokio::test]
async fn a_compaction_that_cannot_be_opened_is_refused_with_its_path_and_never_dropped() {
    let upstream = Upstream::spawn().await;
    let gateway =
        Gateway::with(antwort_test_support::configured::settings(&upstream, &[], KEYS)).spawn().await;
    upstream.text(SUMMARY);
    let made = post(&gateway, "key-alice", "/v1/responses/compact", &ask(&conversation())).await;
    let blob = made.body["output"][2]["encrypted_content"].as_str().unwrap().to_owned();
    // A reasoning item of the same tenant, sealed for the same provider.
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"reasoning_content": "Because."})),
        chunk(json!({"content": "Yes."})),
        finish("stop"),
        done(),
    ]));
    let thought = json!({"model": "test-model", "input": "Why?", "include": ["reasoning.encrypted_content"],
        "stream": true});
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&thought);
    let text =
        request.header("authorization", "Bearer key-alice").send().await.unwrap().text().await.unwrap();
    let events = antwort_test_support::gateway::frames(&text);
    let reasoning = &events.last().unwrap()["response"]["output"][0];
    let reasoning_blob = reasoning["encrypted_content"].as_str().expect("sealed").to_owned();
    let forged = format!("{}AAAA", &blob[..blob.len() - 4]);
    let goes_on = |blob: &str| {
        json!({"model": "test-model", "input": [{"role": "user", "content": "Build a boat."},
            {"type": "compaction", "id": "cm_1", "encrypted_content": blob}, {"role": "user", "content": "Go on."}]})
    };
    // Any key of the tenant: it is the tenant's history.
    for key in ["key-alice", "key-bob"] {
        let answer = post(&gateway, key, "/v1/responses", &goes_on(&blob)).await;
        assert_eq!(answer.status, 200, "{key}: {:#}", answer.body);
    }
    let asked = upstream.requests().len();
    for (key, blob) in [
        ("key-eve", blob.as_str()),
        ("key-alice", &forged),
        ("key-alice", &reasoning_blob),
        ("key-alice", "gAAAAABo-from-elsewhere"),
        ("key-alice", ""),
    ] {
        for path in ["/v1/responses", "/v1/responses/compact"] {
            let answer = post(&gateway, key, path, &goes_on(blob)).await;
            let error = &answer.body["error"];
            assert_eq!(
                (answer.status, error["code"].as_str()),
                (400, Some("invalid_encrypted_content")),
                "{error:#}"
            );
            assert_eq!(error["param"], "input[1].encrypted_content");
        }
    }
    // What seals a summary is no state of a provider: it is left out there, as anything foreign.
    let swapped = json!({"model": "test-model", "input": [{"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [], "encrypted_content": blob}, {"role": "user", "content": "Hi"}]});
    assert_eq!(post(&gateway, "key-alice", "/v1/responses", &swapped).await.status, 200);
    assert!(!upstream.last().to_string().contains("planks."));
    assert_eq!(upstream.requests().len(), asked + 1, "the model is not asked about half a history");
    // Scopes are those of a response.
    assert_eq!(
        post(&gateway, "key-reader", "/v1/responses/compact", &ask(&conversation())).await.status,
        403
    );
    assert_eq!(
        post(&gateway, "key-nobody", "/v1/responses/compact", &ask(&conversation())).await.status,
        401
    );
    let long = post(&gateway, "key-alice", "/v1/responses", &goes_on(&"x".repeat(10_485_761))).await;
    assert_eq!(long.body["error"]["param"], "input[1].encrypted_content");
    assert_eq!(long.body["error"]["code"], "string_above_max_length");
}

#[tokio::test]
async fn a_stored_chain_whose_key_is_lost_is_refused_until_it_is_compacted_anew() {
    let upstream = Upstream::spawn().await;
    let folder = tempfile::tempdir().unwrap();
    let key = |byte: u8| vec![std::sync::Arc::new(secrecy::SecretBox::new(Box::new([byte; 32])))];
    let gateway = async |byte: u8| {
        let database = folder.path().join("responses.db");
        Gateway::with_upstream(&upstream)
            .database(database)
            .set(|settings| settings.seal.keys = key(byte))
            .spawn()
            .await
    };
    let before = gateway(1).await;
    upstream.text(SUMMARY);
    let compaction = before.create(ask(&triggered())).await;
    let next = json!({"model": "test-model", "previous_response_id": compaction["id"], "input": "On."});
    assert_eq!(before.create(next.clone()).await["status"], "completed");
    before.stop().await;
    let after = gateway(2).await;
    let error = after.refuse(next, 400, "invalid_encrypted_content").await;
    assert_eq!(error["param"], "previous_response_id");
    after.stop().await;
}

#[tokio::test]
async fn a_compaction_heeds_no_choice_of_tools_and_no_form_of_the_answer() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text(SUMMARY);
    let mut body = request(&triggered());
    body["tools"] = json!([{"type": "function", "name": "buy", "parameters": {"type": "object"}}]);
    body["tool_choice"] = json!("required");
    body["text"] = json!({"format": {"type": "json_schema", "name": "n", "strict": true,
        "schema": {"type": "object", "properties": {}, "required": [], "additionalProperties": false}}});
    let response = gateway.create(body).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert_eq!(response["output"][0]["type"], "compaction");
    assert_eq!(upstream.last().get("response_format"), None);
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(response["tool_choice"], "required", "the echo is the request's");
}

#[tokio::test]
async fn a_conversation_that_does_not_fit_is_compacted_without_its_oldest_items_where_that_is_allowed() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .provider(|provider| provider.context_window = antwort::config::ContextWindow::All(1000))
        .spawn()
        .await;
    let long = "word ".repeat(1000);
    let input = json!([{"role": "user", "content": "Build a boat."}, {"role": "assistant", "content": long},
        {"role": "user", "content": "And a mast."}]);
    let mut body = json!({"model": "test-model", "input": input});
    let refused = compact(&gateway, &body).await;
    assert_eq!(
        (refused.status, refused.body["error"]["code"].as_str()),
        (400, Some("context_length_exceeded"))
    );
    assert!(upstream.requests().is_empty());
    body["truncation"] = json!("auto");
    upstream.text(SUMMARY);
    let made = compact(&gateway, &body).await;
    assert_eq!(made.status, 200, "{:#}", made.body);
    let told: Vec<_> = said(&upstream.last()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0] == "And a mast." && told[1].contains("summary"), "the question stays: {told:?}");
    assert_eq!(made.body["output"].as_array().unwrap().len(), 3, "what the user said is kept as it is");
}
