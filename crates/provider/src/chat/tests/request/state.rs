//! Reasoning and provider state: with which answer each goes back.

use super::*;

fn thought(text: &str) -> Value {
    json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]})
}

#[test]
fn reasoning_goes_back_with_its_turn() {
    let with = |field| ChatOptions { reasoning_field: field, ..generic() };
    let shown = |items: Value, options: &ChatOptions| {
        let sent = messages(items, options);
        let list = sent.as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        list.map(|message| {
            format!("{} {}", message["content"], message["reasoning_content"]).replace('"', "")
        })
        .collect::<Vec<_>>()
    };
    let content = with(ReasoningField::ReasoningContent);
    let called = || call("1", "f", "{}");
    let rows = [
        (json!([thought("r"), said("a"), user("q")]), vec!["a r"]),
        (json!([thought("r"), called(), output("1", "x"), thought("s"), said("a")]), vec!["null r", "a s"]),
        (json!([thought("r"), said("a"), called(), output("1", "x")]), vec!["a r"]),
        (json!([thought("r"), said("a"), thought("s"), called(), output("1", "x")]), vec!["a r", "null s"]),
        (
            json!([
                thought("r"),
                called(),
                thought("s"),
                call("2", "f", "{}"),
                output("1", "x"),
                output("2", "y")
            ]),
            vec!["null r\\n\\ns"],
        ),
        (json!([said("a"), thought("r"), user("q")]), vec!["a r"]),
        (json!([thought("r"), user("q"), said("a")]), vec!["a null"]),
    ];
    for (items, expected) in rows {
        assert_eq!(shown(items.clone(), &content), expected, "{items}");
    }
    assert_eq!(
        messages(json!([thought("r"), said("a")]), &with(ReasoningField::Reasoning))[0]["reasoning"],
        "r"
    );
    assert_eq!(
        messages(json!([thought("r"), said("a")]), &generic())[0],
        json!({"role": "assistant", "content": "a"})
    );
}

#[test]
fn provider_state_goes_back_word_for_word() {
    let state = |fields: Value| ProviderState {
        text: "hidden".to_owned(),
        fields: serde_json::from_value(fields).unwrap(),
        ..ProviderState::default()
    };
    let mut request = asked(json!([
        thought("r"),
        thought("s"),
        call("1", "f", "{}"),
        call("2", "f", "{}"),
        output("1", "x"),
        output("2", "y")
    ]));
    request.conversation[0].state =
        Some(state(json!({"reasoning_details": [{"signature": "1"}], "role": "evil"})));
    request.conversation[1].state =
        Some(state(json!({"reasoning_details": [{"signature": "2"}], "tool_calls": "evil"})));
    let extra = json!({"google": {"thought_signature": "g"}});
    request.conversation[3].call_state =
        Some(serde_json::from_value(json!({"extra_content": extra, "function": "evil"})).unwrap());
    let mut second = wire_call("2", "f", "{}");
    second["extra_content"] = extra;
    let expected = json!({
        "role": "assistant", "content": null, "reasoning_details": [{"signature": "1"}, {"signature": "2"}],
        "tool_calls": [wire_call("1", "f", "{}"), second],
    });
    assert_eq!(sent(&request, &generic())["messages"][0], expected);
    // What has a form of its own does not go twice.
    let reasoning = ChatOptions { reasoning_field: ReasoningField::Reasoning, ..generic() };
    assert_eq!(sent(&request, &reasoning)["messages"][0], expected);
    for context in &mut request.conversation {
        context.state =
            context.state.take().map(|state| ProviderState { fields: serde_json::Map::new(), ..state });
    }
    assert_eq!(sent(&request, &reasoning)["messages"][0]["reasoning"], "hidden\n\nhidden");
}

#[test]
fn state_goes_back_with_the_answer_that_it_came_with() {
    let state = |mark: &str, place: StatePosition| ProviderState {
        fields: serde_json::from_value(json!({"reasoning_details": [mark]})).unwrap(),
        place,
        ..ProviderState::default()
    };
    let ran = |id: &str| json!({"type": "mcp_call", "id": id, "server_label": "s", "name": "n", "arguments": "{}", "output": "x"});
    let shown = |items: Value, states: &[(usize, StatePosition)]| {
        let mut request = asked(items);
        for (at, place) in states {
            request.conversation[*at].state = Some(state(&at.to_string(), *place));
        }
        let sent = sent(&request, &generic())["messages"].clone();
        let answers = sent.as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        let shown = answers.map(|message| {
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            format!("{} {calls} {}", message["content"], message["reasoning_details"]).replace('"', "")
        });
        shown.collect::<Vec<_>>()
    };
    let (leads, within, trails) = (StatePosition::Before, StatePosition::Within, StatePosition::After);
    /// Items, where state stands among them, and the answers with it.
    type Row<'a> = (Value, &'a [(usize, StatePosition)], &'a [&'a str]);
    let rows: [Row<'_>; 8] = [
        // State alone, before the calls of two answers.
        (
            json!([thought(""), ran("1"), thought(""), ran("2")]),
            &[(0, leads), (2, leads)],
            &["null 1 [0]", "null 1 [2]"],
        ),
        // Amid one answer.
        (json!([said("a"), thought(""), ran("1"), ran("2")]), &[(1, within)], &["a 2 [1]"]),
        (json!([ran("1"), thought(""), ran("2"), user("q")]), &[(1, within)], &["null 2 [1]"]),
        (json!([said("a"), thought(""), user("q")]), &[(1, trails)], &["a 0 [1]"]),
        // Kept with the first call of an answer, and with a text.
        (
            json!([said("a"), ran("1"), ran("2"), ran("3")]),
            &[(1, leads), (3, leads)],
            &["a 2 [1]", "null 1 [3]"],
        ),
        (json!([said("a"), user("q")]), &[(0, leads)], &["a 0 [0]"]),
        (json!([said(""), call("1", "f", "{}"), output("1", "x")]), &[(0, leads)], &["null 1 [0]"]),
        (json!([ran("1"), thought("r"), ran("2")]), &[(2, leads)], &["null 1 null", "null 1 [2]"]),
    ];
    for (items, states, expected) in rows {
        assert_eq!(shown(items.clone(), states), expected, "{items}");
    }
}

/// Whatever the gateway calls it.
#[test]
fn a_call_and_its_output_go_back_under_the_id_of_the_provider() {
    let long = "x".repeat(300);
    let mut request = asked(json!([
        call("1", "f", "{}"),
        {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": "x"},
        output("1", "y"),
    ]));
    for (place, id) in [(0, "D681PevKs"), (1, &*long)] {
        request.conversation[place].call_state = Some(serde_json::from_value(json!({"id": id})).unwrap());
    }
    request.result_format = antwort_config::ResultFormat::JsonEnvelope;
    let messages = sent(&request, &generic())["messages"].clone();
    assert_eq!(messages[0]["tool_calls"][0], wire_call("D681PevKs", "f", "{}"));
    assert_eq!(messages[0]["tool_calls"][1]["id"], long);
    assert_eq!(messages[1]["tool_call_id"], "D681PevKs");
    assert_eq!(messages[2]["tool_call_id"], long);
    assert!(messages[2]["content"].as_str().unwrap().contains(&long), "the model knows it under that id");
}

#[test]
fn fields_of_a_call_and_of_its_function_go_back_in_place() {
    let fields = json!({"provider_specific_fields": {"thought_signature": "a"},
        "function": {"name": "evil", "arguments": "evil", "provider_specific_fields": {"thought_signature": "b"}}});
    let mut request = asked(json!([call("1", "f", "{}"), output("1", "y")]));
    request.conversation[0].call_state = Some(serde_json::from_value(fields).unwrap());
    let mut wanted = wire_call("1", "f", "{}");
    wanted["provider_specific_fields"] = json!({"thought_signature": "a"});
    wanted["function"]["provider_specific_fields"] = json!({"thought_signature": "b"});
    assert_eq!(sent(&request, &generic())["messages"][0]["tool_calls"], json!([wanted]));
}
