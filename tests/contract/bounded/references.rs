//! References to items: whose they are and how often they are named must not matter to others.

use serde_json::{Value, json};

use antwort_test_support::configured::settings;
use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::upstream::Upstream;

const KEYS: &str = "
auth:
  keys:
    ann: {key: key-ann, tenant: a}
    bob: {key: key-bob, tenant: b}
";

async fn create(gateway: &Gateway, key: &str, body: Value) -> (u16, Value) {
    let request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
    let answer = gateway.send(request.header("authorization", format!("Bearer {key}"))).await;
    (answer.status, answer.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_another_tenant_uses_thousands_of_times_leads_to_ones_own_item() {
    let upstream = Upstream::spawn().await;
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("test.db");
    let gateway = Gateway::with(settings(&upstream, &[], KEYS)).database(database).spawn().await;
    let said = |text: &str| json!({"role": "user", "content": text, "id": "msg_1"});
    let reference = json!({"type": "item_reference", "id": "msg_1"});
    let ask = |input: Value| json!({"model": "test-model", "input": input});

    let theirs: Vec<Value> = (0..5_000).map(|_| said("theirs")).collect();
    assert_eq!(create(&gateway, "key-ann", ask(json!(theirs))).await.0, 200);
    let (status, error) = create(&gateway, "key-bob", ask(json!([reference]))).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("item_not_found")));

    assert_eq!(create(&gateway, "key-bob", ask(json!([said("mine")]))).await.0, 200);
    let often: Vec<Value> = (0..300).map(|_| reference.clone()).collect();
    assert_eq!(create(&gateway, "key-bob", ask(json!(often))).await.0, 200);
    let shown = upstream.last()["messages"].as_array().unwrap().clone();
    assert_eq!(shown.len(), 300);
    assert!(shown.iter().all(|message| message["content"] == "mine"), "{}", shown[0]);
}
