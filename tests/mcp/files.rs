//! Pictures and files in results: the model reads them where its server takes them, and clients see what they are.

use serde_json::{Value, json};

use super::{ask, before, brought, call, item, told};
use antwort_test_support::mcp_server::{McpServer, content};
use antwort_test_support::upstream::Upstream;

/// The parts of the latest user message, as the model was sent them.
fn shown(upstream: &Upstream) -> Value {
    let messages = upstream.last()["messages"].as_array().unwrap().clone();
    messages.iter().rfind(|message| message["role"] == "user").unwrap()["content"].clone()
}

/// A picture of more bytes than the text of a result may have.
fn picture() -> Value {
    json!({"type": "image", "data": "iVBORw0K".repeat(512), "mimeType": "image/png"})
}

fn png() -> String {
    format!("data:image/png;base64,{}", picture()["data"].as_str().unwrap())
}

#[tokio::test]
async fn a_picture_of_a_tool_reaches_a_model_that_can_see_now_and_later() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    // The text of results is cut at less than the picture has: that is no limit of pictures.
    let gateway = before(&upstream).set(|settings| settings.tools.results.max_bytes = 1024).spawn().await;
    server.says("image", vec![content::text("Here it is."), picture()]);
    for _ in 0..2 {
        upstream.reply(call("image", json!({}))).text("A dot.");
    }
    let responses = gateway.both(ask(json!([brought(&server)]))).await;
    assert_eq!(shown(&upstream)[1]["image_url"]["url"], png());
    let seen = upstream.requests().iter().filter(|request| request.body.to_string().contains(&png())).count();
    assert_eq!(seen, 2, "in JSON as in a stream");
    for response in responses {
        let output = "Here it is.\n\n[image: image/png, 3 KiB]";
        assert_eq!(item(&response, "mcp_call")["output"], output);
        let whole = response.to_string();
        assert!(!whole.contains("base64") && !whole.contains("antwort:files"), "{whole}");
        let kept = gateway.get(&format!("/v1/responses/{}", response["id"].as_str().unwrap())).await.body;
        assert_eq!(kept["output"], response["output"]);
        let mut on = ask(json!([brought(&server)]));
        on["previous_response_id"] = response["id"].clone();
        upstream.text("Still a dot.");
        gateway.create(on).await;
        let again = upstream.last()["messages"].to_string();
        assert!(again.contains(&png()), "the next response sees it, too: {again}");
    }
}

#[tokio::test]
async fn a_model_that_cannot_see_is_told_what_it_does_not_see() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream)
        .set(|settings| {
            for provider in settings.providers.values_mut() {
                provider.supports.images = false;
            }
        })
        .spawn()
        .await;
    server.says("image", vec![content::text("Here it is."), picture()]);
    upstream.reply(call("image", json!({}))).text("I cannot see.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    let words =
        "Here it is.\n\n[image: image/png, 3 KiB]\n[1 of 1 files are not shown: this model cannot read them]";
    assert_eq!(told(&upstream), words);
    assert!(!upstream.last().to_string().contains("base64"));
}

#[tokio::test]
async fn a_picture_that_is_larger_than_an_item_may_be_is_left_out_and_the_run_goes_on() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).set(|settings| settings.engine.max_item_bytes = 64 << 10).spawn().await;
    let large = json!({"type": "image", "data": "A".repeat(100 << 10), "mimeType": "image/png"});
    server.says("image", vec![large]);
    upstream.reply(call("image", json!({}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    assert!(told(&upstream).contains("larger than an item may be"), "{}", told(&upstream));
    assert!(!upstream.last().to_string().contains("AAAAAAAA"));
}

#[tokio::test]
async fn defaults_of_required_arguments_are_sent_and_the_item_has_what_the_model_wrote() {
    let (upstream, server) = (Upstream::spawn().await, McpServer::spawn().await);
    let gateway = before(&upstream).spawn().await;
    let schema = json!({
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["png", "jpeg"], "default": "png"},
            "clip": {"$ref": "#/$defs/clip"},
            "filename": {"type": "string", "default": "page-{timestamp}"},
        },
        "required": ["type"],
        "additionalProperties": false,
        "$defs": {"clip": {"type": "object", "properties": {"scale": {"type": "number", "default": 1}},
            "required": ["scale"]}},
    });
    server.add_tools(vec![json!({"name": "browser_take_screenshot", "inputSchema": schema})]);
    let sent = || server.calls().last().unwrap().arguments.clone();
    for (written, expected) in [
        (json!({}), json!({"type": "png"})),
        (json!({"type": "jpeg"}), json!({"type": "jpeg"})),
        (json!({"clip": {}}), json!({"type": "png", "clip": {"scale": 1}})),
    ] {
        upstream.reply(call("browser_take_screenshot", written.clone())).text("Done.");
        let response = gateway.create(ask(json!([brought(&server)]))).await;
        let made = item(&response, "mcp_call");
        assert_eq!((&made["status"], &made["error"]), (&json!("completed"), &Value::Null), "{made:#}");
        assert_eq!(made["arguments"], written.to_string());
        assert_eq!(sent(), expected);
    }
    // What is there is checked as before.
    upstream.reply(call("browser_take_screenshot", json!({"type": "gif"}))).text("Done.");
    let response = gateway.create(ask(json!([brought(&server)]))).await;
    assert_eq!(item(&response, "mcp_call")["status"], "failed");
}
