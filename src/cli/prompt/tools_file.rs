//! The tools file: tools in the format of chat completions or responses, or name, description and schema.

use std::path::Path;

use serde_json::{Map, Value, json};

use antwort_engine::hosted;

/// Parses the tools, each in the format of responses.
pub(super) fn read(path: &Path) -> Result<Vec<Value>, String> {
    parse(&super::arguments::read(path)?).map_err(|error| format!("Error: {}: {error}", path.display()))
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
        // Other types are validated by the gateway.
        Some(_) => return Ok(tool.into()),
    }
    match tool.shift_remove("function") {
        Some(Value::Object(function)) => flat(function),
        Some(_) => Err("`function` is not a JSON object".into()),
        None => flat(tool),
    }
}

fn flat(mut function: Map<String, Value>) -> Result<Value, String> {
    if !function.get("name").is_some_and(Value::is_string) {
        return Err("`name` is missing".into());
    }
    function.insert("type".into(), "function".into());
    function.entry("parameters").or_insert_with(|| json!({"type": "object", "properties": {}}));
    // Schemas for chat completions are rarely strict.
    function.entry("strict").or_insert(Value::Bool(false));
    Ok(function.into())
}

/// The tools of the request: functions that the gateway has become server-side tools if they are to be run, all others
/// stay client functions. Server-side tools that the gateway lacks become functions, too: the model gets an error when
/// it calls them, and the request is not refused.
pub(super) fn offer(tools: Vec<Value>, served: impl Fn(&str) -> bool, run: bool) -> Vec<Value> {
    let names: Vec<String> = tools.iter().filter_map(function_name).map(str::to_owned).collect();
    let one = |tool: Value| match (function_name(&tool), server_tool_name(&tool)) {
        (Some(name), _) if run && served(name) => Some(json!({"type": format!("antwort:{name}")})),
        (None, Some(name)) if !served(name) => {
            let twice = names.iter().any(|other| other == name);
            (!twice).then(|| placeholder_function(name))
        }
        _ => Some(tool),
    };
    tools.into_iter().filter_map(one).collect()
}

fn function_name(tool: &Value) -> Option<&str> {
    tool.get("name")?.as_str().filter(|_| tool.get("type").is_some_and(|kind| kind == "function"))
}

/// The tool that an entry of another type names.
fn server_tool_name(tool: &Value) -> Option<&str> {
    let kind = tool.get("type")?.as_str()?;
    hosted::executor(kind).or_else(|| kind.strip_prefix("antwort:"))
}

/// A function with arbitrary arguments.
fn placeholder_function(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    json!({"type": "function", "name": name, "parameters": parameters, "strict": false})
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
        let file =
            r#"[{"name": "calculate"}, {"name": "mine"}, {"type": "web_search"}, {"type": "antwort:mine"}]"#;
        let tools = || parse(file).expect("tools");
        let offered = offer(tools(), |name| name == "calculate", true);
        assert_eq!(offered[0], json!({"type": "antwort:calculate"}));
        assert_eq!((&offered[1]["type"], &offered[1]["name"]), (&json!("function"), &json!("mine")));
        // No search provider: the model may call it, and gets an error.
        assert_eq!((&offered[2]["type"], &offered[2]["name"]), (&json!("function"), &json!("web_search")));
        assert_eq!(offered.len(), 3, "a function that is there has its name alone");
        let offered = offer(tools(), |name| name == "web_search", true);
        assert_eq!((&offered[0]["name"], &offered[2]["type"]), (&json!("calculate"), &json!("web_search")));
        let offered = offer(tools(), |_| true, false);
        assert_eq!((&offered[0]["name"], &offered[3]["type"]), (&json!("calculate"), &json!("antwort:mine")));
    }
}
