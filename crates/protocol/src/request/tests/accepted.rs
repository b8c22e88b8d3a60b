//! What SDKs and agents really send.

use serde_json::json;

use super::{item, items, parsed, with};
use crate::item::{InputItem, Item, Role};
use crate::request::{FIELDS, Include, NO_OPS, ReasoningEffort, Truncation};
use crate::tool::Tool;
use crate::tool_choice::ToolChoice;

#[test]
fn fields_are_sorted_and_no_ops_belong_to_them() {
    assert!(FIELDS.is_sorted(), "the table is searched by bisection");
    for (name, _) in NO_OPS {
        let field = name.split(['.', '[']).next().unwrap();
        assert!(FIELDS.contains(&field), "{name}");
    }
}

#[test]
fn nulls_mean_defaults() {
    let nulls: Vec<String> =
        FIELDS.iter().filter(|f| **f != "input").map(|f| format!(r#""{f}":null"#)).collect();
    let request = parsed(&format!(r#"{{"input":"hi",{}}}"#, nulls.join(",")));
    assert!(request.store && request.parallel_tool_calls && !request.stream);
    assert_eq!(request.truncation, Truncation::Disabled);
    assert_eq!(request.tool_choice, ToolChoice::Auto);
    assert_eq!(request.text.format, None);
    assert_eq!(request.model, None);
    assert_eq!(request.model().unwrap_err().body.param.as_deref(), Some("model"));
}

#[test]
fn harmless_fields_are_accepted() {
    let request = parsed(&with(
        r#""tools":[],"metadata":{},"n":1,"background":false,"client_metadata":{"a":[1]},
        "prompt_cache_options":{"mode":"explicit","ttl":"30m"},"stream":true,
        "stream_options":{"include_usage":true,"include_obfuscation":false},
        "reasoning":{"effort":"xhigh","generate_summary":"auto","mode":"standard","context":"all_turns"},
        "include":["file_search_call.results","web_search_call.action.sources","message.output_text.logprobs"]"#,
    ));
    assert_eq!(request.reasoning.effort, Some(ReasoningEffort::XHigh));
    assert_eq!(json!(request.reasoning), json!({"effort": "xhigh", "summary": "auto"}));
    assert!(request.include.output_text_logprobs && !request.include.reasoning_encrypted_content);
    assert!(request.extra.is_empty());
    assert_eq!(parsed(&with(r#""include":[]"#)).include, Include::default());
}

#[test]
fn limits_themselves_are_allowed() {
    let request = parsed(&with(
        r#""temperature":2,"top_p":0,"top_logprobs":20,"max_output_tokens":1,"max_tool_calls":1,
        "presence_penalty":-2,"frequency_penalty":2.0"#,
    ));
    assert_eq!((request.temperature, request.top_p), (Some(2.0), Some(0.0)));
    assert_eq!((request.top_logprobs, request.max_output_tokens), (Some(20), Some(1)));
}

#[test]
fn a_continuation_needs_no_input() {
    for input in ["", r#","input":null"#, r#","input":"""#, r#","input":[]"#] {
        let request = parsed(&format!(r#"{{"previous_response_id":"resp_1"{input}}}"#));
        assert!(request.input.is_empty());
    }
    assert!(!parsed("\u{feff}{\"input\":\"hi\"}").input.is_empty());
}

#[test]
fn messages_may_lack_what_can_be_guessed() {
    let read = items(
        r#"{"input":[
            {"role":"developer","content":"be brief"},
            {"type":"message","role":"user","content":[{"type":"input_text","text":"hi","prompt_cache_breakpoint":{"mode":"explicit"}}]},
            {"role":"assistant","content":"hello"},
            {"role":"assistant","content":null,"id":null,"status":null,"phase":null,"type":null},
            {"id":"msg_1","type":"message","role":"assistant","status":"completed","phase":"final_answer",
             "content":[{"type":"output_text","text":"x","annotations":[],"logprobs":[],"parsed":null},{"type":"refusal","refusal":"no"}]},
            {"role":"user","content":[{"type":"text","text":"y"},{"type":"output_text","text":"z"},
             {"type":"input_image","image_url":"HTTPS://x/y.png","detail":null,"file_id":null},
             {"type":"input_image","image_url":"data:image/png;base64,AA=="},
             {"type":"input_file","file_data":"data:application/pdf;base64,AA==","filename":"a.pdf","file_id":null,"file_url":null},
             {"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}]}
        ]}"#,
    );
    let roles: Vec<_> = read
        .iter()
        .map(|item| match item {
            Item::Message(message) => (message.role, message.content.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        (Role::Developer, 1),
        (Role::User, 1),
        (Role::Assistant, 1),
        (Role::Assistant, 0),
        (Role::Assistant, 2),
        (Role::User, 6),
    ];
    assert_eq!(roles, expected);
    assert!(read.iter().all(|item| item.id().as_str().starts_with("msg_")));
}

#[test]
fn references_come_in_three_forms() {
    for form in
        [r#"{"type":"item_reference","id":"msg_1"}"#, r#"{"type":null,"id":"msg_1"}"#, r#"{"id":"msg_1"}"#]
    {
        assert_eq!(parsed(&item(form)).input, [InputItem::Reference("msg_1".into())]);
    }
}

/// The shape of what Codex sends in every turn.
#[test]
fn a_coding_agents_request() {
    let request = parsed(
        r#"{"model":"gpt-5-codex","instructions":"You are a coding agent.","input":[
            {"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"late","parameters":{}}]},
            {"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]},
            {"type":"reasoning","summary":[],"content":null,"encrypted_content":"AAAA"},
            {"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"call_1"},
            {"type":"function_call_output","call_id":"call_1","output":"a.rs"},
            {"type":"custom_tool_call","name":"apply_patch","input":"*** Begin Patch","call_id":"call_2","status":"completed"},
            {"type":"custom_tool_call_output","call_id":"call_2","output":[{"type":"input_text","text":"done"}]}],
        "tools":[
            {"type":"function","name":"shell","description":"Runs a command","strict":false,"parameters":{"type":"object","properties":{}}},
            {"type":"custom","name":"apply_patch","description":"d","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
            {"type":"namespace","name":"mcp__calendar","description":"d","tools":[{"type":"function","name":"list","parameters":null,"strict":null}]},
            {"type":"web_search","external_web_access":false,"search_content_types":["text","image"]},
            {"type":"image_generation","output_format":"png"},{"type":"local_shell"},
            {"type":"tool_search","execution":"client","description":"d","parameters":{"type":"object"}}],
        "tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,
        "include":["reasoning.encrypted_content"],"prompt_cache_key":"0199-a","text":{"verbosity":"low"},
        "service_tier":null,"client_metadata":{"x-codex-installation-id":"u"}}"#,
    );
    assert_eq!((request.input.len(), request.tools.len()), (7, 7));
    assert!(request.extra.is_empty() && request.include.reasoning_encrypted_content);
    let kinds: Vec<_> = request.tools.iter().map(Tool::kind).collect();
    let expected =
        ["function", "custom", "namespace", "web_search", "image_generation", "local_shell", "tool_search"];
    assert_eq!(kinds, expected);
}

#[test]
fn ids_of_one_input_may_repeat() {
    let twice = r#"{"id":"msg_1","role":"user","content":"a"},{"id":"msg_1","role":"user","content":"b"}"#;
    assert_eq!(parsed(&item(twice)).input.len(), 2);
}
