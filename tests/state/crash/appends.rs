//! `kill -9` in the midst of appends to conversations and of creates with idempotency keys.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::answer;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

const ROUNDS: u64 = 20;
const CONVERSATIONS: usize = 8;

/// A create that was sent: its key, its body, and the response if the client has read all of it.
struct Sent {
    key: String,
    body: Value,
    answer: Option<Value>,
}

async fn post(http: &reqwest::Client, url: String, key: Option<&str>, body: &Value) -> Option<(u16, Value)> {
    let mut request = http.post(url).json_body(body);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, serde_json::from_str(&response.text().await.ok()?).ok()?))
}

/// Turns of one conversation, one after the other, until the gateway is gone.
async fn talk(http: reqwest::Client, base: String, conversation: String, name: String) -> Vec<Sent> {
    let mut sent = Vec::new();
    for number in 0.. {
        let key = format!("{name}-{number}");
        let body =
            json!({"model": "test-model", "input": format!("question {key}"), "conversation": conversation});
        let answered = post(&http, format!("{base}/v1/responses"), Some(&key), &body).await;
        let answer = answered.map(|(status, answer)| {
            assert_eq!(status, 200, "{answer}");
            answer
        });
        let is_gone = answer.is_none();
        sent.push(Sent { key, body, answer });
        if is_gone {
            break;
        }
    }
    sent
}

/// The texts of a conversation's items, oldest first.
async fn texts(http: &reqwest::Client, base: &str, conversation: &str) -> Vec<String> {
    let (mut texts, mut after) = (Vec::new(), String::new());
    loop {
        let url = format!("{base}/v1/conversations/{conversation}/items?limit=100&order=asc{after}");
        let page = http.get(url).send().await.unwrap().text().await.unwrap();
        let page: Value = serde_json::from_str(&page).unwrap();
        for item in page["data"].as_array().unwrap() {
            texts.push(item["content"][0]["text"].as_str().unwrap().to_owned());
        }
        if page["has_more"] == false {
            return texts;
        }
        after = format!("&after={}", page["last_id"].as_str().unwrap());
    }
}

/// A conversation is questions with their answers, each question once.
fn assert_whole_turns(texts: &[String]) {
    assert!(texts.len().is_multiple_of(2), "half a turn: {texts:?}");
    let mut seen = HashMap::new();
    for (place, turn) in texts.chunks(2).enumerate() {
        assert!(turn[0].starts_with("question ") && turn[1].starts_with("word 0 "), "{turn:?}");
        assert_eq!(seen.insert(&turn[0], place), None, "twice: {}", turn[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_leave_no_half_turn_in_a_conversation_and_no_key_that_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    upstream.always(answer(5, Duration::from_millis(2)));
    let mut gateway = Process::start(folder.path(), &upstream).await;
    let http = reqwest::Client::new();
    let url = |path: &str| format!("{}/v1/{path}", gateway.base);
    let mut conversations = Vec::new();
    for _ in 0..CONVERSATIONS {
        let (status, made) = post(&http, url("conversations"), None, &json!({})).await.unwrap();
        assert_eq!(status, 200, "{made}");
        conversations.push(made["id"].as_str().unwrap().to_owned());
    }
    let (mut acknowledged, mut cut) = (0, 0);
    // On a busy machine fewer are answered in a round.
    for round in 0..4 * ROUNDS {
        if round >= ROUNDS && acknowledged > 100 {
            break;
        }
        let mut talks = JoinSet::new();
        for (place, conversation) in conversations.iter().enumerate() {
            let name = format!("{round}-{place}");
            talks.spawn(talk(http.clone(), gateway.base.clone(), conversation.clone(), name));
        }
        // Another moment in each round.
        tokio::time::sleep(Duration::from_millis(60 + 13 * (round % ROUNDS))).await;
        gateway.kill();
        let sent: Vec<Sent> = talks.join_all().await.into_iter().flatten().collect();
        gateway.restart().await;
        for conversation in &conversations {
            assert_whole_turns(&texts(&http, &gateway.base, conversation).await);
        }
        for create in sent {
            let url = format!("{}/v1/responses", gateway.base);
            let (status, again) = post(&http, url.clone(), Some(&create.key), &create.body).await.unwrap();
            assert_eq!(status, 200, "{}: {again}", create.key);
            let stored = http.get(format!("{url}/{}", again["id"].as_str().unwrap())).send().await.unwrap();
            assert_eq!(stored.status(), 200, "{} leads to a response", create.key);
            match create.answer {
                Some(answer) => {
                    assert_eq!(again, answer, "{}", create.key);
                    acknowledged += 1;
                }
                None => cut += 1,
            }
        }
        for conversation in &conversations {
            assert_whole_turns(&texts(&http, &gateway.base, conversation).await);
        }
    }
    assert!(
        acknowledged > 100 && cut >= CONVERSATIONS,
        "{acknowledged} answered, {cut} cut: too few to say anything"
    );
    gateway.terminate();
}
