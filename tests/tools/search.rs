//! The hosted web search, with a stand-in for SearXNG: items, events, citations, and options that hold.

use antwort::config::SearchProvider;
use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::kinds;
use antwort_test_support::gateway::Gateway;
use antwort_test_support::upstream::{Reply, Upstream};

/// A search engine that finds the same two pages for everything; ends with the test's runtime.
async fn engine() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let search = async |Query(query): Query<std::collections::HashMap<String, String>>| {
        assert_eq!(query["format"], "json");
        Json(json!({"results": [
            {"title": "The Book", "url": "https://doc.rust-lang.org/book/", "content": "Learn Rust."},
            {"title": "Elsewhere", "url": "https://example.com/rust", "content": "More Rust."},
        ]}))
    };
    let router = Router::new().route("/search", get(search));
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

async fn gateway(upstream: &Upstream) -> Gateway {
    let engine = engine().await;
    let change = |settings: &mut antwort::config::Settings| {
        settings.tools.builtin.web_search.provider = Some(SearchProvider::Searxng);
        settings.tools.builtin.web_search.base_url = Some(engine);
        settings.egress.allow = vec!["127.0.0.1".into()];
    };
    Gateway::with_upstream(upstream).set(change).spawn().await
}

fn ask(tool: Value) -> Value {
    json!({"model": "test-model", "input": "Where do I learn Rust?", "tools": [tool]})
}

fn searching() -> Reply {
    Reply::Calls(vec![("web_search", json!({"query": "learn rust", "allowed_domains": ["example.com"]}))])
}

#[tokio::test]
async fn a_search_has_its_own_item_and_the_answer_cites_what_was_found() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    upstream.reply(searching());
    upstream.text("Read [The Book](https://doc.rust-lang.org/book/), or https://example.com/rust.");
    let streamed = gateway.stream(ask(json!({"type": "web_search"}))).await;
    let response = &streamed.response;
    assert_eq!(kinds(response), ["web_search_call", "message"]);
    let types: Vec<_> = streamed.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        types[2..7],
        [
            "response.output_item.added",
            "response.web_search_call.in_progress",
            "response.web_search_call.searching",
            "response.web_search_call.completed",
            "response.output_item.done",
        ]
    );
    let call = &response["output"][0];
    assert_eq!((&call["status"], &call["action"]["query"]), (&json!("completed"), &json!("learn rust")));
    assert_eq!(call["action"]["sources"][0]["url"], "https://doc.rust-lang.org/book/");
    let annotations = &response["output"][1]["content"][0]["annotations"];
    assert_eq!(
        annotations[0],
        json!({"type": "url_citation", "url": "https://doc.rust-lang.org/book/", "title": "The Book",
            "start_index": 5, "end_index": 48})
    );
    assert_eq!(annotations[1]["url"], "https://example.com/rust");
    assert!(types.contains(&"response.output_text.annotation.added"));
    let seen = upstream.requests()[0].body["tools"][0]["function"]["parameters"]["properties"].clone();
    assert_eq!(
        seen.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["query"],
        "options are not the model's"
    );
    upstream.text("As I said.");
    let again = json!({"model": "test-model", "previous_response_id": response["id"], "input": "And?"});
    gateway.create(again).await;
    let messages = upstream.last()["messages"].clone();
    assert!(messages[2]["content"].as_str().unwrap().contains("The Book"), "{messages:#}");
}

#[tokio::test]
async fn what_the_request_says_about_domains_and_size_holds_against_the_model() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    upstream.reply(searching()).text("Done.");
    let tool = json!({"type": "web_search", "search_context_size": "low",
        "filters": {"allowed_domains": ["rust-lang.org"]},
        "user_location": {"type": "approximate", "country": "NO"}});
    let response = gateway.create(ask(tool)).await;
    let told = upstream.last()["messages"][2]["content"].as_str().unwrap().to_owned();
    assert!(told.contains("doc.rust-lang.org") && !told.contains("example.com"), "{told}");
    assert_eq!(response["output"][0]["action"]["sources"].as_array().unwrap().len(), 1);
    upstream.reply(searching()).text("Done.");
    let limited = json!({"type": "web_search", "filters": {"allowed_domains": ["rust-lang.org"]}});
    let mut twice = ask(json!({"type": "antwort:web_search"}));
    twice["tools"].as_array_mut().unwrap().push(limited);
    let response = gateway.create(twice).await;
    assert_eq!(
        kinds(&response),
        ["web_search_call", "message"],
        "what was asked for before it changes nothing"
    );
    assert_eq!(response["output"][0]["action"]["sources"].as_array().unwrap().len(), 1);
    let mut differ = ask(json!({"type": "web_search"}));
    differ["tools"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "web_search", "search_context_size": "high"}));
    let error = gateway.refuse(differ, 400, "invalid_value").await;
    assert_eq!(error["param"], "tools[1]");
    for (tool, param) in [
        (json!({"type": "web_search", "external_web_access": false}), "tools[0].external_web_access"),
        (json!({"type": "web_search", "search_content_types": ["image"]}), "tools[0].search_content_types"),
    ] {
        let error = gateway.refuse(ask(tool), 400, "unsupported_parameter").await;
        assert_eq!(error["param"], param);
    }
}

#[tokio::test]
async fn a_search_may_be_forced_and_is_also_a_tool_like_others() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    upstream.reply(searching()).text("Done.");
    let mut body = ask(json!({"type": "web_search_preview"}));
    body["tool_choice"] = json!({"type": "web_search_preview"});
    assert_eq!(kinds(&gateway.create(body).await), ["web_search_call", "message"]);
    assert_eq!(upstream.requests()[0].body["tool_choice"]["function"]["name"], "web_search");
    let body = json!({"arguments": {"query": "rust", "limit": 1}});
    let result = gateway.post("/v1/tools/web_search/execute", &body).await.body;
    assert_eq!(result["structured"]["query"], "rust");
    assert_eq!(result["structured"]["results"].as_array().unwrap().len(), 1);
    assert_eq!(result["citations"][0]["title"], "The Book");
}

#[tokio::test]
async fn a_search_that_must_not_reach_the_web_is_left_out_for_codex_which_asks_for_it_by_default() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    let cached = json!({"type": "web_search", "external_web_access": false});
    let live =
        json!({"type": "web_search", "external_web_access": true, "search_content_types": ["text", "image"]});
    let error = gateway.refuse(ask(cached.clone()), 400, "unsupported_parameter").await;
    assert_eq!(error["param"], "tools[0].external_web_access");
    let codex = gateway.with_header("originator", "codex_exec");
    for (tool, omitted, offered) in [(cached, Some("web_search"), 0), (live, None, 1)] {
        let answer = codex.post("/v1/responses", &ask(tool)).await;
        let named = answer.headers.get("antwort-omitted-tools").map(|value| value.to_str().unwrap());
        assert_eq!((answer.status, named), (200, omitted), "{:#}", answer.body);
        assert_eq!(upstream.last()["tools"].as_array().map_or(0, Vec::len), offered);
    }
}

#[tokio::test]
async fn a_search_is_added_to_the_stream_with_what_it_searches_for() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    upstream.reply(searching()).text("Done.");
    let streamed = gateway.stream(ask(json!({"type": "web_search"}))).await;
    let added = streamed.events.iter().find(|event| event["type"] == "response.output_item.added").unwrap();
    let action = json!({"type": "search", "query": "learn rust", "queries": ["learn rust"]});
    assert_eq!((&added["item"]["status"], &added["item"]["action"]), (&json!("in_progress"), &action));
    upstream.reply(Reply::Calls(vec![("web_search", json!({"query": 5}))])).text("Done.");
    let failed = gateway.stream(ask(json!({"type": "web_search"}))).await.response;
    assert_eq!(failed["output"][0]["status"], "failed");
    assert_eq!(failed["output"][0]["action"]["query"], "", "an action is there even if none is known");
}

#[tokio::test]
async fn a_search_is_an_extension_in_the_open_responses_dialect() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await.with_header("antwort-dialect", "open_responses");
    upstream.reply(searching()).text("Done.");
    let streamed = gateway.stream(ask(json!({"type": "web_search"}))).await;
    let response = &streamed.response;
    assert_eq!(kinds(response), ["antwort:web_search_call", "message"]);
    assert_eq!(response["output"][0]["status"], "completed");
    let types: Vec<_> = streamed.events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        types[2..7],
        [
            "response.output_item.added",
            "antwort:web_search_call.in_progress",
            "antwort:web_search_call.searching",
            "antwort:web_search_call.completed",
            "response.output_item.done",
        ]
    );
    let path = format!("/v1/responses/{}", response["id"].as_str().unwrap());
    assert_eq!(&gateway.get(&path).await.body, response, "what is kept is what was sent");

    // Continued by id, and replayed in either spelling to either dialect.
    upstream.text("As I said.");
    let on = json!({"model": "test-model", "previous_response_id": response["id"], "input": "And?"});
    gateway.create(on).await;
    assert!(upstream.last()["messages"][2]["content"].as_str().unwrap().contains("The Book"));
    for (dialect, kind) in [("open_responses", "antwort:web_search_call"), ("openai", "web_search_call")] {
        for sent in ["antwort:web_search_call", "web_search_call"] {
            let mut item = response["output"][0].clone();
            item["type"] = json!(sent);
            let input =
                json!([{"role": "user", "content": "Go."}, item, {"role": "user", "content": "And?"}]);
            let body = json!({"model": "test-model", "input": input}).to_string();
            let made = gateway_in(&gateway, dialect, body).await;
            let list = format!("/v1/responses/{}/input_items?order=asc", made["id"].as_str().unwrap());
            let items = gateway.get(&list).await.body;
            antwort_test_support::openapi::assert_items(&items);
            assert_eq!(items["data"][1]["type"], kind, "{sent} in {dialect}");
        }
    }
}

/// Makes a response in a dialect of its own.
async fn gateway_in(gateway: &Gateway, dialect: &str, body: String) -> Value {
    let url = format!("{}/v1/responses", gateway.base);
    let request = gateway.http.post(url).header("content-type", "application/json");
    let response = request.header("antwort-dialect", dialect).body(body).send().await.unwrap();
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

/// The message with which the model is told what a search found; there is one.
fn told(upstream: &Upstream) -> String {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    let mut told = messages.iter().filter(|message| message["role"] == "tool");
    let text = told.next().unwrap_or_else(|| panic!("{messages:#?}"))["content"].as_str().unwrap().to_owned();
    assert!(told.next().is_none(), "it is told once: {messages:#?}");
    text
}

/// What a client sends that replays a response to go on.
fn replay(items: impl IntoIterator<Item = Value>, store: bool) -> Value {
    let mut input = vec![json!({"role": "user", "content": "Where?"})];
    input.extend(items);
    input.push(json!({"role": "user", "content": "And?"}));
    json!({"model": "test-model", "input": input, "store": store})
}

#[tokio::test]
async fn a_replayed_search_is_found_in_the_store_by_its_id() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    upstream.reply(searching()).text("There.");
    let response = gateway.create(ask(json!({"type": "web_search"}))).await;
    assert_eq!(kinds(&response), ["web_search_call", "message"]);
    let mut call = response["output"][0].clone();
    // What it did may be left out, or be of another version; what counts is the id.
    for action in [call["action"].clone(), Value::Null, json!({"type": "other"})] {
        call["action"] = action;
        gateway.create(replay([call.clone(), response["output"][1].clone()], true)).await;
        assert!(told(&upstream).contains("The Book"));
    }
    // What was replayed is part of the conversation that is stored.
    let second = gateway.create(replay([call.clone(), response["output"][1].clone()], true)).await;
    let on = json!({"model": "test-model", "previous_response_id": second["id"], "input": "And?"});
    gateway.create(on).await;
    assert!(told(&upstream).contains("The Book"));
    let path = format!("/v1/responses/{}/input_items", second["id"].as_str().unwrap());
    let listed = gateway.get(&path).await.body.to_string();
    assert!(!listed.contains("Learn Rust."), "clients see what they sent: {listed}");
    call["id"] = "ws_of_nobody".into();
    gateway.create(replay([call, response["output"][1].clone()], true)).await;
    assert!(!upstream.last().to_string().contains("Learn Rust."));
}

#[tokio::test]
async fn what_a_search_found_is_carried_by_clients_where_nothing_is_stored() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    for include in [json!([]), json!(["reasoning.encrypted_content"])] {
        let store = !include.as_array().unwrap().is_empty();
        upstream.reply(searching()).text("There.");
        let mut body = ask(json!({"type": "web_search"}));
        body["store"] = store.into();
        body["include"] = include;
        let response = gateway.stream(body).await.response;
        // A client that asks for all state carries the provider's id of the call, too.
        let expected = if store { &["reasoning"][..] } else { &[] };
        let expected = [expected, &["web_search_call", "reasoning", "message"]].concat();
        assert_eq!(kinds(&response), expected, "{response:#}");
        let carried = &response["output"][expected.len() - 2];
        assert_eq!(carried["summary"], json!([]));
        assert!(!carried.to_string().contains("Learn Rust."));
        // As Codex does: without ids, and with fields that nobody knows.
        let stripped = response["output"].as_array().unwrap().iter().map(|item| {
            let mut item = item.clone();
            item.as_object_mut().unwrap().remove("id");
            item["internal_chat_message_metadata"] = json!({"turn_id": "1"});
            item
        });
        let items = response["output"].as_array().unwrap().clone();
        let without_call = items.iter().filter(|item| item["type"] != "web_search_call").cloned().collect();
        for replayed in [items, stripped.collect(), without_call] {
            gateway.create(replay(replayed, store)).await;
            assert!(told(&upstream).contains("The Book"));
        }
        if store {
            let on = json!({"model": "test-model", "previous_response_id": response["id"], "input": "And?"});
            gateway.create(on).await;
            assert!(told(&upstream).contains("The Book"));
        }
    }
}

#[tokio::test]
async fn each_of_two_searches_keeps_what_it_found_and_a_forged_blob_is_left_out() {
    let upstream = Upstream::spawn().await;
    let gateway = gateway(&upstream).await;
    let search = |n: u64| ("web_search", json!({"query": format!("rust {n}")}));
    upstream.reply(Reply::Calls(vec![search(1), search(2)])).text("There.");
    let mut body = ask(json!({"type": "web_search"}));
    body["store"] = false.into();
    let response = gateway.create(body).await;
    assert_eq!(
        kinds(&response),
        ["web_search_call", "reasoning", "web_search_call", "reasoning", "message"],
        "{response:#}"
    );
    let mut items = response["output"].as_array().unwrap().clone();
    gateway.create(replay(items.clone(), false)).await;
    let messages = upstream.last()["messages"].clone();
    let calls = messages[1]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{messages:#}");
    for (n, call) in calls.iter().enumerate() {
        assert!(call["function"]["arguments"].as_str().unwrap().contains(&format!("rust {}", n + 1)));
        assert!(messages[2 + n]["content"].as_str().unwrap().contains("Learn Rust."), "{messages:#}");
    }
    for n in [1, 3] {
        let blob = items[n]["encrypted_content"].as_str().unwrap().to_owned();
        items[n]["encrypted_content"] = format!("{}AAAA", &blob[..blob.len() - 4]).into();
    }
    gateway.create(replay(items, false)).await;
    let asked = upstream.last().to_string();
    assert!(!asked.contains("Learn Rust.") && !asked.contains("aw1."), "{asked}");
}
