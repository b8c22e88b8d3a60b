//! A database that is one expanding migration ahead of its replicas: one that ran before it, and one that starts after it.

use serde_json::json;
use tokio_postgres::error::SqlState;

use super::{Fleet, ask, becomes, endless, id_of, queue, read, slow_answer, words};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody, frames, text_of};
use antwort_test_support::mcp_server::McpServer;
use antwort_test_support::next_version;
use antwort_test_support::stream_validator::assert_valid_stream;
use antwort_test_support::upstream::Reply;

/// The migration of the next version, as that makes it: in one transaction.
fn expanding() -> String {
    format!(
        "BEGIN; LOCK TABLE antwort_schema IN ACCESS EXCLUSIVE MODE; {} UPDATE antwort_schema SET version = version + 1; COMMIT;",
        next_version::POSTGRES
    )
}

/// As a program does that migrates: again, if it was in the way of a transaction.
async fn expand(fleet: &Fleet) {
    let expanded = async || {
        let Err(error) = fleet.database.sql().await.batch_execute(&expanding()).await else { return true };
        assert_eq!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED), "{error}");
        false
    };
    assert!(eventually(expanded).await);
}

/// Everything that reads and writes the tables, begun at one and ended at the other.
async fn both_serve(fleet: &Fleet, one: &Gateway, two: &Gateway) {
    let upstream = &fleet.upstream;
    let first = one.create(ask("1")).await;
    let next = json!({"model": "test-model", "input": "2", "previous_response_id": first["id"]});
    let next = two.stream(next).await.response;
    assert_eq!(read(one, &id_of(&next)).await, next);
    let conversation = id_of(&one.post("/v1/conversations", &json!({})).await.body);
    let turn = json!({"model": "test-model", "input": "3", "conversation": conversation});
    assert_eq!(two.create(turn).await["status"], "completed");
    let items = one.get(&format!("/v1/conversations/{conversation}/items")).await.body;
    assert_eq!(items["data"].as_array().unwrap().len(), 2);

    upstream.reply(slow_answer(4, 30));
    let id = queue(one).await;
    let stream = |gateway: &Gateway| reqwest::get(format!("{}/v1/responses/{id}?stream=true", gateway.base));
    let (here, there) = tokio::join!(stream(one), stream(two));
    let (here, there) = (here.unwrap().text().await.unwrap(), there.unwrap().text().await.unwrap());
    assert_eq!(here, there);
    assert_eq!(text_of(&assert_valid_stream(&frames(&here)).response), words(4));

    upstream.reply(endless());
    let id = queue(two).await;
    assert!(eventually(async || upstream.open_streams() == 1).await);
    let cancelled = one.post(&format!("/v1/responses/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.body["status"], "cancelled", "{:#}", cancelled.body);
    assert_eq!(two.delete(&format!("/v1/responses/{id}")).await.status, 200);

    let keyed = async |gateway: &Gateway| {
        let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&ask("keyed"));
        // A key of its own each time.
        let answer = request.header("idempotency-key", id_of(&first)).send().await.unwrap();
        answer.text().await.unwrap()
    };
    assert_eq!(keyed(one).await, keyed(two).await);

    let server = McpServer::spawn().await;
    let tool = json!({"type": "mcp", "server_label": "s", "server_url": server.url()});
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "hi"}))]));
    let mut body = json!({"model": "test-model", "input": "Go.", "tools": [tool]});
    let asked = one.create(body.clone()).await;
    body["previous_response_id"] = asked["id"].clone();
    body["input"] = json!([{"type": "mcp_approval_response", "approve": true,
        "approval_request_id": super::item(&asked, "mcp_approval_request")["id"]}]);
    assert_eq!(super::kinds(&two.create(body).await), ["mcp_call", "message"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_of_before_a_migration_and_one_of_after_it_serve_together() {
    let fleet = Fleet::new().await;
    let before = fleet.replica().await;
    // Its statements are prepared, and a response of the old schema goes on while the tables change.
    let old = before.create(ask("old")).await;
    fleet.upstream.reply(slow_answer(10, 60));
    let running = queue(&before).await;
    becomes(&before, &running, "in_progress").await;
    expand(&fleet).await;
    let after = fleet.replica().await;
    assert_eq!(text_of(&becomes(&after, &running, "completed").await), words(10));
    assert_eq!(read(&after, &id_of(&old)).await, old);
    both_serve(&fleet, &before, &after).await;
    both_serve(&fleet, &after, &before).await;
    let sql = fleet.database.sql().await;
    let new = sql.query_one("SELECT count(*) FROM responses WHERE test_only <> 'new'", &[]).await.unwrap();
    assert_eq!(new.get::<_, i64>(0), 0);
}

/// They wait for the migration, and go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_the_schema_changes_under_it() {
    let fleet = Fleet::new().await;
    let replicas = fleet.two().await;
    let load = async |gateway: &Gateway| {
        let mut previous = serde_json::Value::Null;
        for number in 0..25 {
            let body = json!({"model": "test-model", "input": format!("{number}"),
                "previous_response_id": previous});
            previous = gateway.create(body).await["id"].clone();
        }
        id_of(&json!({"id": previous}))
    };
    let migrate = async {
        assert!(eventually(async || fleet.upstream.requests().len() > 8).await);
        expand(&fleet).await;
    };
    let (one, two, ()) = tokio::join!(load(&replicas[0]), load(&replicas[1]), migrate);
    for (id, other) in [(one, &replicas[1]), (two, &replicas[0])] {
        let items = other.get(&format!("/v1/responses/{id}/input_items?limit=100")).await;
        assert_eq!(items.status, 200, "{:#}", items.body);
    }
}
