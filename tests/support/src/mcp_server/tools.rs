//! The server's tools: how they are described and what they do.

use serde_json::{Value, json};

use super::answer::{Caller, Error};
use super::content;
use super::script::Script;

/// A tool with these properties, all required.
pub fn tool(name: &str, properties: Value) -> Value {
    let required: Vec<_> = properties.as_object().into_iter().flat_map(|object| object.keys()).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema})
}

/// A tool with a member of its own, such as `annotations`.
fn with(mut tool: Value, member: &str, value: Value) -> Value {
    tool[member] = value;
    tool
}

/// What every server has: `echo`, `add`, `slow`, `fail`, `boom`, `big`, `image`, `structured`, `delete_all`, `read`
/// and `whoami`, in this order.
pub fn base() -> Vec<Value> {
    let number = json!({"type": "number"});
    let sum = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
    vec![
        tool("echo", json!({"text": {"type": "string"}})),
        tool("add", json!({"a": number, "b": number})),
        tool("slow", json!({})),
        tool("fail", json!({})),
        tool("boom", json!({})),
        tool("big", json!({})),
        tool("image", json!({})),
        with(tool("structured", json!({"a": number, "b": number})), "outputSchema", sum),
        with(tool("delete_all", json!({})), "annotations", json!({"destructiveHint": true})),
        with(tool("read", json!({})), "annotations", json!({"readOnlyHint": true})),
        tool("whoami", json!({})),
    ]
}

/// Tools whose schemas are wrong or hard: of another type, with references, a union at the top, words that no
/// version of JSON Schema has, or none at all.
pub fn odd_schemas() -> Vec<Value> {
    let of = |name: &str, schema| json!({"name": name, "inputSchema": schema});
    vec![
        of("schema_string", json!({"type": "string"})),
        of(
            "schema_refs",
            json!({"type": "object", "properties": {"point": {"$ref": "#/$defs/point"}}, "required": ["point"],
                "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}}}),
        ),
        of(
            "schema_any_of",
            json!({"anyOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
            ]}),
        ),
        of(
            "schema_unknown_words",
            json!({"type": "object", "properties": {"a": {"type": "string", "x-widget": "area", "format": "blob"}},
                "x-order": ["a"], "additionalProperties": false}),
        ),
        of("schema_not_an_object", json!(true)),
        json!({"name": "schema_missing"}),
    ]
}

/// Two tools of one name.
pub fn duplicates() -> Vec<Value> {
    vec![tool("twin", json!({})), tool("twin", json!({"a": {"type": "string"}}))]
}

/// Tools whose names no model's API takes: of 70 characters, not ASCII, and with dots, slashes and spaces.
pub fn odd_names() -> Vec<Value> {
    let long = "a_tool_with_a_name_that_goes_on_and_on_".to_owned();
    let names =
        [format!("{long:x<70}"), "größe_ermitteln_📐".to_owned(), "files.read/all of them".to_owned()];
    names.iter().map(|name| tool(name, json!({}))).collect()
}

/// A page of the list.
pub fn list(script: &Script, params: &Value) -> Result<Value, Error> {
    let knobs = script.knobs();
    let start = match params["cursor"].as_str() {
        None => 0,
        Some(cursor) => cursor
            .strip_prefix("page-")
            .and_then(|start| start.parse().ok())
            .ok_or_else(|| (-32602, format!("Invalid cursor: {cursor}")))?,
    };
    let size = knobs.per_page.unwrap_or(usize::MAX);
    let user = params["_meta"]["antwort/context"]["user"].as_str();
    let own = user.and_then(|user| knobs.tools_of.get(user)).into_iter().flatten();
    let all: Vec<&Value> = knobs.tools.iter().chain(own).collect();
    let page: Vec<&&Value> = all.iter().skip(start).take(size).collect();
    let next = start + page.len();
    let mut result = json!({"tools": page});
    if knobs.endless_pages || next < all.len() {
        result["nextCursor"] = format!("page-{next}").into();
    }
    for (name, value) in knobs.list_extra.as_object().into_iter().flatten() {
        result[name] = value.clone();
    }
    Ok(result)
}

/// Runs a call.
pub async fn call(caller: &Caller, params: &Value) -> Result<Value, Error> {
    let name = params["name"].as_str().unwrap_or_default();
    let (asks, scripted, known) = {
        let knobs = caller.script.knobs();
        let of_users = knobs.tools_of.values().flatten();
        let known = knobs.tools.iter().chain(of_users).any(|tool| tool["name"] == name);
        (knobs.asks.get(name).cloned(), knobs.results.get(name).cloned(), known)
    };
    if !known {
        return Err((-32602, format!("Unknown tool: {name}")));
    }
    if let Some(method) = asks {
        caller.ask(&method).await;
    }
    let first = caller.script.knobs().first.get_mut(name).and_then(std::collections::VecDeque::pop_front);
    if let Some(result) = first {
        return result;
    }
    if let Some(result) = scripted {
        return result;
    }
    let arguments = &params["arguments"];
    let sum = || arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0);
    Ok(match name {
        "echo" => said(arguments["text"].as_str().unwrap_or_default()),
        "add" => said(&sum().to_string()),
        "slow" => slow(caller, &params["_meta"]["progressToken"]).await,
        "fail" => json!({"content": [content::text("it does not work")], "isError": true}),
        "boom" => return Err((-32603, "boom".to_owned())),
        "big" => said(&"x".repeat(caller.script.knobs().big)),
        "image" => json!({"content": [content::image()]}),
        "structured" => {
            let result = json!({"sum": sum()});
            json!({"content": [content::text(result.to_string())], "structuredContent": result})
        }
        "delete_all" => said("all deleted"),
        "read" => said("nothing of note"),
        "whoami" => {
            let token = caller.token.as_deref().unwrap_or("nobody");
            let start = token.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
            said(&token[start..])
        }
        _ => said(&format!("ran {name}")),
    })
}

async fn slow(caller: &Caller, token: &Value) -> Value {
    let (notifications, interval) = caller.script.knobs().slow;
    for number in 1..=notifications {
        tokio::time::sleep(interval).await;
        if !token.is_null() {
            caller.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": token, "progress": number, "total": notifications, "message": "working"}}));
        }
    }
    said("done")
}

fn said(text: &str) -> Value {
    json!({"content": [content::text(text)]})
}
