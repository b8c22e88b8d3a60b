//! Erasing what tenants and owners have stored: by the route, and by the command.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::configured::settings;
use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk, done, finish};

const KEYS: &str = "
auth:
  keys:
    alice: {key: key-alice}
    bob: {key: key-bob}
    other: {key: key-other, tenant: other}
    eraser: {key: key-eraser, tenant: operators, scopes: ['data:admin']}
";

async fn send(gateway: &Gateway, key: &str, method: &str, path: &str, body: Option<Value>) -> HttpAnswer {
    let mut request = gateway.http.request(method.parse().unwrap(), format!("{}{path}", gateway.base));
    if let Some(body) = body {
        request = request.json_body(&body);
    }
    gateway.send(request.header("authorization", format!("Bearer {key}"))).await
}

async fn erase(gateway: &Gateway, key: &str, query: &str) -> HttpAnswer {
    send(gateway, key, "DELETE", &format!("/v1/admin/data{query}"), None).await
}

async fn create(gateway: &Gateway, key: &str) {
    let body = json!({"model": "test-model", "input": "Hi"});
    assert_eq!(send(gateway, key, "POST", "/v1/responses", Some(body)).await.status, 200);
}

async fn count(gateway: &Gateway, key: &str) -> usize {
    send(gateway, key, "GET", "/v1/responses", None).await.body["data"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_operator_erases_an_owner_or_a_tenant_and_is_told_how_much() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with(settings(&upstream, &[], KEYS)).spawn().await;
    for key in ["key-alice", "key-alice", "key-bob", "key-other"] {
        create(&gateway, key).await;
    }
    let mut conversations = Vec::new();
    for key in ["key-alice", "key-bob"] {
        let body = json!({"items": [{"role": "user", "content": "Hi"}]});
        let made = send(&gateway, key, "POST", "/v1/conversations", Some(body)).await;
        conversations.push(format!("/v1/conversations/{}", made.body["id"].as_str().unwrap()));
    }
    let answer = erase(&gateway, "key-eraser", "?tenant=default&owner=alice").await;
    let expected = json!({"object": "data.erased", "tenant": "default", "owner": "alice", "responses": 2,
        "conversations": 1});
    assert_eq!((answer.status, answer.body), (200, expected));
    assert_eq!((count(&gateway, "key-alice").await, count(&gateway, "key-bob").await), (0, 1));
    assert_eq!(send(&gateway, "key-alice", "GET", &conversations[0], None).await.status, 404);
    assert_eq!(send(&gateway, "key-bob", "GET", &conversations[1], None).await.status, 200);
    let answer = erase(&gateway, "key-eraser", "?tenant=default").await;
    assert_eq!((&answer.body["owner"], &answer.body["responses"]), (&Value::Null, &json!(1)));
    assert_eq!((count(&gateway, "key-bob").await, count(&gateway, "key-other").await), (0, 1));
    assert_eq!(erase(&gateway, "key-eraser", "?tenant=default").await.body["responses"], 0);
}

/// Keys have all scopes by default, and those of one tenant must not be able to erase another.
#[tokio::test]
async fn a_key_without_the_scope_by_name_erases_its_own_data_only() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with(settings(&upstream, &[], KEYS)).spawn().await;
    for key in ["key-alice", "key-bob", "key-other"] {
        create(&gateway, key).await;
    }
    for query in
        ["?tenant=default", "?tenant=default&owner=bob", "?tenant=other", "?tenant=other&owner=alice"]
    {
        let answer = erase(&gateway, "key-alice", query).await;
        let error = &answer.body["error"];
        assert_eq!((answer.status, &error["code"]), (403, &json!("insufficient_scope")), "{query}");
        assert!(error["message"].as_str().unwrap().contains("data:admin"), "{error}");
    }
    assert_eq!(erase(&gateway, "key-alice", "?tenant=default&owner=alice").await.body["responses"], 1);
    assert_eq!((count(&gateway, "key-bob").await, count(&gateway, "key-other").await), (1, 1));
}

#[tokio::test]
async fn an_erasure_that_does_not_say_whose_data_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (query, code, param) in [
        ("", "missing_required_parameter", "tenant"),
        ("?tenant=", "missing_required_parameter", "tenant"),
        ("?owner=anonymous", "missing_required_parameter", "tenant"),
        ("?tenant=default&owner=", "invalid_value", "owner"),
        ("?tenant=default&principal=x", "unknown_parameter", "principal"),
        // Of two, neither counts: what is erased is gone.
        ("?tenant=default&tenant=other", "invalid_value", "tenant"),
        ("?tenant=default&owner=anonymous&owner=x", "invalid_value", "owner"),
        ("?tenant=default&owner=anonymous&owner=anonymous", "invalid_value", "owner"),
        ("?tenant=default&owner[]=x", "invalid_value", "owner"),
    ] {
        let answer = gateway.delete(&format!("/v1/admin/data{query}")).await;
        let error = &answer.body["error"];
        let got = (answer.status, error["code"].as_str(), error["param"].as_str());
        assert_eq!(got, (400, Some(code), Some(param)), "{query}");
    }
    // Without keys all data is the caller's.
    gateway.post("/v1/responses", &json!({"model": "test-model", "input": "Hi"})).await;
    assert_eq!(gateway.delete("/v1/admin/data?tenant=default").await.body["responses"], 1);
}

#[tokio::test]
async fn a_response_that_is_under_way_is_not_stored_behind_the_erasure() {
    let upstream = Upstream::spawn().await;
    let wait = Step::Wait(Duration::from_millis(500));
    upstream.reply(Reply::Stream(vec![
        chunk(json!({"content": "Hel"})),
        wait,
        chunk(json!({"content": "lo"})),
        finish("stop"),
        done(),
    ]));
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let body = json!({"model": "test-model", "input": "Hi"});
    let create = gateway.post("/v1/responses", &body);
    let erase = async {
        while upstream.requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        gateway.delete("/v1/admin/data?tenant=default").await
    };
    let (created, erased) = tokio::join!(create, erase);
    assert_eq!((created.status, erased.status), (200, 200));
    let id = created.body["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
}

#[tokio::test]
async fn the_command_erases_with_the_server_stopped_and_refuses_beside_one() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_antwort"));
        command.args(["--store", &format!("sqlite:{}", database.display()), "store", "erase"]).args(words);
        let output = command.current_dir(folder.path()).env_clear().output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, said, _) = run(&["--tenant", "default"]);
    assert!(code == 0 && said.contains("nothing to erase") && !database.exists(), "{said}");
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    for _ in 0..3 {
        gateway.post("/v1/responses", &json!({"model": "test-model", "input": "Hi"})).await;
    }
    gateway.stop().await;
    let (code, said, _) = run(&["--tenant", "default", "--owner", "nobody"]);
    assert!(
        code == 0 && said.ends_with("of tenant default, owner nobody: 0 responses, 0 conversations\n"),
        "{said}"
    );
    let lock = antwort_store_sqlite::ServerLock::acquire(&database).unwrap();
    let (code, _, problem) = run(&["--tenant", "default"]);
    assert!(code == 1 && problem.contains("DELETE /v1/admin/data"), "{problem}");
    drop(lock);
    let (code, said, _) = run(&["--tenant", "default"]);
    assert!(code == 0 && said.ends_with("of tenant default: 3 responses, 0 conversations\n"), "{said}");
    assert_eq!(run(&["--owner", "x"]).0, 2, "a tenant must be named");
}
