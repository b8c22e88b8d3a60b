//! What such a row has and has not, and what can be done with it.

use std::path::Path;

use serde_json::{Value, json};

use super::{Bed, ask, fail, listed, models, on_both, read, refusal, send, until_listed};
use antwort_test_support::eventually;
use antwort_test_support::gateway::text_of;
use antwort_test_support::openapi;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::{Reply, Upstream};
use antwort_test_support::websocket::WebSocket;

on_both! {
    it_is_found_by_list_status_id_and_trace_and_has_no_content,
    it_is_its_owners_and_is_deleted_and_erased_like_a_response,
    it_cannot_be_continued,
    it_adds_nothing_to_a_conversation,
    one_over_a_websocket_leaves_a_row_too,
}

/// A request whose fields have words that must not be stored.
fn wordy(stream: bool) -> Value {
    json!({
        "model": "test-model",
        "input": [{"role": "user", "content": "words of the user"}],
        "instructions": "words of the instructions",
        "metadata": {"key": "words of the metadata"},
        "user": "words of the name",
        "safety_identifier": "words of the identifier",
        "tools": [{"type": "function", "name": "f", "description": "words of the tool"}],
        "stream": stream,
    })
}

async fn it_is_found_by_list_status_id_and_trace_and_has_no_content(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    let busy = json!({"error": {"message": "words of the provider"}}).to_string();
    for (count, stream) in [(1, false), (2, true)] {
        for _attempt in 0..3 {
            bed.upstream.reply(Reply::Status(503, vec![], busy.clone()));
        }
        let answer = send(&gateway, "key-alice", "POST", "/v1/responses", Some(&wordy(stream))).await;
        assert!(answer.status >= 500, "{:#}", answer.body);
        let [newest, ..] = &until_listed(&gateway, "key-alice", count).await[..] else { panic!("none") };
        assert_eq!((&newest["status"], &newest["model"]), (&json!("failed"), &json!("test-model")));
        assert_eq!(newest["error"]["code"], answer.body["error"]["code"], "{newest:#}");
        assert_eq!((&newest["output"], &newest["tools"]), (&json!([]), &json!([])));
        let path = format!("/v1/responses/{}", newest["id"].as_str().unwrap());
        assert_eq!(read(&gateway, "key-alice", &path).await.body, *newest);
        let trace = read(&gateway, "key-alice", &format!("{path}/trace")).await;
        assert_eq!(trace.status, 200, "{:#}", trace.body);
        openapi::assert_is("ResponseTrace", &trace.body);
        let turn = &trace.body["turns"][0];
        assert_eq!((&turn["provider"], &turn["attempts"]), (&json!("default"), &json!(3)), "{turn:#}");
        assert_eq!(turn["retry_reasons"], json!(["status_5xx", "status_5xx"]), "{turn:#}");
        assert!(trace.body["ended_at"].is_i64(), "{:#}", trace.body);
        let items = read(&gateway, "key-alice", &format!("{path}/input_items")).await;
        assert_eq!((items.status, &items.body["data"]), (200, &json!([])));
        for shown in [newest, &trace.body] {
            assert!(!shown.to_string().contains("words of"), "{shown:#}");
        }
    }
    assert_eq!(listed(&gateway, "key-alice", "&status=failed").await.len(), 2);
    assert_eq!(listed(&gateway, "key-alice", "&status=completed").await.len(), 0);
    let summary = listed(&gateway, "key-alice", "&status=failed&view=summary").await;
    assert_eq!((&summary[0]["retries"], &summary[0]["turns"]), (&json!(2), &json!(1)), "{summary:#?}");
}

async fn it_is_its_owners_and_is_deleted_and_erased_like_a_response(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    for _request in 0..3 {
        fail(&bed, &gateway, "key-alice", &ask("test-model")).await;
    }
    let rows = until_listed(&gateway, "key-alice", 3).await;
    let path = format!("/v1/responses/{}", rows[0]["id"].as_str().unwrap());
    for stranger in ["key-bob", "key-other"] {
        assert_eq!(listed(&gateway, stranger, "").await.len(), 0, "{stranger}");
        for path in [path.clone(), format!("{path}/trace")] {
            assert_eq!(read(&gateway, stranger, &path).await.status, 404, "{stranger}");
        }
        assert_eq!(send(&gateway, stranger, "DELETE", &path, None).await.status, 404, "{stranger}");
    }
    assert_eq!(send(&gateway, "key-alice", "DELETE", &path, None).await.status, 200);
    assert_eq!(read(&gateway, "key-alice", &path).await.status, 404);
    let erased = send(&gateway, "key-eraser", "DELETE", "/v1/admin/data?tenant=default", None).await;
    assert_eq!((erased.status, &erased.body["responses"]), (200, &json!(2)), "{:#}", erased.body);
    assert_eq!(listed(&gateway, "key-alice", "").await.len(), 0);
}

async fn it_cannot_be_continued(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    bed.upstream.text("One.");
    let first = send(&gateway, "key-alice", "POST", "/v1/responses", Some(&ask("test-model"))).await.body;
    let next = |previous: &Value| json!({"model": "test-model", "input": "more words", "previous_response_id": previous});
    fail(&bed, &gateway, "key-alice", &next(&first["id"])).await;
    let failed = until_listed(&gateway, "key-alice", 2).await.swap_remove(0);
    assert_eq!((&failed["status"], &failed["previous_response_id"]), (&json!("failed"), &Value::Null));
    let asked = bed.upstream.requests().len();
    for extra in [json!({}), json!({"stream": true}), json!({"store": false}), json!({"background": true})] {
        let mut body = next(&failed["id"]);
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let refused = send(&gateway, "key-alice", "POST", "/v1/responses", Some(&body)).await;
        let error = &refused.body["error"];
        let code = json!("previous_response_without_content");
        assert_eq!((refused.status, &error["code"]), (400, &code), "{extra}: {:#}", refused.body);
        assert_eq!(error["param"], "previous_response_id");
    }
    assert_eq!(bed.upstream.requests().len(), asked, "the model is not asked without the conversation");
    // What came before it goes on.
    bed.upstream.text("Two.");
    let second = send(&gateway, "key-alice", "POST", "/v1/responses", Some(&next(&first["id"]))).await;
    assert_eq!(text_of(&second.body), "Two.");
    assert_eq!(bed.upstream.last()["messages"].as_array().unwrap().len(), 3, "{}", bed.upstream.last());
}

async fn it_adds_nothing_to_a_conversation(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    let made = send(&gateway, "key-alice", "POST", "/v1/conversations", Some(&json!({}))).await;
    let conversation = made.body["id"].clone();
    let ask = json!({"model": "test-model", "input": "Hi", "conversation": conversation});
    fail(&bed, &gateway, "key-alice", &ask).await;
    let failed = until_listed(&gateway, "key-alice", 1).await.swap_remove(0);
    assert_eq!((&failed["status"], &failed["conversation"]), (&json!("failed"), &Value::Null));
    let path = format!("/v1/conversations/{}/items", conversation.as_str().unwrap());
    assert_eq!(read(&gateway, "key-alice", &path).await.body["data"], json!([]));
    bed.upstream.text("Hello.");
    let answer = send(&gateway, "key-alice", "POST", "/v1/responses", Some(&ask)).await;
    assert_eq!((answer.status, &answer.body["status"]), (200, &json!("completed")), "it is not locked");
    assert_eq!(bed.upstream.last()["messages"].as_array().unwrap().len(), 1);
}

async fn one_over_a_websocket_leaves_a_row_too(bed: Bed) {
    let gateway = bed.gateway(|_| ()).await;
    let key = [("authorization", "Bearer key-alice")];
    let mut socket = WebSocket::connect_with(&gateway.base, "/v1/responses", &key).await.unwrap();
    for store in [false, true] {
        bed.upstream.reply(refusal());
        let mut body = ask("test-model");
        body["store"] = store.into();
        let turn = socket.turn(body).await;
        assert_eq!(turn.end["status"], 400, "{:#}", turn.end);
    }
    let failed = until_listed(&gateway, "key-alice", 1).await;
    assert_eq!((models(&failed), &failed[0]["status"]), (vec!["test-model"], &json!("failed")));
}

/// Whether a file of the folder has these words.
fn has(folder: &Path, words: &str) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let mut files = files.filter(|bytes| bytes.len() >= words.len());
    files.any(|bytes| bytes.windows(words.len()).any(|found| found == words.as_bytes()))
}

#[tokio::test]
async fn the_id_of_the_log_leads_to_the_row_and_no_file_has_the_content() {
    let (upstream, folder) = (Upstream::spawn().await, tempfile::tempdir().unwrap());
    let process = Process::start_with_environment(folder.path(), &upstream, &[("ANTWORT_LOG", "info")]).await;
    let http = reqwest::Client::new();
    upstream.reply(refusal());
    let body = wordy(false).to_string();
    let create =
        http.post(format!("{}/v1/responses", process.base)).header("content-type", "application/json");
    assert_eq!(create.body(body).send().await.unwrap().status(), 400);
    let log = process.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let failed = lines.into_iter().find(|line| line["message"] == "a response failed");
    let id = failed.unwrap_or_else(|| panic!("{log}"))["response_id"].as_str().unwrap().to_owned();
    let get = async || {
        let answer = http.get(format!("{}/v1/responses/{id}", process.base)).send().await.unwrap();
        serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap()
    };
    assert!(eventually(async || get().await["status"] == "failed").await, "{id}: {:#}", get().await);
    assert!(has(folder.path(), &id), "its row is in the database");
    assert!(!has(folder.path(), "words of"));
}
