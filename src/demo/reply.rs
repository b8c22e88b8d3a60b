//! What the scripted model says: it calls the tool that fits the question, tells its result, and remembers the conversation.

#![expect(clippy::indexing_slicing, reason = "a JSON value indexed by what it lacks is null")]

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::arguments;
use super::turn::{ScriptedCall, Turn, content};
use super::words::{has_calculation, name, named_after, quoted, words};

/// The answer to a greeting.
const INTRODUCTION: &str =
    "I am the demo model, a script in place of a real one. Tell me your name, or ask me for the time.";
/// Words of questions that say nothing about a tool.
const COMMON: [&str; 10] =
    ["what", "which", "that", "this", "with", "from", "have", "tell", "please", "could"];

/// The answer to a question that needs a tool which it does not fit.
const ONLY_EXPRESSIONS: &str =
    "I calculate only expressions, such as 6 * 7 or 20% of 85.50, and find none in that.";

/// The model's next turn.
pub(super) fn reply(request: &Value) -> Turn {
    formatted(request, unformatted(request))
}

/// A turn in the format that the request asks for.
pub(super) fn formatted(request: &Value, turn: Turn) -> Turn {
    let format = &request["response_format"];
    let Some(text) = turn.final_text() else { return turn };
    match format["type"].as_str() {
        Some("json_schema") => {
            let schema = &format["json_schema"]["schema"];
            let (_, since) = split_at_question(request);
            let prompt = since.first().map(|message| content(&message["content"])).unwrap_or_default();
            Turn::say(arguments::answer(schema, &prompt, text).to_string())
        }
        Some("json_object") => Turn::say(json!({"answer": text}).to_string()),
        _ => turn,
    }
}

/// The messages before the last question, and those from it on.
fn split_at_question(request: &Value) -> (&[Value], &[Value]) {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let asked_at = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(messages.len());
    messages.split_at(asked_at)
}

fn unformatted(request: &Value) -> Turn {
    let (before, since) = split_at_question(request);
    let prompt = since.first().map(|message| content(&message["content"])).unwrap_or_default();
    let results: Vec<_> = since
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|result| sentence(&tool_of(since, result), &content(&result["content"])))
        .collect();
    if !results.is_empty() {
        return Turn::say(results.join(" "));
    }
    let said: Vec<_> = before
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| content(&message["content"]))
        .collect();
    let talk = small_talk(&prompt, &said);
    if let Some(tool) = chosen_tool(request, &prompt, talk.is_some()) {
        let name = tool["name"].as_str().unwrap_or_default().to_owned();
        return Turn::calls(
            "",
            vec![ScriptedCall { name, arguments: arguments::of(&tool["parameters"], &prompt) }],
        );
    }
    let has_calculator =
        request["tools"].as_array().into_iter().flatten().any(|tool| calculates(&tool["function"]));
    Turn::say(talk.unwrap_or_else(|| match has_calculator {
        true => ONLY_EXPRESSIONS.to_owned(),
        false => no_answer(&prompt, &said),
    }))
}

/// The tool to call, if one is offered and may be called: the one that `tool_choice` names or that has most words in common
/// with the question, else the first, so that a tool of the reader's own is called, too. Small talk needs no tool.
fn chosen_tool<'a>(request: &'a Value, prompt: &str, small_talk: bool) -> Option<&'a Value> {
    let tools: Vec<_> = request["tools"].as_array()?.iter().map(|tool| &tool["function"]).collect();
    let choice = &request["tool_choice"];
    if *choice == "none" {
        return None;
    }
    if let Some(name) = choice["function"]["name"].as_str() {
        return tools.into_iter().find(|tool| tool["name"] == name);
    }
    let is_forced = *choice == "required";
    // A calculator has nothing to do without an expression.
    let tools: Vec<_> =
        tools.into_iter().filter(|tool| is_forced || !calculates(tool) || has_calculation(prompt)).collect();
    let mut best = (0, tools.first().copied()?);
    for tool in tools {
        let score = score(tool, prompt);
        if score > best.0 {
            best = (score, tool);
        }
    }
    (best.0 > 0 || !small_talk || is_forced).then_some(best.1)
}

fn score(tool: &Value, prompt: &str) -> usize {
    let name = tool["name"].as_str().unwrap_or_default().to_lowercase();
    let description = words(tool["description"].as_str().unwrap_or_default());
    let asked = words(prompt).into_iter().filter(|word| word.len() > 3 && !COMMON.contains(&word.as_str()));
    let said: usize = asked
        .map(|word| 3 * usize::from(name.contains(&word)) + usize::from(description.contains(&word)))
        .sum();
    said + 10 * usize::from(calculates(tool) && has_calculation(prompt))
}

fn calculates(tool: &Value) -> bool {
    tool["parameters"]["properties"]["expression"].is_object()
}

/// What needs no tool: a greeting, a name, thanks. `said` is what the user has said before.
fn small_talk(prompt: &str, said: &[String]) -> Option<String> {
    let words = words(prompt);
    let has = |word: &str| words.iter().any(|other| other == word);
    let begins = |greetings: &[&str]| words.first().is_some_and(|word| greetings.contains(&word.as_str()));
    let asks_for_name = has("my") && has("name") && !prompt.to_lowercase().contains("my name is");
    if has("your") && has("name") {
        return Some(INTRODUCTION.to_owned());
    }
    if asks_for_name || prompt.to_lowercase().contains("who am i") {
        return Some(match said.iter().rev().find_map(|text| name_told(text)) {
            Some(name) => format!("Your name is {name}."),
            None => "You have not told me your name yet.".to_owned(),
        });
    }
    if let Some(name) = name_told(prompt) {
        return Some(format!("Nice to meet you, {name}!"));
    }
    if has("did") && has("i") && (has("say") || has("ask")) {
        return Some(match said.last() {
            Some(text) => format!("You said: {}", quoted(text)),
            None => "This is the first thing that you say to me.".to_owned(),
        });
    }
    if begins(&["how"]) && has("are") && has("you") && words.len() < 6 {
        return Some("I am well, thank you. A script always is.".to_owned());
    }
    let is_short = words.len() < 6 && !has_calculation(prompt);
    if is_short && begins(&["hello", "hi", "hey", "hallo", "greetings"])
        || (begins(&["good"]) && words.len() < 4)
    {
        return Some(format!("Hello! {INTRODUCTION}"));
    }
    if has("you") && (begins(&["who"]) || (begins(&["what"]) && (has("are") || has("can")))) {
        return Some(INTRODUCTION.to_owned());
    }
    (has("thanks") || has("thank")).then(|| "You are welcome!".to_owned())
}

/// The name in "My name is Ada."
fn name_told(text: &str) -> Option<String> {
    let told = ["my name is", "i am called", "call me"].iter().find_map(|words| named_after(text, words));
    told.or_else(|| in_lower_case(text)).or_else(|| sentences(text).find_map(introduced))
}

/// The name in "my name is ada".
fn in_lower_case(text: &str) -> Option<String> {
    let behind = text.split_once("my name is ").map(|(_, behind)| behind)?;
    let name: String = behind.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect();
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect())
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(['.', '!', '?', ',', '\n']).map(str::trim)
}

/// The name in "I am Ada", if the sentence begins so and has no more.
fn introduced(sentence: &str) -> Option<String> {
    let behind = ["I am ", "I'm ", "i am ", "i'm "].iter().find_map(|words| sentence.strip_prefix(words))?;
    let name = name(behind);
    (!name.is_empty() && name.len() == behind.trim_end().len()).then_some(name)
}

/// The answer to what the script does not understand.
fn no_answer(prompt: &str, said: &[String]) -> String {
    let words = words(prompt);
    if words.is_empty() {
        return "I can only read text, and your message has none.".to_owned();
    }
    if words.iter().any(|word| word == "time") {
        return "I have no clock. Offer me the tool antwort:datetime, and I look at it.".to_owned();
    }
    let before = said.last().map(|text| format!(", and before that {}", quoted(text))).unwrap_or_default();
    format!(
        "You said {}{before}. I am only a script and have no answer to that: set ANTWORT_UPSTREAM_URL to ask a real model.",
        quoted(prompt)
    )
}

/// The name of the tool that a result is of, as its owner calls it.
fn tool_of(messages: &[Value], result: &Value) -> String {
    let mut calls = messages.iter().rev().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let named = calls.find(|call| call["id"] == result["tool_call_id"]);
    let name = named.and_then(|call| call["function"]["name"].as_str()).unwrap_or("tool");
    name.rsplit("__").next().unwrap_or(name).to_owned()
}

/// A result in words.
fn sentence(tool: &str, result: &str) -> String {
    let value: Value = serde_json::from_str(result).unwrap_or_default();
    if let (Some(time), Some(zone)) = (value["formatted"].as_str(), value["timezone"].as_str()) {
        return match (time.split_once(' '), value["weekday"].as_str()) {
            (Some((date, time)), Some(weekday)) => format!("It is {time} {zone} on {weekday}, {date}."),
            _ => format!("It is {time} {zone}."),
        };
    }
    if let (Some(expression), result @ Value::Number(_)) = (value["expression"].as_str(), &value["result"]) {
        return format!("{expression} is {result}.");
    }
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let said = match &value {
        Value::Object(fields) if fields.values().all(|field| !field.is_object() && !field.is_array()) => {
            let fields =
                fields.iter().map(|(name, field)| format!("{} {}", name.replace('_', " "), plain(field)));
            fields.collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => text.trim().to_owned(),
        _ => result.trim().to_owned(),
    };
    let end = if said.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("The tool {tool} says: {said}{end}")
}
