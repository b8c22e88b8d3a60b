//! The metrics by which workers are scaled.

use serde_json::json;

use antwort_test_support::eventually;
use antwort_test_support::gateway::JsonBody;
use antwort_test_support::postgres::Database;
use antwort_test_support::process::Process;
use antwort_test_support::upstream::Upstream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_says_how_many_runs_wait_when_there_is_no_worker() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::spawn().await);
    let database = Database::new().await;
    let url = database.url();
    let environment = [
        ("ANTWORT_STORE_URL", &*url),
        ("ANTWORT_SEAL_KEYS", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
        ("ANTWORT_ROLE", "gateway"),
        ("ANTWORT__STORE__POOL_SIZE", "3"),
    ];
    let gateway = Process::launch(folder.path(), &upstream, &environment);
    gateway.until_ready().await;
    let http = reqwest::Client::new();
    for _ in 0..2 {
        let body = json!({"model": "test-model", "input": "Hi", "background": true});
        let queued = http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send().await;
        assert_eq!(queued.unwrap().status(), 200);
    }
    let shows = async || {
        let metrics = http.get(format!("{}/metrics", gateway.base)).send().await.unwrap();
        metrics.text().await.unwrap().lines().any(|line| line == "antwort_jobs_queued 2")
    };
    assert!(eventually(shows).await);
}
