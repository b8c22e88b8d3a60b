//! The hosted web search, with a stand-in for SearXNG: items, events, citations, and options that hold.

use antwort::config::SearchProvider;
use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::kinds;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Reply, Upstream};

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
    Gateway::before(upstream).set(change).spawn().await
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
            crate::support::openapi::assert_items(&items);
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
