//! A fleet whose database was migrated by a later version, as in a rolling upgrade.

use antwort::config::Role;
use serde_json::json;

use super::pair::{Pair, ask, becomes, id_of, in_background, replica, words};
use crate::support::gateway::{Gateway, text_of};

/// What a later version might add: it expands, so that this version's statements go on.
const NEXT_MIGRATION: &str = "
    ALTER TABLE responses ADD COLUMN test_only text;
    ALTER TABLE runs ADD COLUMN test_only bigint NOT NULL DEFAULT 7;
    ALTER TABLE conversations ADD COLUMN test_only bigint NOT NULL DEFAULT 7;
    CREATE TABLE test_only (response uuid PRIMARY KEY, note text);
    CREATE INDEX responses_test_only ON responses (test_only) WHERE test_only IS NOT NULL;
    UPDATE schema_version SET version = version + 1;
";

/// A turn of each kind at this gateway, behind a response; returns the last.
async fn turns(gateway: &Gateway, pair: &Pair, previous: &str) -> String {
    pair.upstream.text("One.").text("Two.");
    let mut body = ask("first");
    body["previous_response_id"] = json!(previous);
    let first = id_of(&gateway.create(body).await);
    let mut body = in_background("second");
    body["previous_response_id"] = json!(first);
    let second = id_of(&gateway.create(body).await);
    assert_eq!(text_of(&becomes(gateway, &second, "completed").await), "Two.");
    second
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_of_this_version_serve_a_database_that_the_next_has_migrated() {
    let pair = Pair::start().await;
    pair.upstream.text("Zero.");
    let mut last = id_of(&pair.first.create(ask("begin")).await);
    pair.upstream.reply(words(200));
    let runs = id_of(&pair.first.create(in_background("Hi")).await);
    becomes(&pair.first, &runs, "in_progress").await;
    // A replica of the next version starts, and migrates.
    let sql = pair.database.sql().await;
    sql.batch_execute(NEXT_MIGRATION).await.unwrap();
    becomes(&pair.first, &runs, "completed").await;
    // It writes what it alone knows, in rows that all share.
    sql.execute("UPDATE responses SET test_only = 'x'", &[]).await.unwrap();
    for gateway in pair.in_turn().take(4) {
        last = turns(gateway, &pair, &last).await;
    }
    // One of this version that crashes meanwhile comes back.
    let later = replica(&pair.upstream, &pair.database, "postgres:", Role::All).spawn().await;
    last = turns(&later, &pair, &last).await;
    let messages = pair.upstream.last()["messages"].as_array().unwrap().len();
    assert_eq!(messages, 2 + 4 * 5 - 1, "the chain is whole");
    let kept = sql.query_one("SELECT count(*) FROM responses WHERE test_only = 'x'", &[]).await.unwrap();
    assert_eq!(kept.get::<_, i64>(0), 2, "what the next version wrote is left as it is");
    let path = format!("/v1/responses/{last}");
    assert_eq!(pair.first.delete(&path).await.status, 200);
    assert_eq!(later.get(&path).await.status, 404);
}
