//! Who may call, what for, and whose rows they see.

use antwort::config::StoreUrl;
use secrecy::SecretString;
use serde_json::{Value, json};

use antwort_test_support::configured::settings;
use antwort_test_support::gateway::{Gateway, HttpAnswer, JsonBody};
use antwort_test_support::upstream::{Reply, Upstream, chunk, done, finish};

const KEYS: &str = "
auth:
  keys:
    alice: {key: key-alice}
    alice-laptop: {key: key-laptop, owner: alice}
    bob: {key: key-bob}
    other-alice: {key: key-other, tenant: other, owner: alice}
    creator: {key: key-creator, scopes: ['responses:create']}
    reader: {key: key-reader, scopes: ['responses:read']}
    deleter: {key: key-deleter, scopes: ['responses:delete']}
    lister: {key: key-lister, scopes: ['models:read']}
    chatter: {key: key-chatter, scopes: ['chat:create']}
    embedder: {key: key-embedder, scopes: ['embeddings:create']}
    operator: {key: key-operator, scopes: ['mcp:admin']}
    eraser: {key: key-eraser, scopes: ['data:admin']}
    prometheus: {key: key-prometheus, scopes: ['metrics:read']}
    purist: {key: key-purist, dialect: open_responses}
";

async fn guarded(upstream: &Upstream) -> Gateway {
    Gateway::with(settings(upstream, &[], KEYS)).spawn().await
}

/// Sends a request with a key.
async fn send(gateway: &Gateway, key: &str, method: &str, path: &str, body: Option<Value>) -> HttpAnswer {
    let mut request = gateway.http.request(method.parse().unwrap(), format!("{}{path}", gateway.base));
    if let Some(body) = body {
        request = request.json_body(&body);
    }
    gateway.send(request.header("authorization", format!("Bearer {key}"))).await
}

fn ask() -> Value {
    json!({"model": "test-model", "input": "Hi"})
}

fn chat() -> Value {
    json!({"model": "test-model", "messages": [{"role": "user", "content": "Hi"}]})
}

/// Every route that needs a key, with a body where it wants one, and the key that has only its scope.
fn routes() -> Vec<(&'static str, &'static str, Option<Value>, &'static str)> {
    vec![
        ("POST", "/v1/responses", Some(ask()), "key-creator"),
        ("POST", "/v1/responses/compact", Some(ask()), "key-creator"),
        ("POST", "/v1/responses/input_tokens", Some(ask()), "key-creator"),
        ("GET", "/v1/responses", None, "key-reader"),
        ("GET", "/v1/responses/resp_1", None, "key-reader"),
        ("GET", "/v1/responses/resp_1/input_items", None, "key-reader"),
        ("DELETE", "/v1/responses/resp_1", None, "key-deleter"),
        ("GET", "/v1/models", None, "key-lister"),
        ("GET", "/v1/models/test-model", None, "key-lister"),
        ("POST", "/v1/chat/completions", Some(chat()), "key-chatter"),
        ("POST", "/v1/embeddings", Some(json!({"model": "test-model", "input": "Hi"})), "key-embedder"),
        ("GET", "/v1/mcp/servers", None, "key-operator"),
        ("DELETE", "/v1/admin/data?tenant=default&owner=alice", None, "key-eraser"),
        ("GET", "/metrics", None, "key-prometheus"),
    ]
}

#[tokio::test]
async fn nobody_gets_in_without_a_right_key() {
    let upstream = Upstream::spawn().await;
    let gateway = guarded(&upstream).await;
    for prefix in ["", "/openai"] {
        for (method, path, body, _) in routes() {
            if prefix == "/openai" && path == "/metrics" {
                continue;
            }
            let url = format!("{}{prefix}{path}", gateway.base);
            let requests = [
                ("authorization", ""),
                ("authorization", "Bearer "),
                ("authorization", "Bearer wrong-secret"),
                ("authorization", "Bearer key-alic"),
                ("authorization", "Basic a2V5LWFsaWNl"),
                ("authorization", "key-alice"),
                ("api-key", "wrong-secret"),
                ("x-other", "key-alice"),
            ];
            for (name, value) in requests {
                let mut request = gateway.http.request(method.parse().unwrap(), &url).header(name, value);
                if let Some(body) = &body {
                    request = request.json_body(body);
                }
                let answer = gateway.send(request).await;
                let error = &answer.body["error"];
                assert_eq!(
                    (answer.status, &error["code"]),
                    (401, &json!("invalid_api_key")),
                    "{path} {name}: {value}"
                );
                assert_eq!(
                    (&error["type"], &error["param"]),
                    (&json!("invalid_request_error"), &Value::Null)
                );
                assert!(!error.to_string().contains("secret"), "a key is not repeated: {error}");
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
            }
        }
    }
    // Before the body is looked at.
    let answer = gateway.post_bytes("/v1/responses", "{", &[("content-encoding", "lzma")]).await;
    assert_eq!(answer.status, 401);
    for open in ["/healthz", "/readyz", "/openapi.json", "/openapi.yaml"] {
        assert_eq!(gateway.get(open).await.status, 200, "{open} needs no key");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_key_is_found_where_sdks_put_it() {
    let upstream = Upstream::spawn().await;
    let gateway = guarded(&upstream).await;
    for (name, value) in [
        ("authorization", "Bearer key-alice"),
        ("authorization", "bearer key-alice"),
        ("api-key", "key-alice"),
        ("x-api-key", "key-alice"),
    ] {
        let answer = gateway.post_bytes("/v1/responses", ask().to_string(), &[(name, value)]).await;
        assert_eq!(answer.status, 200, "{name}: {value}");
    }
}

#[tokio::test]
async fn a_key_may_do_what_its_scopes_say_and_nothing_else() {
    let upstream = Upstream::spawn().await;
    let gateway = guarded(&upstream).await;
    let keys: Vec<&str> = routes().into_iter().map(|(.., key)| key).collect();
    for (method, path, body, rightful) in routes() {
        for key in &keys {
            let answer = send(&gateway, key, method, path, body.clone()).await;
            if *key == rightful {
                assert!(matches!(answer.status, 200 | 404), "{key} {method} {path}: {}", answer.status);
                continue;
            }
            let error = &answer.body["error"];
            assert_eq!(
                (answer.status, &error["code"]),
                (403, &json!("insufficient_scope")),
                "{key} {method} {path}"
            );
            assert_eq!(error["type"], "permission_error");
        }
        let answer = send(&gateway, "key-alice", method, path, body).await;
        // That of several tenants is an operator's, who is named.
        let allowed = if path == "/metrics" { [403, 403] } else { [200, 404] };
        assert!(allowed.contains(&answer.status), "all scopes by default: {method} {path}");
    }
}

#[tokio::test]
async fn rows_of_others_do_not_exist() {
    let upstream = Upstream::spawn().await;
    let gateway = guarded(&upstream).await;
    let mine = send(&gateway, "key-alice", "POST", "/v1/responses", Some(ask())).await.body;
    let id = mine["id"].as_str().unwrap();
    let item = mine["output"][0]["id"].as_str().unwrap();
    let path = format!("/v1/responses/{id}");
    for stranger in ["key-bob", "key-other", "key-reader", "key-deleter", "key-creator"] {
        let may = |key: &[&str]| key.contains(&stranger) || ["key-bob", "key-other"].contains(&stranger);
        if may(&["key-reader"]) {
            for path in [path.clone(), format!("{path}/input_items")] {
                let answer = send(&gateway, stranger, "GET", &path, None).await;
                assert_eq!(
                    (answer.status, &answer.body["error"]["code"]),
                    (404, &json!("not_found")),
                    "{stranger}"
                );
            }
            for path in ["/v1/responses".to_owned(), format!("/v1/responses?after={id}")] {
                let list = send(&gateway, stranger, "GET", &path, None).await.body;
                assert_eq!(list["data"], json!([]), "{stranger}");
            }
        }
        if may(&["key-deleter"]) {
            assert_eq!(send(&gateway, stranger, "DELETE", &path, None).await.status, 404, "{stranger}");
        }
        if may(&["key-creator"]) {
            for (body, code) in [
                (
                    json!({"model": "m", "input": "x", "previous_response_id": id}),
                    "previous_response_not_found",
                ),
                (json!({"model": "m", "input": [{"type": "item_reference", "id": item}]}), "item_not_found"),
            ] {
                let answer = send(&gateway, stranger, "POST", "/v1/responses", Some(body)).await;
                assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!(code)), "{stranger}");
            }
        }
    }
    assert_eq!(send(&gateway, "key-alice", "GET", &path, None).await.body, mine, "still there for its owner");
}

#[tokio::test]
async fn keys_of_one_owner_share_their_rows() {
    let upstream = Upstream::spawn().await;
    let gateway = guarded(&upstream).await;
    let mine = send(&gateway, "key-alice", "POST", "/v1/responses", Some(ask())).await.body;
    let path = format!("/v1/responses/{}", mine["id"].as_str().unwrap());
    assert_eq!(send(&gateway, "key-laptop", "GET", &path, None).await.body, mine);
    let more = json!({"model": "m", "input": "More", "previous_response_id": mine["id"]});
    assert_eq!(send(&gateway, "key-laptop", "POST", "/v1/responses", Some(more)).await.status, 200);
    let list = send(&gateway, "key-alice", "GET", "/v1/responses", None).await.body;
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    assert_eq!(send(&gateway, "key-laptop", "DELETE", &path, None).await.status, 200);
    assert_eq!(send(&gateway, "key-alice", "GET", &path, None).await.status, 404);
}

/// `*` is what keys have by default: it once made the key of any tenant an operator's.
#[tokio::test]
async fn what_is_about_all_tenants_needs_a_key_that_names_its_scope_once_there_are_two() {
    let upstream = Upstream::spawn().await;
    let (two, one) = (
        "auth: {keys: {a: {key: key-a}, b: {key: key-b, tenant: b}, o: {key: key-o, scopes: ['metrics:read', 'tools:admin']}}}",
        "auth: {keys: {a: {key: key-a}, b: {key: key-b}}}",
    );
    for (keys, key, status) in [(two, "key-a", 403), (two, "key-o", 200), (one, "key-a", 200)] {
        let gateway = Gateway::with(settings(&upstream, &[], keys)).spawn().await;
        for (method, path, scope) in
            [("GET", "/metrics", "`metrics:read`"), ("POST", "/v1/tools/refresh", "`tools:admin`")]
        {
            let answer = send(&gateway, key, method, path, None).await;
            assert_eq!(answer.status, status, "{path} {key}: {:#}", answer.body);
            if status == 403 {
                let error = &answer.body["error"];
                assert_eq!(error["code"], "insufficient_scope");
                assert!(error["message"].as_str().unwrap().contains(scope), "{error}");
            }
        }
        // Its own part of the cache is its own affair.
        assert_eq!(send(&gateway, key, "DELETE", "/v1/tool_cache", None).await.status, 204);
    }
}

#[tokio::test]
async fn one_variable_sets_the_one_key() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with(settings(&upstream, &[("ANTWORT_API_KEY", "the-key")], "")).spawn().await;
    assert_eq!(gateway.post("/v1/responses", &ask()).await.status, 401);
    assert_eq!(send(&gateway, "another", "POST", "/v1/responses", Some(ask())).await.status, 401);
    assert_eq!(send(&gateway, "the-key", "POST", "/v1/responses", Some(ask())).await.status, 200);
    assert_eq!(send(&gateway, "the-key", "GET", "/metrics", None).await.status, 200);

    let open = Gateway::with(settings(&upstream, &[], "")).spawn().await;
    assert_eq!(
        send(&open, "whatever-sdks-insist-on", "POST", "/v1/responses", Some(ask())).await.status,
        200
    );
}

#[tokio::test]
async fn a_clients_headers_never_reach_the_provider() {
    let upstream = Upstream::spawn().await;
    let mut settings = settings(&upstream, &[("ANTWORT_API_KEY", "the-key")], "");
    settings.providers.get_mut("default").unwrap().api_key = Some(SecretString::from("provider-key"));
    let gateway = Gateway::with(settings).spawn().await;
    for (path, body) in
        [("/v1/responses", ask()), ("/v1/chat/completions", chat()), ("/v1/embeddings", ask())]
    {
        let headers = [
            ("authorization", "Bearer the-key"),
            ("api-key", "the-key"),
            ("x-api-key", "the-key"),
            ("cookie", "session=the-key"),
            ("x-forwarded-for", "10.1.2.3"),
            ("openai-organization", "org-the-key"),
            ("antwort-dialect", "openai"),
            ("x-custom", "the-key"),
        ];
        let answer = gateway.post_bytes(path, body.to_string(), &headers).await;
        assert_eq!(answer.status, 200, "{path}: {:#}", answer.body);
        let sent = upstream.requests().last().unwrap().headers.clone();
        assert_eq!(sent["authorization"], "Bearer provider-key");
        assert!(!format!("{sent:?}").contains("the-key"), "{path}: {sent:?}");
        let ours = [
            "accept",
            "authorization",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "x-request-id",
        ];
        let strange: Vec<_> = sent.keys().filter(|name| !ours.contains(&name.as_str())).collect();
        assert!(strange.is_empty(), "{path}: {strange:?}");
    }
}

#[tokio::test]
async fn a_key_chooses_its_dialect_and_a_request_another() {
    let upstream = Upstream::spawn().await;
    let gateway = guarded(&upstream).await;
    for (key, header, expected) in [
        ("key-alice", None, "response.reasoning_text.delta"),
        ("key-purist", None, "response.reasoning.delta"),
        ("key-purist", Some("openai"), "response.reasoning_text.delta"),
        ("key-alice", Some("open_responses"), "response.reasoning.delta"),
    ] {
        upstream.reply(Reply::Stream(vec![
            chunk(json!({"reasoning_content": "Hm."})),
            chunk(json!({"content": "Hi"})),
            finish("stop"),
            done(),
        ]));
        let mut body = ask();
        body["stream"] = true.into();
        let mut request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(&body);
        request = request.header("authorization", format!("Bearer {key}"));
        if let Some(header) = header {
            request = request.header("antwort-dialect", header);
        }
        let text = request.send().await.unwrap().text().await.unwrap();
        assert!(text.contains(&format!("event: {expected}\n")), "{key} {header:?}: {text}");
    }
    let headers = [("authorization", "Bearer key-alice"), ("antwort-dialect", "latin")];
    let answer = gateway.post_bytes("/v1/responses", ask().to_string(), &headers).await;
    assert_eq!((answer.status, &answer.body["error"]["param"]), (400, &json!("antwort-dialect")));
}

/// Blobs are bound to the tenant, and stored state is found by its owner only.
#[tokio::test]
async fn state_of_another_tenant_or_owner_is_dropped() {
    let upstream = Upstream::spawn().await;
    let gateway = guarded(&upstream).await;
    let signed = || {
        let extra = json!({"google": {"thought_signature": "sig"}});
        let call = json!({"index": 0, "id": "call_0", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra});
        Reply::Whole(
            json!({"choices": [{"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "stop"}]}),
        )
    };
    for (store, key, dropped) in [
        (false, "key-alice", false),
        (false, "key-bob", false),
        (false, "key-other", true),
        (true, "key-laptop", false),
        (true, "key-bob", true),
        (true, "key-other", true),
    ] {
        upstream.reply(signed());
        let f = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
        let first = json!({"model": "test-model", "input": "Hi", "store": store, "tools": f});
        let response = send(&gateway, "key-alice", "POST", "/v1/responses", Some(first)).await.body;
        let mut input = response["output"].as_array().unwrap().clone();
        input.push(json!({"type": "function_call_output", "call_id": "call_0", "output": "x"}));
        let replay = json!({"model": "test-model", "input": input, "store": store, "tools": f});
        assert_eq!(send(&gateway, key, "POST", "/v1/responses", Some(replay)).await.status, 200);
        let asked = upstream.last().to_string();
        assert_eq!(!asked.contains("thought_signature"), dropped, "store={store} {key}: {asked}");
    }
}

const STORE_POLICIES: &str = "
auth:
  keys:
    allowed: {key: key-allow}
    refused: {key: key-refuse, store: refuse}
    never: {key: key-never, store: never}
";

#[tokio::test]
async fn a_key_that_may_not_store_is_refused_unless_the_request_says_so() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with(settings(&upstream, &[], STORE_POLICIES)).spawn().await;
    for body in [ask(), json!({"model": "test-model", "input": "Hi", "store": true})] {
        let answer = send(&gateway, "key-refuse", "POST", "/v1/responses", Some(body)).await;
        let error = &answer.body["error"];
        assert_eq!((answer.status, &error["code"]), (400, &json!("unsupported_value")));
        assert_eq!(error["param"], "store");
    }
    assert!(upstream.requests().is_empty());
    let unstored = json!({"model": "test-model", "input": "Hi", "store": false});
    assert_eq!(send(&gateway, "key-refuse", "POST", "/v1/responses", Some(unstored)).await.status, 200);
    // A compaction stores nothing.
    let compaction = json!({"model": "test-model", "input": "Hi"});
    let answer = send(&gateway, "key-refuse", "POST", "/v1/responses/compact", Some(compaction)).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
}

#[tokio::test]
async fn of_a_key_that_never_stores_nothing_is_found_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::spawn().await;
    let mut settings = settings(&upstream, &[], STORE_POLICIES);
    settings.store.url = StoreUrl::Sqlite(folder.path().join("responses.db"));
    let (builder, _) = Gateway::with(settings).probe();
    let gateway = builder.spawn().await;
    let secret = "Kaleidoscope";
    for store in [json!(null), json!(true)] {
        upstream.reply(Reply::Calls(vec![("echo", json!({"text": secret}))])).text(secret);
        let body = json!({"model": "test-model", "input": secret, "store": store, "stream": false,
            "tools": [{"type": "antwort:echo"}]});
        let answer = send(&gateway, "key-never", "POST", "/v1/responses", Some(body)).await;
        assert_eq!((answer.status, &answer.body["store"]), (200, &json!(false)), "{:#}", answer.body);
        assert!(answer.body["output"].to_string().contains(secret));
        let path = format!("/v1/responses/{}", answer.body["id"].as_str().unwrap());
        assert_eq!(send(&gateway, "key-never", "GET", &path, None).await.status, 404);
    }
    let stored = send(&gateway, "key-allow", "POST", "/v1/responses", Some(ask())).await;
    assert_eq!(stored.body["store"], true);
    gateway.stop().await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
}
