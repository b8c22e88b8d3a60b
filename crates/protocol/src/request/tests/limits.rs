//! What is counted where, with limits that are small enough to see.

use super::{CreateResponse, with};
use crate::request::RequestSizeLimits;

const SMALL: RequestSizeLimits = RequestSizeLimits {
    max_tools: 4,
    max_allowed_tools: 4,
    max_input_items: 4,
    max_content_parts: 4,
    max_item_references: 4,
    max_schema_patterns: 4,
    max_schema_bytes: 200,
    max_instructions_bytes: 10,
};

/// The path at which a body is beyond the small limits; `None`: it is within them.
fn beyond(body: &str) -> Option<String> {
    match CreateResponse::parse_with_limits(body.as_bytes(), SMALL) {
        Ok(_) => None,
        Err(error) => {
            let limited = matches!(error.code(), "array_above_max_length" | "string_above_max_length");
            assert!(limited, "{body}: {error}");
            assert!(error.body.message.contains("server.request_limits.max_"), "{error}");
            error.body.param
        }
    }
}

fn input(items: &str) -> Option<String> {
    beyond(&format!(r#"{{"model":"m","input":[{items}]}}"#))
}

fn times(element: &str, count: usize) -> String {
    vec![element; count].join(",")
}

fn functions(names: std::ops::Range<usize>) -> String {
    names.map(|n| format!(r#"{{"type":"function","name":"f{n}"}}"#)).collect::<Vec<_>>().join(",")
}

#[test]
fn lists_count_by_where_they_stand() {
    let message = r#"{"role":"user","content":"x"}"#;
    assert_eq!(input(&times(message, 4)), None);
    assert_eq!(input(&times(message, 5)).as_deref(), Some("input"));
    let part = r#"{"type":"input_text","text":"x"}"#;
    let of_parts = |count| format!(r#"{{"role":"user","content":[{}]}}"#, times(part, count));
    assert_eq!(input(&times(&of_parts(2), 2)), None);
    assert_eq!(input(&times(&of_parts(2), 3)).as_deref(), Some("input[2].content"), "in all");
    // Whatever is a list in an item, however deep, and whether anybody reads it.
    let shell = r#"{"type":"shell_call","call_id":"c","action":{"commands":["a","b","c","d","e"]}}"#;
    assert_eq!(input(shell).as_deref(), Some("input[0].action.commands"));
    let unknown = r#"{"role":"user","content":"x","later":{"a":[[1,2],[3]]}}"#;
    assert_eq!(input(unknown).as_deref(), Some("input[0].later.a[1]"));
    // Kept as text, or as many as there are words.
    let search = r#"{"type":"tool_search_call","call_id":null,"arguments":{"a":[1,2,3,4,5,6]}}"#;
    assert_eq!(input(search), None);
    let logprob = r#"{"token":"a","logprob":0,"bytes":[97]}"#;
    let answer = format!(
        r#"{{"role":"assistant","content":[{{"type":"output_text","text":"a","logprobs":[{}]}}]}}"#,
        times(logprob, 6)
    );
    assert_eq!(input(&answer), None);
}

#[test]
fn tools_count_in_all_wherever_they_stand() {
    let tools = |inside: &str| with(&format!(r#""tools":[{inside}]"#));
    assert_eq!(beyond(&tools(&functions(0..4))), None);
    assert_eq!(beyond(&tools(&functions(0..5))).as_deref(), Some("tools"));
    let space = |names| {
        format!(r#"{{"type":"namespace","name":"n","description":"","tools":[{}]}}"#, functions(names))
    };
    assert_eq!(beyond(&tools(&space(0..3))), None);
    assert_eq!(beyond(&tools(&space(0..4))).as_deref(), Some("tools[0].tools"));
    let more = |kind: &str, names| format!(r#"{{"tools":[{}],"type":"{kind}"}}"#, functions(names));
    assert_eq!(input(&more("additional_tools", 0..4)), None);
    assert_eq!(input(&more("additional_tools", 0..5)).as_deref(), Some("input[0].tools"));
    let both = format!("{},{}", more("additional_tools", 0..2), more("additional_tools", 2..5));
    assert_eq!(input(&both).as_deref(), Some("input[1].tools"), "in all");
    let body = format!(
        r#"{{"model":"m","tools":[{}],"input":[{}]}}"#,
        functions(0..3),
        more("additional_tools", 3..5)
    );
    assert_eq!(beyond(&body).as_deref(), Some("input[0].tools"), "in all");
    // What a server listed is shown, and is no tool of the request.
    let listed = |count| {
        let tool = r#"{"name":"a","input_schema":{"enum":[1,2,3,4,5,6,7,8]}}"#;
        format!(r#"{{"type":"mcp_list_tools","server_label":"s","tools":[{}]}}"#, times(tool, count))
    };
    assert_eq!(input(&format!("{},{}", listed(2), more("additional_tools", 0..4))), None);
    assert_eq!(input(&times(&listed(3), 2)).as_deref(), Some("input[1].tools"));
}

#[test]
fn names_of_allowed_tools_count_in_all() {
    let mcp = |label: &str, count| {
        let names = times("\"a\"", count);
        format!(r#"{{"type":"mcp","server_label":"{label}","allowed_tools":[{names}]}}"#)
    };
    assert_eq!(beyond(&with(&format!(r#""tools":[{},{}]"#, mcp("a", 2), mcp("b", 2)))), None);
    let body = with(&format!(r#""tools":[{},{}]"#, mcp("a", 2), mcp("b", 3)));
    assert_eq!(beyond(&body).as_deref(), Some("tools[1].allowed_tools"));
    let rules = r#"{"type":"mcp","server_label":"a","require_approval":{"never":{"tool_names":["a","b","c","d","e"]}}}"#;
    let body = with(&format!(r#""tools":[{rules}]"#));
    assert_eq!(beyond(&body).as_deref(), Some("tools[0].require_approval.never.tool_names"));
    let body = with(r#""allowed_tools":["a","b","c","d","e"]"#);
    assert_eq!(beyond(&body).as_deref(), Some("allowed_tools"));
}

#[test]
fn references_count_once_each() {
    let reference = |n: usize| format!(r#"{{"type":"item_reference","id":"msg_{n}"}}"#);
    let of = |ids: &[usize]| ids.iter().map(|id| reference(*id)).collect::<Vec<_>>().join(",");
    let limits = RequestSizeLimits { max_input_items: 100, ..SMALL };
    let parse = |items: String| {
        let body = format!(r#"{{"model":"m","input":[{items}]}}"#);
        CreateResponse::parse_with_limits(body.as_bytes(), limits).map(|_| ())
    };
    assert!(parse(of(&[1, 2, 3, 4, 1, 2, 3, 4, 4, 4])).is_ok());
    let error = parse(of(&[1, 2, 1, 3, 4, 5])).unwrap_err();
    assert_eq!(error.code(), "array_above_max_length");
    assert_eq!(error.body.param.as_deref(), Some("input[5]"));
    assert!(error.body.message.contains("max_item_references"), "{error}");
}

#[test]
fn schemas_are_weighed_and_their_patterns_counted_wherever_they_stand() {
    let function =
        |schema: &str| with(&format!(r#""tools":[{{"type":"function","name":"f","parameters":{schema}}}]"#));
    let chat = |schema: &str| {
        let function = format!(r#"{{"name":"f","parameters":{schema}}}"#);
        with(&format!(r#""tools":[{{"type":"function","function":{function}}}]"#))
    };
    let format = |schema: &str| {
        with(&format!(r#""text":{{"format":{{"type":"json_schema","name":"a","schema":{schema}}}}}"#))
    };
    let object = |count| {
        let each = (0..count).map(|n| format!(r#""p{n}":{{"pattern":"a"}}"#));
        format!(r#"{{"properties":{{{}}}}}"#, each.collect::<Vec<_>>().join(","))
    };
    let (long, path) = (format!(r#"{{"description":"{}"}}"#, "x".repeat(200)), "tools[0].parameters");
    for (body, path) in [
        (&function as &dyn Fn(&str) -> String, path),
        (&chat, "tools[0].function.parameters"),
        (&format, "text.format.schema"),
    ] {
        assert_eq!(beyond(&body(&object(4))), None);
        assert_eq!(beyond(&body(&object(5))).as_deref(), Some(path));
        assert_eq!(beyond(&body(&long)).as_deref(), Some(path));
        let names = r#"{"patternProperties":{"a":{},"b":{},"c":{},"d":{},"e":{}}}"#;
        assert_eq!(beyond(&body(names)).as_deref(), Some(path));
        let escaped = object(5).replace("pattern", "p\\u0061ttern");
        assert_eq!(beyond(&body(&escaped)).as_deref(), Some(path), "however the word is written");
    }
    // A property may be called so.
    assert_eq!(beyond(&function(r#"{"properties":{"pattern":{"type":"string"}}}"#)), None);
}

#[test]
fn instructions_are_measured_as_they_read() {
    assert_eq!(beyond(&with(r#""instructions":"0123456789""#)), None);
    assert_eq!(beyond(&with(r#""instructions":"\n\n\n\n\n\n\n\n\n\n""#)), None);
    assert_eq!(beyond(&with(r#""instructions":"0123456789a""#)).as_deref(), Some("instructions"));
    let prompt = r#""prompt":{"id":"a","variables":{"x":"0123456789"}}"#;
    assert_eq!(beyond(&with(prompt)).as_deref(), Some("prompt"));
}

#[test]
fn what_cannot_be_read_does_not_end_the_count() {
    let items = |first: &str| {
        let rest = times(r#"{"role":"user","content":"x"}"#, 8);
        let body = format!(r#"{{"model":"m","input":[{first},{rest}]}}"#);
        CreateResponse::parse_with_limits(body.as_bytes(), SMALL).unwrap_err()
    };
    for (first, code) in [
        (r#"{"role":"user","content":"x","later":1e999}"#, "invalid_value"),
        (r#"{"role":"user","content":"x","later":"\ud800"}"#, "invalid_value"),
    ] {
        let error = items(first);
        assert_eq!((error.code(), error.body.param.as_deref()), (code, Some("input[0].later")), "{error}");
    }
    let deep = format!(r#"{{"role":"user","content":"x","later":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    let error = items(&deep);
    assert!(matches!(error.code(), "invalid_value" | "array_above_max_length"), "{error}");
}

/// Each of them became an entry of a map, as many as the body has room for.
#[test]
fn objects_with_fields_of_any_name_have_a_limit_of_fields() {
    let fields = |count: usize| (0..count).map(|n| format!("\"a{n}\":\"\"")).collect::<Vec<_>>().join(",");
    let server = |count| {
        format!(
            r#"{{"model":"m","input":"x","tools":[{{"type":"mcp","server_label":"s","server_url":"https://a.example/",
                "headers":{{{}}}}}]}}"#,
            fields(count)
        )
    };
    let command = |count| {
        format!(
            r#"{{"model":"m","input":[{{"type":"local_shell_call","id":"c","call_id":"c","status":"completed",
                "action":{{"type":"exec","command":["ls"],"env":{{{}}}}}}}]}}"#,
            fields(count)
        )
    };
    let refused = |body: String| {
        let error = CreateResponse::parse_with_limits(body.as_bytes(), RequestSizeLimits::default()).err()?;
        Some((error.code().to_owned(), error.body.param.unwrap_or_default()))
    };
    let beyond = |param: &str| Some(("object_above_max_properties".to_owned(), param.to_owned()));
    assert_eq!((refused(server(1024)), refused(server(1025))), (None, beyond("tools[0].headers")));
    assert_eq!((refused(command(1024)), refused(command(1025))), (None, beyond("input[0].action.env")));
}
