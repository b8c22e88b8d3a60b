//! The file of tools: as chat completions have them, as responses have them, or name, description and schema.

use std::path::Path;

use serde_json::{Map, Value, json};

/// Reads the tools, each in the form that responses have.
pub(super) fn read(path: &Path) -> Result<Vec<Value>, String> {
    parse(&super::read(path)?).map_err(|error| format!("Error: {}: {error}", path.display()))
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    let tools = match serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))? {
        Value::Array(tools) => tools,
        Value::Object(mut file) => match file.shift_remove("tools") {
            Some(Value::Array(tools)) => tools,
            _ => return Err("expected a JSON array of tools".into()),
        },
        _ => return Err("expected a JSON array of tools".into()),
    };
    let one = |(index, tool)| read_one(tool).map_err(|error| format!("tool {index}: {error}"));
    tools.into_iter().enumerate().map(one).collect()
}

fn read_one(tool: Value) -> Result<Value, String> {
    let Value::Object(mut tool) = tool else { return Err("expected a JSON object".into()) };
    match tool.get("type").and_then(Value::as_str) {
        None | Some("function") => {}
        // A tool of another kind is for the gateway to judge.
        Some(_) => return Ok(tool.into()),
    }
    match tool.shift_remove("function") {
        Some(Value::Object(function)) => flat(function),
        Some(_) => Err("`function` is no JSON object".into()),
        None => flat(tool),
    }
}

fn flat(mut function: Map<String, Value>) -> Result<Value, String> {
    if !function.get("name").is_some_and(Value::is_string) {
        return Err("`name` is missing".into());
    }
    function.insert("type".into(), "function".into());
    function.entry("parameters").or_insert_with(|| json!({"type": "object", "properties": {}}));
    // Schemas that were written for chat completions are rarely strict ones.
    function.entry("strict").or_insert(Value::Bool(false));
    Ok(function.into())
}

/// The tools as they are offered: those that the gateway has are its own, the others stay the client's.
pub(super) fn offer(tools: Vec<Value>, known: impl Fn(&str) -> bool) -> Vec<Value> {
    let one = |tool: Value| match tool.get("name").and_then(Value::as_str) {
        Some(name) if tool.get("type").is_some_and(|kind| kind == "function") && known(name) => {
            json!({"type": format!("antwort:{name}")})
        }
        _ => tool,
    };
    tools.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{offer, parse};

    #[test]
    fn all_forms_of_a_tool_are_the_same_tool() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let plain = json!({"name": "get_weather", "description": "d", "parameters": schema});
        let mut flat = plain.clone();
        flat["type"] = "function".into();
        let chat = json!({"type": "function", "function": plain});
        for tool in [plain, flat, chat] {
            let tools = parse(&json!([tool]).to_string()).expect("tools");
            assert_eq!(tools[0]["type"], "function");
            assert_eq!((&tools[0]["name"], &tools[0]["parameters"]), (&json!("get_weather"), &schema));
            assert_eq!(tools[0]["strict"], false);
        }
    }

    #[test]
    fn what_is_no_tool_is_named() {
        for (text, part) in [
            ("7", "expected a JSON array"),
            ("[7]", "tool 0: expected a JSON object"),
            (r#"[{"name": "a"}, {"description": "b"}]"#, "tool 1: `name` is missing"),
            ("[", "not JSON"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn tools_of_the_gateway_are_asked_for_as_such() {
        let tools = parse(r#"[{"name": "calculate"}, {"name": "mine"}, {"type": "web_search"}]"#);
        let offered = offer(tools.expect("tools"), |name| name == "calculate");
        assert_eq!(offered[0], json!({"type": "antwort:calculate"}));
        assert_eq!((&offered[1]["name"], &offered[2]["type"]), (&json!("mine"), &json!("web_search")));
    }
}
