//! Conversations that are used at both replicas, one after the other and at the same moment.

use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Fleet, asked, endless};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;

async fn conversation(gateway: &Gateway) -> String {
    let made = gateway.post("/v1/conversations", &json!({})).await;
    super::id_of(&made.body)
}

/// What is said in a conversation, oldest first, with the ids of the items.
async fn said(gateway: &Gateway, id: &str) -> (Vec<String>, Vec<String>) {
    let page = gateway.get(&format!("/v1/conversations/{id}/items?order=asc&limit=100")).await;
    assert_eq!(page.status, 200, "{:#}", page.body);
    let items = page.body["data"].as_array().unwrap().clone();
    let text = |item: &Value| item["content"][0]["text"].as_str().unwrap().to_owned();
    (items.iter().map(text).collect(), items.iter().map(super::id_of).collect())
}

fn ask(conversation: &str, input: String) -> Value {
    json!({"model": "test-model", "conversation": conversation, "input": input})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_turns_of_a_conversation_go_to_alternating_replicas() {
    let fleet = Fleet::new().await;
    let replicas = fleet.two().await;
    let id = conversation(&replicas[0]).await;
    let mut expected = Vec::new();
    for number in 0..6 {
        let (here, there) = (&replicas[number % 2], &replicas[(number + 1) % 2]);
        fleet.upstream.text(&format!("answer {number}"));
        let body = ask(&id, format!("question {number}"));
        if number < 3 {
            here.create(body).await
        } else {
            here.stream(body).await.response
        };
        expected.push(format!("question {number}"));
        assert_eq!(asked(&fleet.upstream), expected, "turn {number}");
        expected.push(format!("answer {number}"));
        assert_eq!(said(there, &id).await.0, expected);
    }
    assert_eq!(replicas[0].delete(&format!("/v1/conversations/{id}")).await.status, 200);
    assert_eq!(replicas[1].get(&format!("/v1/conversations/{id}")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_in_which_one_replica_makes_a_response_is_locked_at_the_other() {
    let fleet = Fleet::new().await;
    let [one, two] = fleet.two().await;
    let id = conversation(&one).await;
    fleet.upstream.reply(endless());
    let mut stream = one.open_stream(ask(&id, "first".into())).await;
    stream.chunk().await.unwrap().unwrap();
    let error = two.refuse(ask(&id, "second".into()), 409, "conversation_locked").await;
    assert_eq!(error["param"], "conversation");
    drop(stream);
    let free = async || two.post("/v1/responses", &ask(&id, "third".into())).await.status == 200;
    assert!(eventually(free).await);
    assert!(!said(&one, &id).await.0.contains(&"second".to_owned()));
}

/// One is refused, or they are made one after the other; whatever is said to be made is there, whole and once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_responses_that_both_make_in_one_conversation_none_is_lost_or_torn() {
    let fleet = Fleet::new().await;
    let replicas = fleet.two().await;
    let id = conversation(&replicas[0]).await;
    let mut made = Vec::new();
    for round in 0..5 {
        let bodies = (0..4).map(|n| ask(&id, format!("question {round}.{n}")));
        let bodies: Vec<_> = bodies.collect();
        let sent = bodies.iter().enumerate().map(|(n, body)| replicas[n % 2].post("/v1/responses", body));
        let answers = join_all(sent).await;
        for (answer, body) in answers.iter().zip(&bodies) {
            match answer.status {
                200 => made.push(body["input"].as_str().unwrap().to_owned()),
                _ => assert_eq!(answer.body["error"]["code"], "conversation_locked", "{:#}", answer.body),
            }
        }
        assert!(answers.iter().any(|answer| answer.status == 200), "somebody is first");
    }
    let (here, there) = (said(&replicas[0], &id).await, said(&replicas[1], &id).await);
    assert_eq!(here, there);
    let (texts, _) = here;
    let mut questions: Vec<_> = texts.chunks(2).map(|turn| turn[0].clone()).collect();
    assert!(texts.chunks(2).all(|turn| turn[1] == "Hello there!"), "{texts:?}");
    questions.sort_unstable();
    made.sort_unstable();
    assert_eq!(questions, made);
}

/// They were once made in any order: each looked from time to time whether the conversation was free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_responses_that_both_queue_in_one_conversation_are_made_in_the_order_in_which_they_were_acknowledged()
 {
    let fleet = Fleet::new().await;
    let replicas = fleet.two().await;
    let id = conversation(&replicas[0]).await;
    fleet.upstream.always(super::slow_answer(2, 10));
    let (mut queued, mut questions) = (Vec::new(), Vec::new());
    for number in 0..8 {
        let mut body = ask(&id, format!("question {number}"));
        body["background"] = json!(true);
        queued.push(super::id_of(&replicas[number % 2].create(body).await));
        questions.push(format!("question {number}"));
    }
    for response in &queued {
        super::becomes(&replicas[0], response, "completed").await;
    }
    let (texts, _) = said(&replicas[1], &id).await;
    let asked: Vec<_> = texts.into_iter().filter(|text| text.starts_with("question")).collect();
    assert_eq!(asked, questions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_both_add_at_once_are_all_there_in_the_order_of_each() {
    let fleet = Fleet::new().await;
    let replicas = fleet.two().await;
    let id = conversation(&replicas[0]).await;
    let path = format!("/v1/conversations/{id}/items");
    let add = async |gateway: &Gateway, who: usize| {
        for number in 0..15 {
            let text = |part| format!("{who} {number:02} {part}");
            let items: Vec<_> = ["a", "b"].map(|part| json!({"role": "user", "content": text(part)})).into();
            let added = gateway.post(&path, &json!({"items": items})).await;
            assert_eq!(added.status, 200, "{:#}", added.body);
        }
    };
    tokio::join!(add(&replicas[0], 0), add(&replicas[1], 1));
    let (texts, ids) = said(&replicas[1], &id).await;
    assert_eq!((texts.len(), ids.iter().collect::<HashSet<_>>().len()), (60, 60));
    for who in ["0 ", "1 "] {
        let own: Vec<_> = texts.iter().filter(|text| text.starts_with(who)).collect();
        assert!(own.is_sorted() && own.len() == 30, "{texts:?}");
    }
    for pair in texts.chunks(2) {
        assert_eq!(pair[0].strip_suffix('a'), pair[1].strip_suffix('b'), "one request's items are together");
    }
}
