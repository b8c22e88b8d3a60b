//! What a coding agent's default configuration sends: tools that nobody here runs, handshakes, long histories.

use antwort::config::UnservedTools;
use serde_json::{Value, json};

use antwort_test_support::gateway::{Gateway, JsonBody};
use antwort_test_support::upstream::Upstream;

const CODEX: (&str, &str) = ("originator", "codex_exec");

/// A request as Codex makes its first one.
fn first_request() -> Value {
    json!({
        "model": "test-model",
        "input": [
            {"type": "message", "id": "msg_01a20373-a9c3", "role": "developer",
             "content": [{"type": "input_text", "text": "You are an agent."}],
             "internal_chat_message_metadata_passthrough": {"content_item_kinds": ["model.base_instructions"]}},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mend it."}]},
        ],
        "tools": [
            {"type": "function", "name": "exec_command", "strict": false, "description": "Runs a command.",
             "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}},
            {"type": "custom", "name": "apply_patch", "description": "Edits files.",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"x\""}},
            {"type": "tool_search", "execution": "client", "description": "Finds tools.",
             "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
            {"type": "web_search", "external_web_access": false, "search_content_types": ["text", "image"]},
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "reasoning": {"effort": "low", "context": "all_turns"},
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "01a20373-ae1a-76e0-9bd6-98b8352bf939",
        "text": {"verbosity": "low"},
        "client_metadata": {"x-codex-window-id": "01a20373-ae1a-76e0-9bd6-98b8352bf939:0"},
    })
}

async fn send(gateway: &Gateway, headers: &[(&str, &str)], body: &Value) -> (u16, Option<String>, String) {
    let mut request = gateway.http.post(format!("{}/v1/responses", gateway.base)).json_body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    let omitted = answer.headers().get("antwort-omitted-tools");
    let omitted = omitted.map(|value| value.to_str().unwrap().to_owned());
    (answer.status().as_u16(), omitted, answer.text().await.unwrap())
}

fn with(mut body: Value, changes: Value) -> Value {
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn tools_that_are_not_served_were_a_400_for_the_default_configuration_of_codex() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for stream in [false, true] {
        let body = with(first_request(), json!({"stream": stream}));
        let (status, omitted, text) = send(&gateway, &[CODEX], &body).await;
        assert_eq!((status, omitted.as_deref()), (200, Some("tool_search, web_search")), "{text}");
        let sent = upstream.last();
        let names: Vec<_> = sent["tools"].as_array().unwrap().iter().map(tool_name).collect();
        assert_eq!(names, ["exec_command", "apply_patch"], "what is served stays");
    }
    // Codex alone sends them also where nothing would be left, and is answered all the same.
    let body = with(first_request(), json!({"tools": [{"type": "web_search"}]}));
    let (status, omitted, text) = send(&gateway, &[CODEX], &body).await;
    assert_eq!((status, omitted.as_deref()), (200, Some("web_search")), "{text}");
    let (status, omitted, text) = send(&gateway, &[], &body).await;
    assert_eq!((status, omitted), (400, None), "{text}");
    assert!(text.contains("tools[0].type") && text.contains("unsupported_parameter"), "{text}");
}

fn tool_name(tool: &Value) -> &str {
    tool["function"]["name"].as_str().or(tool["custom"]["name"].as_str()).unwrap()
}

#[tokio::test]
async fn the_operator_decides_what_happens_to_tools_that_are_not_served() {
    let upstream = Upstream::spawn().await;
    for (setting, headers, expected) in [
        (UnservedTools::Omit, &[][..], (200, Some("tool_search, web_search".to_owned()))),
        (UnservedTools::Refuse, &[CODEX][..], (400, None)),
    ] {
        let gateway = Gateway::with_upstream(&upstream)
            .set(|settings| settings.compat.unserved_tools = setting)
            .spawn()
            .await;
        let (status, omitted, text) = send(&gateway, headers, &first_request()).await;
        assert_eq!((status, omitted), expected, "{setting:?}: {text}");
    }
}

#[tokio::test]
async fn every_hosted_tool_that_is_not_served_can_be_left_out_wherever_it_stands() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.compat.unserved_tools = UnservedTools::Omit)
        .spawn()
        .await;
    let hosted = [
        json!({"type": "web_search_preview"}),
        json!({"type": "file_search", "vector_store_ids": ["vs_1"]}),
        json!({"type": "code_interpreter", "container": {"type": "auto"}}),
        json!({"type": "image_generation"}),
        json!({"type": "computer"}),
        json!({"type": "computer_use_preview", "environment": "linux", "display_width": 1, "display_height": 1}),
        json!({"type": "local_shell"}),
        json!({"type": "shell"}),
        json!({"type": "apply_patch"}),
        json!({"type": "programmatic_tool_calling"}),
    ];
    for tool in hosted {
        let kind = tool["type"].as_str().unwrap().to_owned();
        let places = [
            json!({"tools": [tool, tool]}),
            json!({"tools": [], "input": [{"type": "additional_tools", "role": "developer", "tools": [tool]},
                {"role": "user", "content": "Hi"}]}),
        ];
        for place in places {
            let (status, omitted, text) = send(&gateway, &[], &with(first_request(), place)).await;
            assert_eq!((status, omitted.as_deref()), (200, Some(kind.as_str())), "{text}");
            assert_eq!(upstream.last().get("tools"), None);
        }
    }
    // What is no tool of the API's, or is this gateway's own and not there, is a mistake all the same.
    for (tool, code) in [
        (json!({"type": "antwort:nothing"}), "tool_not_found"),
        (json!({"type": "teleport"}), "invalid_value"),
    ] {
        let (status, _, text) = send(&gateway, &[], &with(first_request(), json!({"tools": [tool]}))).await;
        assert!(status == 400 && text.contains(code), "{status} {text}");
    }
}

#[tokio::test]
async fn a_choice_that_names_a_tool_that_was_left_out_is_refused() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    for (choice, param) in [
        (json!({"type": "web_search"}), "tool_choice.type"),
        (json!({"type": "tool_search"}), "tool_choice"),
        (
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}),
            "tool_choice.tools[0].type",
        ),
    ] {
        let body = with(first_request(), json!({"tool_choice": choice}));
        let (status, _, text) = send(&gateway, &[CODEX], &body).await;
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status, 400, "{text}");
        assert!(error["error"]["param"].as_str().unwrap().starts_with(param), "{text}");
    }
    let only_omitted = json!({"tools": [{"type": "web_search"}], "tool_choice": "required"});
    let (status, _, text) = send(&gateway, &[CODEX], &with(first_request(), only_omitted)).await;
    assert!(status == 400 && text.contains("tool_choice"), "{status} {text}");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn web_pages_may_read_which_tools_were_left_out() {
    let upstream = Upstream::spawn().await;
    let origin = "https://app.example.com";
    let gateway = Gateway::with_upstream(&upstream)
        .set(|settings| settings.server.cors.allowed_origins = vec![origin.to_owned()])
        .spawn()
        .await;
    let request = gateway.http.get(format!("{}/v1/models", gateway.base)).header("origin", origin);
    let answer = request.send().await.unwrap();
    let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap().to_owned();
    assert!(exposed.split(',').any(|name| name.trim() == "antwort-omitted-tools"), "{exposed}");
}

#[tokio::test]
async fn a_program_that_told_how_far_it_was_ended_the_session_with_a_400() {
    let upstream = Upstream::spawn().await;
    let gateway = Gateway::with_upstream(&upstream).spawn().await;
    let call =
        |id: &str| json!({"type": "custom_tool_call", "call_id": id, "name": "exec", "input": "notify(1)"});
    let output =
        |id: &str, text: &str| json!({"type": "custom_tool_call_output", "call_id": id, "output": text});
    let picture = json!([{"type": "input_text", "text": "a picture"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]);
    // The same id may mean another call later; and a program may be told of while another one runs.
    let input = json!([
        {"role": "user", "content": "Mend it."},
        call("c1"), output("c1", "half way"), output("c1", "done"),
        call("c2"), call("c3"), output("c2", "two"), output("c3", "three"), output("c2", "two is over"),
        {"role": "user", "content": "Go on."},
        call("c1"), {"type": "custom_tool_call_output", "call_id": "c1", "output": picture}, output("c1", "end"),
        {"role": "user", "content": "Go on."},
    ]);
    gateway.create(json!({"model": "test-model", "input": input})).await;
    let sent = upstream.last();
    let messages = sent["messages"].as_array().unwrap();
    let told: Vec<_> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["half way\ndone", "two\ntwo is over", "three", "a picture\nend"], "{sent:#}");
    assert!(sent.to_string().contains("image_url"), "what a tool message cannot hold follows it");
    // Functions give one output, and whoever sends two has mixed something up.
    let twice = json!([
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "function_call_output", "call_id": "c1", "output": "y"},
    ]);
    let error = gateway.refuse(json!({"model": "test-model", "input": twice}), 400, "invalid_value").await;
    assert_eq!(error["param"], "input[2].call_id");
}
