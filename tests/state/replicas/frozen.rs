//! A gateway that is stopped (`SIGSTOP`, a paused machine) in the middle of a transaction.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::processes::{request, start};
use antwort_test_support::eventually;
use antwort_test_support::postgres::Database;
use antwort_test_support::upstream::Upstream;

/// Transactions that wait for the next statement of their client. Those that have failed (`(aborted)`) hold no lock any more, and
/// wait as long as their client does: their limits ended with what they had set.
const OPEN: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'idle in transaction'";

/// The transaction once stayed open, with its rows locked, for as long as the gateway was stopped; and what was made when
/// it went on failed with `storage_timeout`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_a_gateway_that_is_stopped_ends_with_its_lease_and_is_made_again() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let database = Database::new().await;
    let gateway = start(folder.path(), &upstream, &database, "all").await;
    let sql = database.sql().await;
    let open = async || sql.query_one(OPEN, &[]).await.unwrap().get::<_, i64>(0);
    let mut caught = 0;
    for _ in 0..3 {
        let tasks = TaskTracker::new();
        let clients: Vec<_> = (0..8)
            .map(|_| {
                // Each in a conversation of its own.
                let (first, turn) = (
                    request(&gateway, "conversations", &json!({})),
                    request(&gateway, "responses", &Value::Null),
                );
                tasks.spawn(async move { converse(first, turn).await })
            })
            .collect();
        // Until it is stopped between two statements.
        let mut is_caught = false;
        while !is_caught && clients.iter().any(|client| !client.is_finished()) {
            gateway.signal("STOP");
            is_caught = open().await > 0;
            if !is_caught {
                gateway.signal("CONT");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        if is_caught {
            caught += 1;
            assert!(eventually(async || open().await == 0).await, "a transaction stays open");
            gateway.signal("CONT");
        }
        for client in clients {
            client.await.unwrap();
        }
    }
    assert!(caught > 0, "it was never stopped in a transaction");
}

/// Makes some turns of a conversation, each of which is completed.
async fn converse(first: reqwest::RequestBuilder, turn: reqwest::RequestBuilder) {
    let conversation: Value =
        serde_json::from_str(&first.send().await.unwrap().text().await.unwrap()).unwrap();
    for _ in 0..12 {
        let body = json!({"model": "test-model", "input": "Hi", "conversation": conversation["id"]});
        let request = turn.try_clone().unwrap().body(body.to_string());
        let answer = request.send().await.unwrap().text().await.unwrap();
        let response: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(response["status"], "completed", "{response:#}");
    }
}
