//! A model as a script: what it says to a request, obedient in everything that a test does not take away.

use serde_json::{Value, json};

/// What a server lacks or does otherwise, by name.
#[derive(Clone, Copy)]
pub struct Quirks(pub &'static [&'static str]);

impl Quirks {
    pub fn has(self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// The tokens that its models read.
pub const WINDOW: u64 = 3000;

/// What is said to a request.
pub struct Output {
    pub text: String,
    pub reasoning: Option<String>,
    pub calls: Vec<(String, Value)>,
    pub finish: &'static str,
    pub prompt_tokens: u64,
}

impl Output {
    pub fn tokens(&self) -> u64 {
        let reasoning = self.reasoning.as_deref().unwrap_or_default();
        (words(&self.text) + words(reasoning) + 5 * self.calls.len()) as u64
    }
}

pub fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The output of a request; `count`: how many came before it.
pub fn output(body: &Value, quirks: Quirks, count: usize) -> Output {
    let calls = calls(body, quirks, count);
    let mut text = if calls.is_empty() { text(body, quirks, count) } else { String::new() };
    let mut finish =
        if calls.is_empty() || quirks.has("calls finish with stop") { "stop" } else { "tool_calls" };
    let stop = body["stop"][0].as_str().filter(|_| !quirks.has("stop is ignored"));
    if let Some((before, _)) = stop.and_then(|stop| text.split_once(stop)) {
        text = before.to_owned();
    }
    if let Some(cap) = cap(body, quirks)
        && words(&text) as u64 > cap
        && body["response_format"].is_null()
    {
        text = text.split_inclusive(char::is_whitespace).take(cap as usize).collect();
        finish = "length";
    }
    let question = last(body);
    let thinks = quirks.has("reasons in a field") && question.contains("bat and a ball");
    let reasoning = thinks.then(|| "They differ by one.".to_owned());
    if question.contains("bat and a ball") {
        if quirks.has("reasons in tags") {
            text = format!("<think>\nThey differ by one.</think>{text}");
        } else if quirks.has("reasons in an opened tag") {
            text = format!("They differ by one.</think>{text}");
        }
    }
    Output { text, reasoning, calls, finish, prompt_tokens: prompt_tokens(body, quirks) }
}

fn cap(body: &Value, quirks: Quirks) -> Option<u64> {
    let field = |name: &str, ignored: &str| body[name].as_u64().filter(|_| !quirks.has(ignored));
    field("max_completion_tokens", "max_completion_tokens is ignored")
        .or_else(|| field("max_tokens", "max_tokens is ignored"))
}

/// The content of the last message.
pub fn last(body: &Value) -> String {
    let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    content(&last["content"])
}

fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The URL of an image in the request.
pub fn image(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    parts.filter_map(|part| part["image_url"]["url"].as_str()).next().map(str::to_owned)
}

/// A word is a token; messages that are not read are none.
fn prompt_tokens(body: &Value, quirks: Quirks) -> u64 {
    let mut tokens = 4;
    let mut systems = 0;
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        systems += usize::from(role == "system");
        let is_read = match role {
            "developer" => !quirks.has("developer is ignored"),
            "system" => systems < 2 || !quirks.has("second system is ignored"),
            _ => true,
        };
        if is_read {
            tokens += words(&content(&message["content"]));
        }
        let field = if quirks.has("reads reasoning") { "reasoning" } else { "reasoning_content" };
        if !quirks.has("reasoning is not read") {
            tokens += words(message[field].as_str().unwrap_or_default());
        }
    }
    let has_image =
        image(body).is_some_and(|url| url.starts_with("data:")) && !quirks.has("images are ignored");
    (tokens + if has_image { 80 } else { 0 }) as u64
}

/// The calls of a request.
fn calls(body: &Value, quirks: Quirks, count: usize) -> Vec<(String, Value)> {
    let names: Vec<String> = body["tools"].as_array().into_iter().flatten().filter_map(name).collect();
    let Some(first) = names.first() else { return Vec::new() };
    let choice = &body["tool_choice"];
    let call = |name: &str, city: &str| (name.to_owned(), json!({"city": city}));
    if choice == "none" && !quirks.has("tool_choice none is ignored") {
        return Vec::new();
    }
    if choice == "required" && !quirks.has("tool_choice required is ignored") {
        return vec![call(first, "Oslo")];
    }
    if let Some(name) =
        choice["function"]["name"].as_str().filter(|_| !quirks.has("named tool_choice is ignored"))
    {
        return vec![call(name, "Oslo")];
    }
    let question = last(body);
    let no_calls = quirks.has("no calls") || quirks.has("calls now and then") && count.is_multiple_of(2);
    if !question.contains("weather") || no_calls {
        return Vec::new();
    }
    let one = body["parallel_tool_calls"] == false && !quirks.has("parallel_tool_calls is ignored");
    if question.contains("Rome") && !one && !quirks.has("one call at a time") {
        return vec![call(first, "Oslo"), call(first, "Rome")];
    }
    vec![call(first, "Oslo")]
}

fn name(tool: &Value) -> Option<String> {
    tool["function"]["name"].as_str().map(str::to_owned)
}

fn text(body: &Value, quirks: Quirks, count: usize) -> String {
    let question = last(body);
    let schema = &body["response_format"]["json_schema"]["schema"];
    let ignored = quirks.has("schemas are ignored")
        || quirks.has("schemas are ignored with tools") && body["tools"].is_array()
        || quirks.has("schemas now and then") && count.is_multiple_of(2);
    if schema.is_object() && !ignored {
        let value = &schema["properties"]["value"];
        let knows_patterns = value["pattern"].is_null() || !quirks.has("pattern is ignored");
        return json!({"value": if knows_patterns { example(value) } else { json!("cat") }}).to_string();
    }
    if image(body).is_some() && !quirks.has("images are ignored") {
        return "Red.".to_owned();
    }
    if question.contains("Count from 1") {
        return (1..=1000).map(|number| format!("{number}\n")).collect();
    }
    let seed = body["seed"].as_u64().filter(|_| !quirks.has("seed is ignored")).unwrap_or(count as u64);
    format!("Answer {seed}: the sea is wide and blue today, and ships sail over it.")
}

/// A value that follows a schema.
fn example(schema: &Value) -> Value {
    let bound = |name: &str| schema[name].as_u64();
    if schema.get("const").is_some() {
        return schema["const"].clone();
    }
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    if schema.get("$ref").is_some() {
        return json!("otter-7");
    }
    if schema.get("anyOf").is_some() {
        return json!(null);
    }
    match schema["type"].as_str() {
        Some("integer") if bound("multipleOf").is_some() => json!(14),
        Some("integer") => json!(bound("minimum").or(bound("maximum")).unwrap_or(3)),
        Some("array") => json!(vec![1; bound("minItems").or(bound("maxItems")).unwrap_or(1) as usize]),
        Some("object") => {
            let names = schema["required"].as_array().cloned().unwrap_or_default();
            names
                .iter()
                .map(|name| (name.as_str().unwrap().to_owned(), json!(1)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        _ if schema.get("pattern").is_some() => json!("ABC-12"),
        _ => json!("x".repeat(bound("minLength").unwrap_or(3) as usize)),
    }
}
