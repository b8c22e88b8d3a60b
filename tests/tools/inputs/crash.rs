//! `kill -9` between question and answer, and answers through another replica.

use secrecy::SecretBox;
use serde_json::{Value, json};

use super::{Stream, answer, ask, calls_weather, function, output, outputs};
use antwort_test_support::eventually;
use antwort_test_support::fleet::Fleet;
use antwort_test_support::gateway::{Gateway, JsonBody, frames, text_of};
use antwort_test_support::halting_store::{Halt, HaltingStore};
use antwort_test_support::process::Process;
use antwort_test_support::stream_validator::{assert_valid_resumed_stream, assert_valid_stream};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

async fn post(gateway: &Process, path: &str, body: &Value) -> (u16, Value) {
    let http = reqwest::Client::new();
    let answer = http.post(format!("{}{path}", gateway.base)).json_body(body).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

fn create(gateway: &Process, body: &Value) -> reqwest::RequestBuilder {
    reqwest::Client::new().post(format!("{}/v1/responses", gateway.base)).json_body(body)
}

fn follow(gateway: &Process, id: &str, after: &Value) -> reqwest::RequestBuilder {
    let url = format!("{}/v1/responses/{id}?stream=true&starting_after={after}", gateway.base);
    reqwest::Client::new().get(url)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_survives_kill_9_and_the_client_comes_back_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let mut gateway = Process::start(folder.path(), &upstream).await;
    upstream.reply(Reply::Calls(vec![("weather", json!({"city": "Berlin"})), ("time", json!({}))]));
    let mut body = ask();
    body["tools"] = json!([function("weather"), function("time")]);
    let mut stream = Stream::of(create(&gateway, &body)).await;
    let questions = stream.until("antwort:input_required", 2).await;
    let id = stream.id();
    let seen = stream.text.clone();
    let inputs = format!("/v1/responses/{id}/inputs");
    assert_eq!(post(&gateway, &inputs, &output(&questions[0], "sunny")).await.0, 202);
    gateway.kill();
    gateway.restart().await;
    // The other answer comes to the next process, and the model is interrupted by another kill.
    upstream.reply(Reply::Stream(vec![chunk(json!({"role": "assistant", "content": "It is "})), Step::Hang]));
    assert_eq!(post(&gateway, &inputs, &output(&questions[0], "sunny")).await.0, 202, "the same again");
    let mut more = Stream::of(follow(&gateway, &id, &questions[1]["sequence_number"])).await;
    assert_eq!(post(&gateway, &inputs, &output(&questions[1], "noon")).await.0, 202);
    more.until("response.output_text.delta", 1).await;
    let seen = seen + &more.text;
    gateway.kill();
    upstream.text("Sunny at noon.");
    gateway.restart().await;
    let url = format!("{}/v1/responses/{id}?stream=true", gateway.base);
    let whole = Stream::of(reqwest::Client::new().get(url)).await.rest().await;
    assert!(whole.starts_with(&seen), "what was sent stays as it was:\n{seen}\n\n{whole}");
    let response = assert_valid_resumed_stream(&frames(&whole)).response;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert_eq!(outputs(&response), ["sunny", "noon"]);
    assert!(text_of(&response).ends_with("Sunny at noon."));
    let tools = upstream.last()["messages"].to_string();
    assert!(tools.contains("sunny") && tools.contains("noon"), "{tools}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_one_replica_continues_the_stream_of_another() {
    let fleet = Fleet::new().await;
    let [first, second] = fleet.two().await;
    calls_weather(&fleet.upstream);
    let mut stream = Stream::open(&first, &ask()).await;
    let (question, id) = (stream.question().await, stream.id());
    let mut resumed = Stream::resume(&second, &id, 1).await;
    assert_eq!(resumed.question().await, question, "the other shows the open question");
    assert_eq!(answer(&second, &id, &output(&question, "sunny")).await.status, 202);
    assert_eq!(answer(&first, &id, &output(&question, "sunny")).await.status, 202, "the same at both");
    assert_eq!(answer(&first, &id, &output(&question, "rain")).await.status, 409);
    let (text, resumed) = (stream.rest().await, resumed.rest().await);
    let response = assert_valid_stream(&frames(&text)).response;
    assert_eq!((&response["status"], text_of(&response).as_str()), (&json!("completed"), "Sunny."));
    assert!(text.ends_with(&resumed), "{text}\n\n{resumed}");
    assert_eq!(fleet.upstream.requests().len(), 2, "the run went on once");
}

/// The replica that asked is gone, with all that it knew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_continues_a_run_whose_replica_is_gone() {
    let fleet = Fleet::new().await;
    let [first, second] = fleet.two().await;
    calls_weather(&fleet.upstream);
    let mut stream = Stream::open(&first, &ask()).await;
    let (question, id) = (stream.question().await, stream.id());
    drop(stream);
    first.stop().await;
    let resumed = Stream::resume(&second, &id, question["sequence_number"].as_u64().unwrap()).await;
    assert_eq!(answer(&second, &id, &output(&question, "sunny")).await.status, 202);
    let text = resumed.rest().await;
    assert!(text.contains("function_call_output") && text.contains("Sunny."), "{text}");
    assert_eq!(second.get(&format!("/v1/responses/{id}")).await.body["status"], "completed");
}

/// The process is lost when the question is committed and nobody was told of it: the time begins anew with the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_was_told_to_nobody_is_asked_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("antwort.db");
    let upstream = Upstream::spawn().await;
    let gateway = || {
        Gateway::with_upstream(&upstream)
            .set(|settings| settings.seal.keys = vec![SecretBox::new(Box::new([7; 32])).into()])
    };
    calls_weather(&upstream);
    let store = HaltingStore::open(&file, Halt::AfterTurn);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = gateway().store(store.store());
    let first = runtime.spawn(first.spawn()).await.unwrap();
    let mut stream = Stream::open(&first, &ask()).await;
    stream.until("response.output_item.done", 1).await;
    store.reached().await;
    let id = stream.id();
    drop((stream, first));
    runtime.shutdown_background();
    assert!(eventually(async || store.is_released()).await, "the first process holds nothing");
    drop(store);

    let next = gateway().database(file).spawn().await;
    let mut stream = Stream::resume(&next, &id, 0).await;
    let question = stream.question().await;
    let waits = question["expires_at"].as_i64().unwrap() - jiff::Timestamp::now().as_second();
    assert!((25..=30).contains(&waits), "{waits}");
    assert_eq!(answer(&next, &id, &output(&question, "22")).await.status, 202);
    let text = stream.rest().await;
    assert_eq!(text.matches("event: antwort:input_required\n").count(), 1, "{text}");
    assert!(text.contains("Sunny."), "{text}");
}
