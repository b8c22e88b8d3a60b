//! What the demo's model says to what newcomers ask.

use serde_json::{Value, json};

use super::reply;

fn function(name: &str, description: &str, parameters: &Value) -> Value {
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

fn datetime() -> Value {
    let text = json!({"type": "string"});
    function(
        "datetime",
        "Tells the current date, time and weekday in a timezone.",
        &json!({"type": "object", "properties": {"format": text, "timezone": text}}),
    )
}

fn calculate() -> Value {
    function(
        "calculate",
        "Evaluates an arithmetic expression exactly.",
        &json!({"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}),
    )
}

/// The message of one turn.
fn message(messages: &Value, more: &Value) -> Value {
    let mut request = json!({"model": "demo", "messages": messages});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    reply(&request).completion()["choices"][0]["message"].clone()
}

fn said(messages: &Value) -> String {
    message(messages, &json!({}))["content"].as_str().unwrap().to_owned()
}

/// The call of one turn: its name and its arguments.
fn called(prompt: &str, tools: &Value) -> (String, Value) {
    let message = message(&json!([{"role": "user", "content": prompt}]), &json!({"tools": tools}));
    let function = &message["tool_calls"][0]["function"];
    let arguments = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    (function["name"].as_str().unwrap().to_owned(), arguments)
}

#[test]
fn a_greeting_is_answered_with_one_also_if_tools_are_offered() {
    let hello = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]);
    let answer = "Hello! I am the demo model, a script in place of a real one. Tell me your name, or ask me for the time.";
    assert_eq!(said(&hello), answer);
    assert_eq!(message(&hello, &json!({"tools": [datetime()]}))["content"], answer);
    let forced = message(&hello, &json!({"tools": [datetime()], "tool_choice": "required"}));
    assert_eq!(forced["tool_calls"][0]["function"]["name"], "datetime");
}

#[test]
fn a_name_is_remembered_in_the_conversation_and_not_beyond() {
    let told = json!({"role": "user", "content": [{"type": "text", "text": "Hi, my name is Ada."}]});
    assert_eq!(said(&json!([told])), "Nice to meet you, Ada!");
    let asks = json!({"role": "user", "content": "What is my name?"});
    let pleasure = json!({"role": "assistant", "content": "Nice to meet you, Ada!"});
    assert_eq!(said(&json!([told, pleasure, asks])), "Your name is Ada.");
    assert_eq!(said(&json!([asks])), "You have not told me your name yet.");
}

#[test]
fn the_time_is_asked_for_without_invented_arguments_and_told_in_a_sentence() {
    let asked = called("What time is it?", &json!([calculate(), datetime()]));
    assert_eq!(asked, ("datetime".to_owned(), json!({})));
    let call =
        json!({"id": "call_demo_0", "type": "function", "function": {"name": "datetime", "arguments": "{}"}});
    let result = r#"{"formatted":"2026-11-27 08:41:05","timestamp":1,"timezone":"UTC","weekday":"Friday"}"#;
    let turn = json!([{"role": "user", "content": "What time is it?"}, {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_demo_0", "content": result}]);
    assert_eq!(said(&turn), "It is 08:41:05 UTC on Friday, 2026-11-27.");
    let without = said(&json!([{"role": "user", "content": "What time is it?"}]));
    assert_eq!(without, "I have no clock. Offer me the tool antwort:datetime, and I look at it.");
}

#[test]
fn arguments_come_from_the_question_else_from_the_schema() {
    let asked = called("What is 6 * 7?", &json!([datetime(), calculate()]));
    assert_eq!(asked, ("calculate".to_owned(), json!({"expression": "6 * 7"})));
    let day = json!({"type": "string", "enum": ["today", "tomorrow"], "default": "tomorrow"});
    let weather = function(
        "travel__weather_forecast",
        "The weather of a city",
        &json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}, "day": day}}),
    );
    let asked = called("How is the weather in Bergen today?", &json!([datetime(), weather]));
    assert_eq!(asked, ("travel__weather_forecast".to_owned(), json!({"city": "Bergen", "day": "today"})));
    assert_eq!(called("Is the weather fine?", &json!([weather])).1, json!({"city": "Oslo"}));
    let order = function(
        "find",
        "",
        &json!({"type": "object", "required": ["query", "most", "day", "note"], "properties":
        {"query": {"type": "string"}, "most": {"type": "integer", "minimum": 3}, "day": day,
            "note": {"type": ["string", "null"]}, "page": {"type": "integer"}}}),
    );
    let found = called("Where is my parcel?", &json!([order])).1;
    assert_eq!(found, json!({"query": "Where is my parcel?", "most": 3, "day": "tomorrow", "note": null}));
}

#[test]
fn results_are_told_in_words() {
    for (result, told) in [
        ("Oslo, today: sunny, 14 degrees.", "The tool weather says: Oslo, today: sunny, 14 degrees."),
        (r#"{"sky": "clear", "temperature": 21}"#, "The tool weather says: sky clear, temperature 21."),
        (r#"{"expression": "6 * 7", "result": 42}"#, "6 * 7 is 42."),
    ] {
        let call =
            json!({"id": "c", "type": "function", "function": {"name": "s__weather", "arguments": "{}"}});
        let turn = json!([{"role": "user", "content": "Well?"}, {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": result}]);
        assert_eq!(said(&turn), told);
    }
}

#[test]
fn what_the_script_does_not_understand_is_answered_honestly_and_with_what_was_said_before() {
    let turn = json!([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "And now?"}]);
    let answer = said(&turn);
    assert!(
        answer.starts_with("You said \"And now?\", and before that \"Hello\". I am only a script"),
        "{answer}"
    );
    let schema =
        json!({"type": "object", "properties": {"city": {"type": "string"}, "people": {"type": "integer"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let structured = message(
        &json!([{"role": "user", "content": "Who lives in Rome?"}]),
        &json!({"response_format": format}),
    );
    let structured: Value = serde_json::from_str(structured["content"].as_str().unwrap()).unwrap();
    assert_eq!(structured, json!({"city": "Rome", "people": 1}));
}

#[test]
fn answers_fit_the_schema_that_is_asked_for_also_behind_results_of_tools() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["time", "event", "tags"], "properties": {
        "time": {"type": "string", "maxLength": 500},
        "event": {"$ref": "#/$defs/Event"},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "minItems": 2}},
        "$defs": {"Tag": {"type": "string", "enum": ["work", "home"]},
            "Place": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
            "Event": {"allOf": [{"$ref": "#/$defs/Place"}], "type": "object", "required": ["people", "sum", "note"],
                "properties": {"people": {"type": "integer", "exclusiveMinimum": 2, "maximum": 9},
                    "sum": {"type": "number", "maximum": 0.5}, "note": {"type": "string"}, "name": {"type": "string"},
                    "own": {"anyOf": [{"$ref": "#/$defs/Event"}, {"type": "null"}]}}}}});
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": schema}});
    let call = json!({"id": "c", "type": "function", "function": {"name": "datetime", "arguments": "{}"}});
    let turn = json!([{"role": "user", "content": "What time is it in Rome?"}, {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "It is late."}]);
    let text = message(&turn, &json!({"tools": [datetime()], "response_format": format}));
    let answer: Value = serde_json::from_str(text["content"].as_str().unwrap()).unwrap();
    assert_eq!(answer["tags"], json!(["work", "work"]));
    let event = &answer["event"];
    let expected = json!(["Rome", 3, 0.5, "Ada"]);
    assert_eq!(json!([event["city"], event["people"], event["sum"], event["name"]]), expected);
    assert_eq!(event["note"], "The tool datetime says: It is late.");
    // One that refers to itself ends.
    assert!(event["own"].is_object());
    let free = message(
        &json!([{"role": "user", "content": "Thanks"}]),
        &json!({"response_format": {"type": "json_object"}}),
    );
    assert_eq!(free["content"], r#"{"answer":"You are welcome!"}"#);
}

#[test]
fn a_calculator_gets_expressions_and_nothing_else() {
    for (question, expression) in [
        ("What is 2+2?", "2+2"),
        ("Hi, what is 3 * 4?", "3 * 4"),
        ("What is 15% of 80?", "80 * 15 / 100"),
        ("How much is a 20% tip on $85.50?", "85.50 * 20 / 100"),
        ("What is 17 % 5?", "17 % 5"),
    ] {
        assert_eq!(
            called(question, &json!([calculate()])).1,
            json!({"expression": expression}),
            "{question}"
        );
    }
    for question in ["What is on 2026-11-27?", "How much is seven times six?"] {
        let answer =
            message(&json!([{"role": "user", "content": question}]), &json!({"tools": [calculate()]}));
        assert_eq!(answer["content"], super::ONLY_EXPRESSIONS, "{question}");
    }
}

#[test]
fn small_talk_is_answered() {
    for (question, begin) in [
        ("What is your name?", "I am the demo model"),
        ("How are you?", "I am well"),
        ("my name is ada", "Nice to meet you, Ada!"),
        ("I am Grace Hopper.", "Nice to meet you, Grace Hopper!"),
        ("I am Norwegian and like tea", "You said"),
        ("I think I am Lost", "You said"),
    ] {
        let answer = said(&json!([{"role": "user", "content": question}]));
        assert!(answer.starts_with(begin), "{question}: {answer}");
    }
}
