//! A stream as a few lines that people can compare: what happened in which order, without ids and times.

use serde_json::Value;

/// One line an event; responses and items shortened to what tells them apart.
pub fn transcript(events: &[Value]) -> String {
    events.iter().map(line).collect()
}

fn line(event: &Value) -> String {
    let mut line = event["type"].as_str().unwrap().to_owned();
    for key in ["output_index", "content_index", "delta", "text", "arguments"] {
        if let Some(value) = event.get(key) {
            line.push_str(&format!(" {key}={value}"));
        }
    }
    if let Some(item) = event.get("item") {
        line.push_str(&format!(" {} {}", item["type"], item["status"]));
        for key in ["phase", "name", "output", "error"] {
            if let Some(value) = item.get(key) {
                line.push_str(&format!(" {key}={value}"));
            }
        }
    }
    if let Some(response) = event.get("response") {
        line.push_str(&format!(
            " {} items={}",
            response["status"],
            response["output"].as_array().unwrap().len()
        ));
        if !response["error"].is_null() {
            line.push_str(&format!(" {}", response["error"]["code"]));
        }
        if let Some(antwort) = response.get("antwort") {
            line.push_str(&format!(" antwort={antwort}"));
        }
    }
    // A message over WebSocket that is an error.
    if let Some(status) = event.get("status") {
        line.push_str(&format!(" {status} {} param={}", event["error"]["code"], event["error"]["param"]));
    }
    if let Some(stream_id) = event.get("stream_id") {
        line.push_str(&format!(" stream_id={stream_id}"));
    }
    line + "\n"
}
