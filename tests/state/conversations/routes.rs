//! The routes of conversations, and whose they are.

use serde_json::{Value, json};

use super::{conversation, said, shown};
use antwort_test_support::configured;
use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::upstream::Upstream;

fn code(answer: &HttpAnswer) -> (u16, &str, &str) {
    let error = &answer.body["error"];
    (answer.status, error["code"].as_str().unwrap_or("-"), error["param"].as_str().unwrap_or("-"))
}

#[tokio::test]
async fn a_conversation_is_created_read_changed_and_deleted() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let made = gateway.post("/v1/conversations", &json!({"metadata": {"topic": "boats"}})).await.body;
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("conv_") && id.len() == 37, "{id}");
    assert!(made["created_at"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!((&made["object"], &made["metadata"]), (&json!("conversation"), &json!({"topic": "boats"})));
    let path = format!("/v1/conversations/{id}");
    assert_eq!(gateway.get(&path).await.body, made);
    let changed = gateway.post(&path, &json!({"metadata": {"topic": "ships"}})).await.body;
    assert_eq!(changed["metadata"], json!({"topic": "ships"}));
    assert_eq!((&changed["id"], &changed["created_at"]), (&made["id"], &made["created_at"]));
    assert_eq!(gateway.get(&path).await.body, changed);
    for prefix in ["", "/openai/v1"] {
        assert_eq!(gateway.get(&format!("{prefix}/conversations/{id}")).await.body, changed);
    }
    let deleted = gateway.delete(&path).await;
    assert_eq!(deleted.body, json!({"id": id, "object": "conversation.deleted", "deleted": true}));
    for answer in [
        gateway.get(&path).await,
        gateway.delete(&path).await,
        gateway.post(&path, &json!({"metadata": {}})).await,
        gateway.get(&format!("{path}/items")).await,
        gateway.post(&format!("{path}/items"), &json!({"items": [{"role": "user", "content": "x"}]})).await,
    ] {
        assert_eq!(code(&answer), (404, "not_found", "-"), "{:#}", answer.body);
    }
    let empty = gateway.post("/v1/conversations", &json!({})).await.body;
    assert_eq!(empty["metadata"], json!({}));
}

#[tokio::test]
async fn items_are_added_listed_read_and_deleted() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([{"role": "user", "content": "one"}])).await;
    let path = format!("/v1/conversations/{id}/items");
    let more = json!({"items": [
        {"role": "assistant", "content": "two"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {"type": "message", "id": "msg_mine", "role": "user", "content": [{"type": "input_text", "text": "three"}]},
    ]});
    let added = gateway.post(&path, &more).await;
    assert_eq!((added.status, &added.body["object"]), (200, &json!("list")));
    let added = added.body["data"].as_array().unwrap().clone();
    assert_eq!(added.len(), 4);
    assert_eq!(added[3]["id"], "msg_mine");
    assert!(added[0]["id"].as_str().unwrap().starts_with("msg_"), "{}", added[0]);
    assert!(added[1]["id"].as_str().unwrap().starts_with("fc_"), "{}", added[1]);
    assert_eq!(said(&gateway, &id).await, ["one", "two", "function_call", "function_call_output", "three"]);
    let newest = gateway.get(&format!("{path}?limit=2")).await.body;
    let texts: Vec<_> = newest["data"].as_array().unwrap().iter().map(shown).collect();
    assert_eq!(
        (texts, &newest["has_more"]),
        (vec!["three".into(), "function_call_output".into()], &json!(true))
    );
    assert_eq!((&newest["first_id"], &newest["last_id"]), (&json!("msg_mine"), &added[2]["id"]));
    let after = newest["last_id"].as_str().unwrap();
    let rest = gateway.get(&format!("{path}?after={after}&include[]=reasoning.encrypted_content")).await.body;
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["has_more"]), (3, &json!(false)));
    for item in &added {
        let found = gateway.get(&format!("{path}/{}", item["id"].as_str().unwrap())).await;
        assert_eq!(found.body, *item);
    }
    let deleted = gateway.delete(&format!("{path}/msg_mine")).await;
    assert_eq!((&deleted.body["id"], &deleted.body["object"]), (&json!(id), &json!("conversation")));
    assert_eq!(said(&gateway, &id).await.len(), 4);
    for answer in
        [gateway.get(&format!("{path}/msg_mine")).await, gateway.delete(&format!("{path}/msg_mine")).await]
    {
        assert_eq!(code(&answer), (404, "not_found", "-"));
    }
}

#[tokio::test]
async fn bad_requests_are_refused_with_their_fields() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let id = conversation(&gateway, json!([{"id": "msg_1", "role": "user", "content": "one"}])).await;
    let (path, items) = (format!("/v1/conversations/{id}"), format!("/v1/conversations/{id}/items"));
    let many: Vec<_> = (0..21).map(|_| json!({"role": "user", "content": "x"})).collect();
    let of_id = |id: &str| json!({"id": id, "role": "user", "content": "x"});
    for (path, body, expected) in [
        ("/v1/conversations", json!({"items": many}), ("array_above_max_length", "items")),
        (&items, json!({"items": many}), ("array_above_max_length", "items")),
        (&items, json!({}), ("missing_required_parameter", "items")),
        (&path, json!({}), ("missing_required_parameter", "metadata")),
        (&path, json!({"metadata": {"k": 1}}), ("invalid_type", "metadata.k")),
        (&path, json!({"name": "x"}), ("unknown_parameter", "name")),
        (
            &items,
            json!({"items": [{"role": "user", "content": [{"type": "x"}]}]}),
            ("invalid_value", "items[0].content[0].type"),
        ),
        (&items, json!({"items": [of_id("new"), of_id("msg_1")]}), ("invalid_value", "items[1].id")),
        ("/v1/conversations", json!({"items": [of_id("a"), of_id("a")]}), ("invalid_value", "items[1].id")),
        (
            &items,
            json!({"items": [{"type": "item_reference", "id": "msg_1"}]}),
            ("unsupported_parameter", "items[0].type"),
        ),
    ] {
        let answer = gateway.post(path, &body).await;
        assert_eq!(code(&answer), (400, expected.0, expected.1), "{path} {body}");
    }
    for (query, param) in
        [("?limit=0", "limit"), ("?after=msg_none", "after"), ("?include[]=x", "include[0]")]
    {
        let answer = gateway.get(&format!("{items}{query}")).await;
        assert_eq!((answer.status, &answer.body["error"]["param"]), (400, &json!(param)));
    }
    assert_eq!(said(&gateway, &id).await, ["one"]);
}

const KEYS: &str = "
auth:
  keys:
    alice: {key: key-alice}
    bob: {key: key-bob}
    creator: {key: key-creator, owner: alice, scopes: ['responses:create']}
    reader: {key: key-reader, owner: alice, scopes: ['responses:read']}
    deleter: {key: key-deleter, owner: alice, scopes: ['responses:delete']}
    unsure: {key: key-unsure, store: refuse}
    private: {key: key-private, store: never}
";

#[tokio::test]
async fn a_conversation_is_its_owners_and_routes_have_scopes() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with(configured::settings(&upstream, &[], KEYS)).spawn().await;
    let send = async |key: &str, method: &str, path: &str, body: &Value| -> HttpAnswer {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = gateway.http.request(method.clone(), format!("{}/v1{path}", gateway.base));
        let request = if method == reqwest::Method::POST { request.json_body(body) } else { request };
        gateway.send(request.header("authorization", format!("Bearer {key}"))).await
    };
    let items = json!({"items": [{"id": "msg_1", "role": "user", "content": "secret"}]});
    let made = send("key-alice", "POST", "/conversations", &items).await.body;
    let path = format!("/conversations/{}", made["id"].as_str().unwrap());
    let of_items = format!("{path}/items");
    let item = format!("{of_items}/msg_1");
    let more = json!({"items": [{"role": "user", "content": "x"}]});
    let cases = [
        ("POST", &*path, &json!({"metadata": {}}), "creator"),
        ("POST", &of_items, &more, "creator"),
        ("GET", &path, &Value::Null, "reader"),
        ("GET", &of_items, &Value::Null, "reader"),
        ("GET", &item, &Value::Null, "reader"),
        ("DELETE", &item, &Value::Null, "deleter"),
        ("DELETE", &path, &Value::Null, "deleter"),
    ];
    for (method, path, body, _) in cases {
        assert_eq!(send("key-bob", method, path, body).await.status, 404, "{method} {path}");
    }
    let intruder = json!({"model": "test-model", "input": "Hi", "conversation": made["id"]});
    let refused = send("key-bob", "POST", "/responses", &intruder).await;
    assert_eq!(code(&refused), (404, "not_found", "conversation"));
    for (method, path, body, allowed) in cases {
        for key in ["creator", "reader", "deleter"] {
            if key != allowed {
                assert_eq!(
                    send(&format!("key-{key}"), method, path, body).await.status,
                    403,
                    "{key} {method}"
                );
            }
        }
        assert_eq!(send(&format!("key-{allowed}"), method, path, body).await.status, 200, "{method} {path}");
    }
    assert_eq!(send("key-creator", "POST", "/conversations", &json!({})).await.status, 200);
    assert_eq!(send("key-reader", "POST", "/conversations", &json!({})).await.status, 403);
}

#[tokio::test]
async fn keys_that_store_nothing_have_no_conversations() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with(configured::settings(&upstream, &[], KEYS)).spawn().await;
    let post = async |key: &str, path: &str, body: &Value| -> HttpAnswer {
        let request = gateway.http.post(format!("{}{path}", gateway.base)).json_body(body);
        gateway.send(request.header("authorization", format!("Bearer {key}"))).await
    };
    let create = json!({"model": "test-model", "input": "Hi", "conversation": "conv_1"});
    for (key, expected) in [("key-private", "unsupported_parameter"), ("key-unsure", "unsupported_value")] {
        for (path, body) in [
            ("/v1/conversations", &json!({})),
            ("/v1/conversations/conv_1", &json!({"metadata": {}})),
            ("/v1/conversations/conv_1/items", &json!({"items": [{"role": "user", "content": "x"}]})),
            ("/v1/responses/input_tokens", &create),
        ] {
            // Only bodies of responses have a field of this name.
            let param = if path.starts_with("/v1/responses") { "conversation" } else { "-" };
            assert_eq!(code(&post(key, path, body).await), (400, expected, param), "{key} {path}");
        }
    }
    let made = post("key-private", "/v1/responses", &create).await;
    assert_eq!(code(&made), (400, "unsupported_parameter", "conversation"));
    assert_eq!(post("key-unsure", "/v1/responses", &create).await.status, 400);
    assert!(upstream.requests().is_empty());
}
