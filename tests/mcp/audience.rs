//! Pieces of results that are for the user alone, or for the model alone.

use std::time::Duration;

use antwort::config::{McpRule, McpServerSettings};
use serde_json::{Value, json};

use super::{ask, before, brought, call, item, kinds, told};
use antwort_test_support::eventually;
use antwort_test_support::gateway::{Gateway, JsonBody, frames};
use antwort_test_support::mcp_server::{McpServer, content};
use antwort_test_support::process::Process;
use antwort_test_support::stream_validator::assert_valid_resumed_stream;
use antwort_test_support::upstream::{Reply, Upstream};

/// A server whose users are spoken to, under the label `shop`; its tool `echo` says something to everybody, to the
/// user, to both and to the model.
async fn shop() -> (Upstream, McpServer, Gateway) {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    server.says(
        "echo",
        vec![
            content::text("for all"),
            content::text_for(&["user"], "for the user"),
            content::text_for(&["user", "assistant"], "for both"),
            content::text_for(&["assistant"], "for the model"),
        ],
    );
    let settings =
        McpServerSettings { url: Some(server.url()), user_output: true, ..McpServerSettings::default() };
    let gateway =
        before(&upstream).set(|all| _ = all.mcp.servers.insert("shop".into(), settings)).spawn().await;
    (upstream, server, gateway)
}

fn shopping() -> Value {
    ask(json!([{"type": "mcp", "server_label": "shop"}]))
}

const MODEL: &str = "for all\n\nfor both\n\nfor the model";
const SHOWN: &str = "for all\n\nfor both";

#[tokio::test]
async fn the_user_and_the_model_each_get_what_is_for_them() {
    let (upstream, _server, gateway) = shop().await;
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    for response in gateway.both(shopping()).await {
        assert_eq!(told(&upstream), MODEL);
        assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "antwort:user_message", "message"]);
        assert_eq!(item(&response, "mcp_call")["output"], SHOWN);
        let said = item(&response, "antwort:user_message");
        assert_eq!((&said["text"], &said["name"]), (&json!("for the user"), &json!("echo")));
        assert!(!response.to_string().contains("for the model"), "{response:#}");
        // What is kept is what was sent, and what the model reads on is what it has read.
        let kept = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.body;
        assert_eq!(kept["output"], response["output"]);
        let mut on = shopping();
        on["previous_response_id"] = response["id"].clone();
        upstream.text("Going on.");
        gateway.create(on).await;
        let again = upstream.last()["messages"].to_string();
        assert!(again.contains("for the model") && !again.contains("for the user"), "{again}");
    }
}

#[tokio::test]
async fn the_user_is_not_shown_what_is_for_the_model_in_any_view_or_dialect() {
    let (upstream, _server, gateway) = shop().await;
    for (extra, header) in [
        (json!({}), "open_responses"),
        (json!({"antwort": {"stream_visibility": "items"}}), "openai"),
        (json!({"antwort": {"stream_visibility": "hidden"}}), "openai"),
        (json!({"antwort": {"stream_visibility": "hidden"}}), "open_responses"),
        (json!({"store": false}), "openai"),
    ] {
        let mut body = shopping();
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body["stream"] = json!(true);
        upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
        let headers = [("antwort-dialect", header)];
        let answer = gateway.post_bytes("/v1/responses", body.to_string(), &headers).await;
        let text = answer.body.as_str().unwrap().to_owned();
        assert_eq!(told(&upstream), MODEL, "{extra} {header}");
        assert!(
            text.contains("for the user") && text.contains("antwort:user_message"),
            "{extra} {header}: {text}"
        );
        assert!(!text.contains("for the model"), "{extra} {header}: {text}");
    }
}

#[tokio::test]
async fn a_failure_that_is_for_the_model_is_not_told_to_the_user_in_words() {
    let (upstream, server, gateway) = shop().await;
    let content =
        [content::text_for(&["assistant"], "row 7 is locked"), content::text_for(&["user"], "Busy.")];
    server.returns("echo", json!({"content": content, "isError": true}));
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let response = gateway.create(shopping()).await;
    assert!(told(&upstream).contains("row 7 is locked"));
    let made = item(&response, "mcp_call");
    assert_eq!((&made["status"], &made["output"]), (&json!("failed"), &json!(null)), "{made:#}");
    assert_eq!(made["error"]["content"][0]["text"], "(not shown)");
    assert_eq!(item(&response, "antwort:user_message")["text"], "Busy.");
    assert!(!response.to_string().contains("row 7"));
}

#[tokio::test]
async fn a_call_that_a_person_allowed_keeps_from_them_what_is_for_the_model() {
    let (upstream, server, _) = shop().await;
    let rules = [("echo".to_owned(), McpRule::Ask)].into();
    let settings = McpServerSettings {
        url: Some(server.url()),
        user_output: true,
        rules,
        ..McpServerSettings::default()
    };
    let gateway =
        before(&upstream).set(|all| _ = all.mcp.servers.insert("shop".into(), settings)).spawn().await;
    upstream.reply(call("echo", json!({"text": "x"})));
    let asked = gateway.create(shopping()).await;
    let mut body = shopping();
    body["previous_response_id"] = asked["id"].clone();
    body["input"] = json!([{"type": "mcp_approval_response", "approve": true,
        "approval_request_id": item(&asked, "mcp_approval_request")["id"]}]);
    upstream.text("Done.");
    let response = gateway.create(body).await;
    assert_eq!(told(&upstream), MODEL);
    assert_eq!(kinds(&response), ["mcp_call", "antwort:user_message", "message"]);
    let made = item(&response, "mcp_call");
    assert_eq!((&made["output"], made["approval_request_id"].is_string()), (&json!(SHOWN), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_the_model_is_not_shown_after_a_crash() {
    let (upstream, server, _) = shop().await;
    server.withholds("slow");
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let environment = [("ANTWORT__MCP__SERVERS__SHOP__URL", url.as_str())];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    let http = reqwest::Client::new();
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "x"})), ("slow", json!({}))]));
    let mut body = shopping();
    body["stream"] = json!(true);
    let mut stream =
        http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();
    let id = std::str::from_utf8(&first).unwrap().split("\"id\":\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap().to_owned();
    let database = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    let journalled = async || {
        let query = "SELECT count(*) FROM tool_calls WHERE tool = 'echo' AND output IS NOT NULL";
        database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap() == 1
    };
    assert!(eventually(journalled).await, "the first call is over");
    gateway.kill();
    gateway.restart().await;
    let answer = http.get(format!("{}/v1/responses/{id}", gateway.base)).send().await.unwrap();
    let stored: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(item(&stored, "mcp_call")["output"], SHOWN, "{stored:#}");
    assert!(!stored.to_string().contains("for the model"));
}

/// The model was given what the client is shown, and what follows had other places than those that followers had seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_background_run_that_is_taken_over_gives_everybody_what_is_for_them() {
    let (upstream, server, _) = shop().await;
    server.slow(1000, Duration::from_millis(100));
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let environment = [
        ("ANTWORT__MCP__SERVERS__SHOP__URL", url.as_str()),
        ("ANTWORT__MCP__SERVERS__SHOP__USER_OUTPUT", "true"),
    ];
    let mut gateway = Process::start_with_environment(folder.path(), &upstream, &environment).await;
    upstream.reply(Reply::Calls(vec![("echo", json!({"text": "x"})), ("slow", json!({}))]));
    let mut body = shopping();
    body["background"] = json!(true);
    let http = reqwest::Client::new();
    let answer = http.post(format!("{}/v1/responses", gateway.base)).json_body(&body).send().await.unwrap();
    let queued: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    let url = format!("{}{path}?stream=true", gateway.base);
    let mut stream = reqwest::get(url).await.unwrap();
    let mut seen = String::new();
    let is_slow_begun = |seen: &str| {
        seen.split_once("for the user").is_some_and(|(_, rest)| rest.contains("\"name\":\"slow\""))
    };
    while !is_slow_begun(&seen) {
        seen.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    seen.truncate(seen.rfind("\n\n").unwrap() + 2);
    gateway.kill();
    upstream.text("Done.");
    gateway.restart().await;
    let whole =
        reqwest::get(format!("{}{path}?stream=true", gateway.base)).await.unwrap().text().await.unwrap();
    assert!(whole.starts_with(&seen), "what was sent stays as it was:\n{seen}\n\n{whole}");
    let response = assert_valid_resumed_stream(&frames(&whole)).response;
    assert_eq!(
        kinds(&response),
        ["mcp_list_tools", "mcp_call", "antwort:user_message", "mcp_call", "message"]
    );
    assert_eq!(item(&response, "mcp_call")["output"], SHOWN);
    assert!(!whole.contains("for the model"), "{whole}");
    let given = upstream.last()["messages"].to_string();
    assert!(given.contains("for the model") && !given.contains("for the user"), "{given}");
}

#[tokio::test]
async fn users_are_spoken_to_only_where_the_operator_wants_it() {
    let (upstream, server, gateway) = shop().await;
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"]);
    assert_eq!(told(&upstream), MODEL, "it is not the model's, all the same");
    assert_eq!(item(&response, "mcp_call")["output"], SHOWN);
    server.says("echo", vec![content::text_for(&["user"], "for the user")]);
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(told(&upstream), "(the result is for the user alone)");
}

#[tokio::test]
async fn what_is_wrong_with_an_audience_keeps_nothing_from_anybody() {
    let (upstream, server, gateway) = shop().await;
    for annotations in
        [json!({"audience": []}), json!({"audience": ["robots"]}), json!({"audience": "user"}), json!(7)]
    {
        server.says("echo", vec![json!({"type": "text", "text": "words", "annotations": annotations})]);
        upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
        let response = gateway.create(shopping()).await;
        assert_eq!(told(&upstream), "words");
        assert_eq!(item(&response, "mcp_call")["output"], "words");
    }
}

#[tokio::test]
async fn a_long_result_is_cut_for_the_user_too_and_its_rest_is_not_kept_where_they_must_not_see_it() {
    let (upstream, server, gateway) = shop().await;
    let long = |text: &str| text.repeat(100 << 10);
    server.says(
        "echo",
        vec![
            content::text_for(&["user"], &long("u")),
            content::text(long("a")),
            content::text_for(&["assistant"], &long("m")),
        ],
    );
    upstream.reply(call("echo", json!({"text": "x"}))).text("Done.");
    let mut body = shopping();
    body["tools"].as_array_mut().unwrap().push(json!({"type": "antwort:read_tool_output"}));
    let response = gateway.create(body).await;
    for text in [
        told(&upstream),
        item(&response, "mcp_call")["output"].as_str().unwrap().to_owned(),
        item(&response, "antwort:user_message")["text"].as_str().unwrap().to_owned(),
    ] {
        assert!(text.len() <= 64 << 10 && text.contains("are left out here"), "{}", text.len());
        assert!(!text.contains("read_tool_output"));
    }
    assert!(!response.to_string().contains("mmm"));
}
