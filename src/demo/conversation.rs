//! The demo's client: sends a prompt, approves the call that needs it, and prints every event.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::print::{bold, dim, line, piece};
use super::trip::{QUESTION, SERVER};
use super::turn::MODEL;
use antwort_net::sse::Decoder;

const MAX_EVENT_BYTES: usize = 1 << 20;

/// A trip that is planned with tools of the gateway, in two requests: at the end of the first a call waits for an approval,
/// which the second brings.
pub(super) async fn show(gateway: &Gateway) -> anyhow::Result<()> {
    let tools = json!([{"type": "mcp", "server_label": SERVER}]);
    line(&dim(
        "The demo's model server refuses the first request with status 503, and the gateway asks it again. A warning of",
    ));
    line(&dim("the provider's failure may be logged: this failure is part of the demo."));
    line(&format!("{} {QUESTION}", bold("You:")));
    let response =
        stream(gateway, &json!({"model": MODEL, "input": QUESTION, "tools": tools, "stream": true})).await?;
    let request = response["output"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["type"] == "mcp_approval_request")
        .context("the model did not ask for an approval")?;
    line("");
    line(&format!("{} {}({})", bold("You approve"), text(&request["name"]), text(&request["arguments"])));
    let approval =
        json!([{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]);
    stream(
        gateway,
        &json!({"model": MODEL, "previous_response_id": response["id"], "input": approval, "tools": tools, "stream": true}),
    )
    .await?;
    line("");
    Ok(())
}

/// Sends one request, shows its events, and returns the response of the last one.
async fn stream(gateway: &Gateway, body: &Value) -> anyhow::Result<Value> {
    let request = gateway.request(Method::POST, "responses");
    let mut response =
        request.header("content-type", "application/json").body(body.to_string()).send().await?;
    if !response.status().is_success() {
        bail!("{}: {}", response.status(), response.text().await?);
    }
    let mut decoder = Decoder::new(MAX_EVENT_BYTES);
    let mut writing = false;
    let mut last = Value::Null;
    while let Some(bytes) = response.chunk().await? {
        decoder.feed(&bytes);
        while let Some(event) = decoder.next_event()? {
            if event.data == "[DONE]" {
                continue;
            }
            let event: Value = serde_json::from_str(&event.data)?;
            show_event(&event, &mut writing);
            if event.get("response").is_some() {
                last = event["response"].clone();
            }
        }
    }
    Ok(last)
}

/// Text deltas on one line; one line for every other event.
fn show_event(event: &Value, writing: &mut bool) {
    let kind = event["type"].as_str().unwrap_or_default();
    if let (true, Some(delta)) = (kind.ends_with(".delta"), event["delta"].as_str()) {
        if !*writing {
            piece(&dim("  "));
        }
        *writing = true;
        return piece(delta);
    }
    if *writing {
        line("");
        *writing = false;
    }
    let detail = match kind {
        "response.output_item.added" => {
            format!("{} {}", text(&event["item"]["type"]), text(&event["item"]["name"]))
        }
        "response.function_call_arguments.done" => text(&event["arguments"]).to_owned(),
        _ if event.get("response").is_some() => {
            format!("{} {}", text(&event["response"]["id"]), text(&event["response"]["status"]))
        }
        _ => String::new(),
    };
    line(&dim(&format!("  {:>3} {kind:42} {detail}", event["sequence_number"].to_string())));
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
