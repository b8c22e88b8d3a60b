//! One run at a time for a conversation.

use std::time::Duration;

use serde_json::json;

use super::{ask, conversation, said};
use antwort_test_support::eventually;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

#[tokio::test]
async fn a_second_response_is_refused_while_the_first_is_made() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([])).await;
    let other = conversation(&gateway, json!([])).await;
    upstream.reply(Reply::Stream(vec![chunk(json!({"content": "Hel"})), Step::Hang]));
    let mut stream = gateway.open_stream(ask(&id, "first")).await;
    stream.chunk().await.unwrap().unwrap();
    let error = gateway.refuse(ask(&id, "second"), 409, "conversation_locked").await;
    assert_eq!((&error["type"], &error["param"]), (&json!("conflict"), &json!("conversation")));
    // Others go on, and so do the routes of this one.
    gateway.create(ask(&other, "Hi")).await;
    let items = json!({"items": [{"role": "user", "content": "added"}]});
    assert_eq!(gateway.post(&format!("/v1/conversations/{id}/items"), &items).await.status, 200);
    assert_eq!(gateway.post("/v1/responses/input_tokens", &ask(&id, "x")).await.status, 200);
    // A client that has gone leaves the conversation free.
    drop(stream);
    let free = async || gateway.post("/v1/responses", &ask(&id, "third")).await.status == 200;
    assert!(eventually(free).await);
    assert_eq!(said(&gateway, &id).await[..2], ["added", "third"]);
}

#[tokio::test]
async fn a_conversation_is_free_whatever_way_a_run_has_ended() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([])).await;
    for _ in 0..3 {
        // Refused before and after the conversation was read, by the provider, cut off, and completed.
        gateway
            .refuse(ask(&id, json!([{"type": "item_reference", "id": "msg_x"}])), 400, "item_not_found")
            .await;
        upstream.reply(Reply::Status(401, Vec::new(), "{}".into()));
        assert!(gateway.post("/v1/responses", &ask(&id, "x")).await.status >= 400);
        upstream.reply(Reply::Stream(vec![
            chunk(json!({"content": "par"})),
            Step::Wait(Duration::from_millis(100)),
            Step::Cut,
        ]));
        assert_eq!(gateway.stream(ask(&id, "x")).await.response["status"], "failed");
        gateway.create(ask(&id, "x")).await;
        gateway.stream(ask(&id, "x")).await;
    }
    assert_eq!(said(&gateway, &id).await.len(), 12);
}

#[tokio::test]
async fn of_many_at_once_each_one_that_is_made_is_whole() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([])).await;
    let answers = futures_util::future::join_all((0..20).map(|n| {
        let body = ask(&id, n.to_string());
        let gateway = &gateway;
        async move { (n, gateway.post("/v1/responses", &body).await.status) }
    }))
    .await;
    let made = answers.iter().filter(|(_, status)| *status == 200).count();
    assert!(made >= 1 && answers.iter().all(|(_, status)| [200, 409].contains(status)), "{answers:?}");
    let said = said(&gateway, &id).await;
    assert_eq!(said.len(), 2 * made);
    for turn in said.chunks(2) {
        let number: usize = turn[0].parse().unwrap();
        assert_eq!(answers[number].1, 200, "{turn:?}");
    }
}

/// What was added while the summary was made was hidden by it, though it was not made of that.
#[tokio::test]
async fn a_summary_does_not_hide_what_was_added_while_it_was_made() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let before =
        json!([{"role": "user", "content": "Build a boat."}, {"role": "assistant", "content": "Planks."}]);
    let id = conversation(&gateway, before).await;
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "The "})),
        Step::Wait(Duration::from_millis(400)),
        chunk(json!({"content": "summary."})),
        finish("stop"),
        done(),
    ]));
    let compaction = ask(&id, json!([{"type": "compaction_trigger"}]));
    let summarise = gateway.create(compaction);
    let add = async {
        while upstream.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for text in ["Nails.", "Glue."] {
            let items = json!({"items": [{"role": "assistant", "content": text}]});
            assert_eq!(gateway.post(&format!("/v1/conversations/{id}/items"), &items).await.status, 200);
        }
    };
    tokio::join!(summarise, add);
    let expected = ["Build a boat.", "Planks.", "compaction_trigger", "compaction", "Nails.", "Glue."];
    assert_eq!(said(&gateway, &id).await, expected);
    gateway.create(ask(&id, "And now?")).await;
    let seen = super::asked(&upstream);
    assert_eq!(
        (&*seen[0], &seen[2..]),
        ("Build a boat.", &["Nails.", "Glue.", "And now?"].map(String::from)[..])
    );
    assert_eq!(said(&gateway, &id).await.len(), 8, "the next turn follows");
}
