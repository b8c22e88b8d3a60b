//! Stored responses: continuing, retrieving, listing and deleting them, and whose they are.

use std::time::Duration;

use serde_json::{Value, json};

use antwort_test_support::gateway::Gateway;
use antwort_test_support::openapi;
use antwort_test_support::upstream::{Reply, Step, Upstream, chunk};

#[tokio::test]
async fn a_chain_carries_the_conversation_but_not_the_instructions() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("One.").text("Two.").text("Three.");
    let first = gateway.create(json!({"model": "test-model", "input": "1", "instructions": "Secret."})).await;
    let second = gateway
        .stream(json!({"model": "test-model", "input": "2", "previous_response_id": first["id"]}))
        .await;
    let third = json!({"model": "test-model", "input": "3", "previous_response_id": second.response["id"]});
    assert_eq!(gateway.create(third).await["previous_response_id"], second.response["id"]);
    let said: Vec<_> = upstream.last()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].clone())
        .collect();
    assert_eq!(json!(said), json!(["1", "One.", "2", "Two.", "3"]));
}

#[tokio::test]
async fn an_unknown_previous_response_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let body = json!({"model": "test-model", "input": "x", "previous_response_id": "resp_nowhere"});
    let error = gateway.refuse(body, 400, "previous_response_not_found").await;
    assert_eq!(error["param"], "previous_response_id");
}

#[tokio::test]
async fn what_is_retrieved_is_what_was_sent() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let cut = vec![chunk(json!({"content": "par"})), Step::Wait(Duration::from_millis(100)), Step::Cut];
    upstream.reply(Reply::Text("whole".into())).reply(Reply::Stream(cut));
    let whole = gateway.create(json!({"model": "test-model", "input": "x"})).await;
    let cut = gateway.stream(json!({"model": "test-model", "input": "x"})).await.response;
    assert_eq!(cut["status"], "failed");
    for response in [whole, cut] {
        let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
        let stored = gateway.get(&path).await;
        assert_eq!((stored.status, &stored.body), (200, &response), "every terminal status is kept");
        let deleted = gateway.delete(&path).await;
        assert_eq!(deleted.body, json!({"id": response["id"], "object": "response", "deleted": true}));
        assert_eq!(gateway.get(&path).await.status, 404);
        assert_eq!(gateway.delete(&path).await.status, 404);
    }
}

#[tokio::test]
async fn store_false_keeps_nothing() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let response = gateway.create(json!({"model": "test-model", "input": "x", "store": false})).await;
    let id = response["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/responses/{id}")).await.status, 404);
    let body = json!({"model": "test-model", "input": "x", "previous_response_id": id});
    gateway.refuse(body, 400, "previous_response_not_found").await;
    let reference = json!([{"type": "item_reference", "id": response["output"][0]["id"]}]);
    let error =
        gateway.refuse(json!({"model": "test-model", "input": reference}), 400, "item_not_found").await;
    assert_eq!(error["param"], "input[0].id");
    assert_eq!(gateway.get("/v1/responses").await.body["data"], json!([]));
}

#[tokio::test]
async fn references_stand_for_their_items() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    upstream.text("One.");
    let first = gateway.create(json!({"model": "test-model", "input": "1"})).await;
    let id = &first["output"][0]["id"];
    for reference in [json!({"type": "item_reference", "id": id}), json!({"id": id})] {
        let input = json!([{"role": "user", "content": "1"}, reference, {"role": "user", "content": "2"}]);
        gateway.create(json!({"model": "test-model", "input": input})).await;
        assert_eq!(upstream.last()["messages"][1], json!({"role": "assistant", "content": "One."}));
    }
}

#[tokio::test]
async fn input_items_have_ids_order_and_cursors() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let input: Vec<Value> = (0..5).map(|n| json!({"role": "user", "content": n.to_string()})).collect();
    let response = gateway.create(json!({"model": "test-model", "input": input})).await;
    let path = format!("/v1/responses/{}/input_items", response["id"].as_str().unwrap());
    let list = async |query: &str| gateway.get(&format!("{path}{query}")).await.body;
    let texts = |page: &Value| -> Vec<String> {
        let items = page["data"].as_array().unwrap().iter();
        items.map(|item| item["content"][0]["text"].as_str().unwrap().to_owned()).collect()
    };
    let all = list("").await;
    openapi::assert_items(&all);
    assert_eq!(texts(&all), ["4", "3", "2", "1", "0"], "newest first by default");
    let page = list("?order=asc&limit=2").await;
    assert_eq!((texts(&page), &page["has_more"]), (vec!["0".into(), "1".into()], &json!(true)));
    let after = page["last_id"].as_str().unwrap();
    let page = list(&format!("?order=asc&limit=10&after={after}")).await;
    assert_eq!((texts(&page), &page["has_more"]), (vec!["2".into(), "3".into(), "4".into()], &json!(false)));
    for (query, param) in [
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?order=up", "order"),
        ("?after=nowhere", "after"),
        ("?include[]=x", "include[0]"),
        ("?colour=red", "colour"),
    ] {
        let answer = gateway.get(&format!("{path}{query}")).await;
        assert_eq!((answer.status, answer.body["error"]["param"].as_str()), (400, Some(param)), "{query}");
    }
    let path = path.trim_end_matches("/input_items");
    for (given, status) in [("stream=FALSE", 200), ("stream=0", 200), ("stream=yes", 400)] {
        assert_eq!(gateway.get(&format!("{path}?{given}")).await.status, status, "{given}");
    }
}

#[tokio::test]
async fn pages_of_the_input_end_though_items_came_with_one_id() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let message = |text: &str| json!({"role": "user", "content": text, "id": "msg_same"});
    let input = json!([message("a"), message("b"), {"role": "user", "content": "c"}]);
    let response = gateway.create(json!({"model": "test-model", "input": input})).await;
    let path = format!("/v1/responses/{}/input_items", response["id"].as_str().unwrap());
    for (order, expected) in [("asc", ["a", "b", "c"]), ("desc", ["c", "b", "a"])] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        for _ in 0..expected.len() {
            let page = gateway.get(&format!("{path}?order={order}&limit=1{after}")).await.body;
            seen.push(page["data"][0]["content"][0]["text"].as_str().unwrap().to_owned());
            assert_eq!(page["has_more"], seen.len() < expected.len(), "{page:#}");
            after = format!("&after={}", page["last_id"].as_str().unwrap());
        }
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_no_call_for_whoever_sends_it_back() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let call = |status: &str, arguments: &str| json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments, "status": status});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
    let ask = |input: Value| json!({"model": "test-model", "store": false, "input": input});
    gateway.create(ask(json!([call("incomplete", "{\"a"), {"role": "user", "content": "Go on."}]))).await;
    assert_eq!(upstream.last()["messages"], json!([{"role": "user", "content": "Go on."}]));
    gateway.refuse(ask(json!([call("incomplete", "{\"a"), output])), 400, "tool_call_not_found").await;
    let twice = json!([call("completed", "{}"), call("completed", "{\"a\":2}"), output]);
    let error = gateway.refuse(ask(twice), 400, "invalid_value").await;
    assert_eq!(error["param"], "input[1].call_id", "{error:#}");
}

#[tokio::test]
async fn a_phase_and_the_detail_of_a_picture_are_kept_with_the_item() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let picture = json!({"type": "input_image", "image_url": "https://x.example/y.png"});
    let input = json!([{"role": "user", "content": [picture]},
        {"role": "assistant", "content": "Hm.", "phase": "commentary"}, {"role": "user", "content": "And?"}]);
    let response = gateway.create(json!({"model": "test-model", "input": input})).await;
    let path = format!("/v1/responses/{}/input_items?order=asc", response["id"].as_str().unwrap());
    let items = gateway.get(&path).await.body;
    openapi::assert_items(&items);
    assert_eq!(items["data"][0]["content"][0]["detail"], "auto");
    assert_eq!(items["data"][1]["phase"], "commentary");
}

/// The gateway neither makes nor reads such items, and their next reader may know more of them.
#[tokio::test]
async fn items_that_are_only_carried_are_listed_and_referred_to_byte_for_byte() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let carried = [
        r#"{"status":"completed","id":"lsh_1", "type":"@local_shell_call","call_id":"c1","action":{"type":"exec","command":["ls"],"env":{"\u0042":"b","A":"a"},"timeout_ms":5.0},"later":1.50}"#,
        r#"{"id":"cu_1","type":"@computer_call","call_id":"c2","actions":[{"type":"pinch","scale":1E1}],"status":"in_progress"}"#,
        r#"{"id":"ig_1","type":"@image_generation_call","result":"A\/A=","size":"1x1","status":"generating"}"#,
    ];
    let body = |input: &str| {
        format!(r#"{{"model":"test-model","input":[{input},{{"role":"user","content":"Go on."}}]}}"#)
    };
    let given = body(&carried.join(",").replace('@', ""));
    let referred = body(r#"{"type":"item_reference","id":"lsh_1"},{"id":"cu_1"},{"id":"ig_1"}"#);
    for (dialect, prefix) in [("openai", ""), ("open_responses", "antwort:")] {
        for body in [&given, &referred] {
            let headers = [("antwort-dialect", dialect)];
            let answer = gateway.post_bytes("/v1/responses", body.clone(), &headers).await;
            assert_eq!(answer.status, 200, "{:#}", answer.body);
            assert_eq!(upstream.last()["messages"], json!([{"role": "user", "content": "Go on."}]));
            let id = answer.body["id"].as_str().unwrap();
            let url = format!("{}/v1/responses/{id}/input_items?order=asc", gateway.base);
            let listed = gateway.http.get(url).send().await.unwrap().text().await.unwrap();
            openapi::assert_items(&serde_json::from_str(&listed).unwrap());
            for item in carried.map(|item| item.replace('@', prefix)) {
                assert!(listed.contains(&item), "{item} is not in {listed}");
            }
        }
    }
}

#[tokio::test]
async fn responses_are_listed_newest_first() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(gateway.create(json!({"model": "test-model", "input": n.to_string()})).await["id"].clone());
    }
    ids.reverse();
    let page = gateway.get("/v1/responses?limit=2").await.body;
    let listed: Vec<_> =
        page["data"].as_array().unwrap().iter().map(|response| response["id"].clone()).collect();
    assert_eq!(listed, ids[..2]);
    assert_eq!(page["has_more"], true);
}

#[tokio::test]
async fn a_database_outlives_its_gateway() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("test.db");
    let upstream = Upstream::spawn().await;
    upstream.text("One.").text("Two.");
    let gateway = Gateway::with_upstream(&upstream).database(database.clone()).spawn().await;
    let first = gateway.create(json!({"model": "test-model", "input": "1"})).await;
    gateway.stop().await;
    let gateway = Gateway::with_upstream(&upstream).database(database).spawn().await;
    let stored = gateway.get(&format!("/v1/responses/{}", first["id"].as_str().unwrap())).await;
    assert_eq!(stored.body, first);
    gateway.create(json!({"model": "test-model", "input": "2", "previous_response_id": first["id"]})).await;
    assert_eq!(upstream.last()["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_deleted_ancestor_breaks_the_chain_with_a_clear_error() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let first = gateway.create(json!({"model": "test-model", "input": "1"})).await;
    let second = gateway
        .create(json!({"model": "test-model", "input": "2", "previous_response_id": first["id"]}))
        .await;
    gateway.delete(&format!("/v1/responses/{}", first["id"].as_str().unwrap())).await;
    let body = json!({"model": "test-model", "input": "3", "previous_response_id": second["id"]});
    let error = gateway.refuse(body, 400, "previous_response_not_found").await;
    assert!(error["message"].as_str().unwrap().contains("deleted or has expired"));
}
