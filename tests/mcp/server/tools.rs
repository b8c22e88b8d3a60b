//! What its tools do, and how the list of them changes.

use std::time::Duration;

use serde_json::json;

use super::opened;
use antwort_test_support::mcp_server::{content, tools};

#[tokio::test]
async fn every_tool_does_what_its_name_says() {
    let (server, mut client) = opened().await;
    server.big(3000);
    client.token = Some("secret-token-1234".to_owned());
    for (tool, arguments, expected) in [
        ("echo", json!({"text": "äöü"}), "äöü"),
        ("add", json!({"a": 2, "b": 3}), "5"),
        ("slow", json!({}), "done"),
        ("fail", json!({}), "it does not work"),
        ("big", json!({}), "x".repeat(3000).as_str()),
        ("structured", json!({"a": 2, "b": 3}), r#"{"sum":5.0}"#),
        ("delete_all", json!({}), "all deleted"),
        ("read", json!({}), "nothing of note"),
        ("whoami", json!({}), "1234"),
    ] {
        let answer = client.call(tool, arguments).await;
        assert_eq!(answer["result"]["content"][0]["text"], expected, "{tool}");
        assert_eq!(answer["result"]["isError"] == true, tool == "fail", "{tool}");
    }
    assert_eq!(client.call("boom", json!({})).await["error"]["message"], "boom");
    assert_eq!(client.call("image", json!({})).await["result"]["content"][0]["mimeType"], "image/png");
    assert_eq!(client.call("missing", json!({})).await["error"]["code"], -32602);
    assert_eq!(server.calls().len(), 12);
}

#[tokio::test]
async fn results_are_what_a_test_wants() {
    let (server, mut client) = opened().await;
    let all =
        [content::text("t"), content::image(), content::audio(), content::resource("r"), content::blob()];
    let all = [all.as_slice(), &[content::resource_link(), content::unknown()]].concat();
    server.says("echo", all.clone()).errors("add", -32000, "no").returns("read", json!({"content": []}));
    assert_eq!(client.call("echo", json!({})).await["result"]["content"], json!(all));
    assert_eq!(client.call("add", json!({})).await["error"], json!({"code": -32000, "message": "no"}));
    assert_eq!(client.call("read", json!({})).await["result"], json!({"content": []}));
}

#[tokio::test]
async fn a_slow_call_shows_signs_of_life_to_those_who_want_them() {
    let (server, mut client) = opened().await;
    server.slow(2, Duration::from_millis(5));
    let said = client.ask("tools/call", json!({"name": "slow", "_meta": {"progressToken": 7}})).await;
    let progress: Vec<_> = said.iter().map(|message| &message["params"]["progress"]).collect();
    assert_eq!(progress, [&json!(1), &json!(2), &json!(null)]);
    assert_eq!(said[0]["params"]["progressToken"], 7);
    assert_eq!(client.ask("tools/call", json!({"name": "slow"})).await.len(), 1);
    assert_eq!(server.calls()[0].meta["progressToken"], 7);
}

#[tokio::test]
async fn changed_tools_are_listed_and_made_known_if_that_is_wanted() {
    let (server, mut client) = opened().await;
    let mut stream = client.listen().await;
    server.redefine("echo", |tool| tool["description"] = json!("Deletes everything."));
    let list = client.ask("tools/list", json!({})).await;
    assert_eq!(list[0]["result"]["tools"][0]["description"], "Deletes everything.");
    server.set_tools(tools::duplicates());
    assert_eq!(client.names().await, ["twin", "twin"]);
    server.change_tools(tools::odd_names()).add_tools(tools::odd_schemas());
    let said = stream.message().await.unwrap();
    assert_eq!(said["method"], "notifications/tools/list_changed", "and nothing before it");
    let names = client.names().await;
    assert_eq!((names.len(), names[0].len(), names[1].is_ascii()), (9, 70, false));
    assert_eq!(
        client.call(&names[1], json!({})).await["result"]["content"][0]["text"],
        format!("ran {}", names[1])
    );
}

#[tokio::test]
async fn lists_come_in_pages() {
    let (server, mut client) = opened().await;
    server.per_page(4).list_with(json!({"ttlMs": 5}));
    let (mut cursor, mut sizes) = (json!(null), Vec::new());
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = client.ask("tools/list", params).await.pop().unwrap()["result"].clone();
        assert_eq!(page["ttlMs"], 5);
        sizes.push(page["tools"].as_array().unwrap().len());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(sizes, [4, 4, 3]);
    server.endless_pages();
    let page = client.ask("tools/list", json!({"cursor": "page-11"})).await;
    assert_eq!(page[0]["result"]["nextCursor"], "page-11");
    assert_eq!(client.ask("tools/list", json!({"cursor": "x"})).await[0]["error"]["code"], -32602);
}

#[tokio::test]
async fn a_call_may_ask_the_client_something_first() {
    for method in ["elicitation/create", "sampling/createMessage"] {
        let (server, mut client) = opened().await;
        server.asks("echo", method);
        let message = client.message("tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
        let mut stream = antwort_test_support::mcp_client::Events::new(client.post(&message).await);
        let question = stream.message().await.unwrap();
        assert_eq!(question["method"], method);
        let refusal = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}});
        assert_eq!(client.post(&refusal).await.status(), 202);
        assert_eq!(stream.message().await.unwrap()["id"], message["id"]);
        assert_eq!(server.client_answers(), [refusal]);
    }
}
