//! Bodies and plain fields that are refused.

use super::{check, check_fields, parsed, refused, with};
use crate::request::CreateResponse;

#[test]
fn what_is_no_json_object() {
    for body in ["", " \n", "null", "[]", "\"hi\"", "{", "{\"model\":\"m\"", "{\"a\":1}x", "{'a':1}", "nope"]
    {
        assert_eq!(refused(body), ("invalid_json".to_owned(), String::new()), "{body}");
    }
    let error = CreateResponse::parse(b"{\"model\": \"m\",\n \"input\": }").unwrap_err();
    assert!(error.body.message.contains("line 2 column 11"), "{error}");
    let error = CreateResponse::parse(b"{\"model\": \"\xff\"}").unwrap_err();
    assert!(error.body.message.contains("not UTF-8 from byte 11"), "{error}");
}

#[test]
fn nesting_is_bounded() {
    let bomb = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let filter = format!("{}{}", r#"{"type":"and","filters":["#.repeat(50_000), "]}".repeat(50_000));
    check(&[
        (with(&format!(r#""foo":{}"#, bomb(200_000))), "invalid_value", "foo"),
        (with(&format!(r#""metadata":{}"#, bomb(200_000))), "invalid_type", "metadata"),
        (format!(r#"{{"input":{}}}"#, bomb(200_000)), "invalid_type", "input[0]"),
        (
            with(&format!(
                r#""tools":[{{"type":"function","name":"f","parameters":{{"a":{}}}}}]"#,
                bomb(20_000)
            )),
            "invalid_value",
            "tools[0].parameters",
        ),
    ]);
    let search =
        with(&format!(r#""tools":[{{"type":"file_search","vector_store_ids":["v"],"filters":{filter}}}]"#));
    let (code, param) = refused(&search);
    assert_eq!(code, "invalid_value");
    assert_eq!(param, "tools[0].filters");
    assert_eq!(refused(&bomb(200_000)).0, "invalid_json");
    assert_eq!(refused(&"[".repeat(200_000)).0, "invalid_json");
    assert_eq!(refused(&"{\"a\":".repeat(200_000)).0, "invalid_json");
}

#[test]
fn numbers_out_of_range() {
    check_fields(&[
        (r#""temperature":2.01"#, "decimal_above_max_value", "temperature"),
        (r#""temperature":-0.1"#, "decimal_below_min_value", "temperature"),
        (r#""temperature":"0.5""#, "invalid_type", "temperature"),
        (r#""temperature":1e999"#, "invalid_value", "temperature"),
        (r#""top_p":1.5"#, "decimal_above_max_value", "top_p"),
        (r#""top_p":-1"#, "decimal_below_min_value", "top_p"),
        (r#""presence_penalty":3"#, "decimal_above_max_value", "presence_penalty"),
        (r#""frequency_penalty":-3"#, "decimal_below_min_value", "frequency_penalty"),
        (r#""top_logprobs":21"#, "integer_above_max_value", "top_logprobs"),
        (r#""top_logprobs":-1"#, "integer_below_min_value", "top_logprobs"),
        (r#""top_logprobs":1.5"#, "invalid_type", "top_logprobs"),
        (r#""max_output_tokens":0"#, "integer_below_min_value", "max_output_tokens"),
        (r#""max_output_tokens":1e-3"#, "invalid_type", "max_output_tokens"),
        (r#""max_output_tokens":1e300"#, "integer_above_max_value", "max_output_tokens"),
        (r#""max_output_tokens":-1.0"#, "integer_below_min_value", "max_output_tokens"),
        (r#""max_output_tokens":true"#, "invalid_type", "max_output_tokens"),
        (
            r#""max_output_tokens":99999999999999999999999999999"#,
            "integer_above_max_value",
            "max_output_tokens",
        ),
        (r#""max_tool_calls":0"#, "integer_below_min_value", "max_tool_calls"),
        (r#""max_tool_calls":-99999999999999999999999"#, "integer_below_min_value", "max_tool_calls"),
    ]);
}

#[test]
fn values_of_the_wrong_kind() {
    let long = "x".repeat(65);
    check_fields(&[
        (r#""store":"yes""#, "invalid_type", "store"),
        (r#""stream":1"#, "invalid_type", "stream"),
        (r#""parallel_tool_calls":{}"#, "invalid_type", "parallel_tool_calls"),
        (r#""instructions":[]"#, "invalid_type", "instructions"),
        (r#""user":1"#, "invalid_type", "user"),
        (r#""previous_response_id":"""#, "string_below_min_length", "previous_response_id"),
        (r#""truncation":"middle""#, "invalid_value", "truncation"),
        (r#""truncation":{"auto":null}"#, "invalid_type", "truncation"),
        (r#""service_tier":"gold""#, "invalid_value", "service_tier"),
        (r#""prompt_cache_retention":"1h""#, "invalid_value", "prompt_cache_retention"),
        (r#""prompt_cache_options":"explicit""#, "invalid_type", "prompt_cache_options"),
        (r#""include":"x""#, "invalid_type", "include"),
        (r#""include":["reasoning.encrypted_content","x"]"#, "invalid_value", "include[1]"),
        (r#""include":[1]"#, "invalid_type", "include[0]"),
        (r#""reasoning":"high""#, "invalid_type", "reasoning"),
        (r#""reasoning":{"effort":"huge"}"#, "invalid_value", "reasoning.effort"),
        (r#""reasoning":{"efort":"low"}"#, "unknown_parameter", "reasoning.efort"),
        (r#""reasoning":{"summary":"full"}"#, "invalid_value", "reasoning.summary"),
        (r#""allowed_tools":"f""#, "invalid_type", "allowed_tools"),
        (r#""allowed_tools":["f",""]"#, "string_below_min_length", "allowed_tools[1]"),
        (
            r#""stream":true,"stream_options":{"include_obfuscation":"no"}"#,
            "invalid_type",
            "stream_options.include_obfuscation",
        ),
        (r#""stream":true,"stream_options":{"pace":1}"#, "unknown_parameter", "stream_options.pace"),
        (r#""stream_options":{}"#, "invalid_value", "stream_options"),
        (&format!(r#""safety_identifier":"{long}""#), "string_above_max_length", "safety_identifier"),
        (&format!(r#""prompt_cache_key":"{long}""#), "string_above_max_length", "prompt_cache_key"),
        (r#""store":true,"store":false"#, "invalid_value", "store"),
        (r#""seed":1,"seed":2"#, "invalid_value", "seed"),
    ]);
    check(&[(r#"{"input":"hi","model":""}"#.to_owned(), "string_below_min_length", "model")]);
}

#[test]
fn metadata_beyond_its_limits() {
    let pairs: Vec<String> = (0..17).map(|i| format!(r#""k{i}":"v""#)).collect();
    let key = "k".repeat(65);
    check_fields(&[
        (r#""metadata":[]"#, "invalid_type", "metadata"),
        (r#""metadata":{"a":1}"#, "invalid_type", "metadata.a"),
        (r#""metadata":{"a":"1","a":"2"}"#, "invalid_value", "metadata.a"),
        (&format!(r#""metadata":{{{}}}"#, pairs.join(",")), "object_above_max_properties", "metadata"),
        (&format!(r#""metadata":{{"{key}":""}}"#), "string_above_max_length", &format!("metadata.{key}")),
        (&format!(r#""metadata":{{"a":"{}"}}"#, "é".repeat(513)), "string_above_max_length", "metadata.a"),
    ]);
}

#[test]
fn text_that_makes_no_sense() {
    let name = "n".repeat(65);
    check_fields(&[
        (r#""text":"json""#, "invalid_type", "text"),
        (r#""text":{"verbosity":"max"}"#, "invalid_value", "text.verbosity"),
        (r#""text":{"formt":{}}"#, "unknown_parameter", "text.formt"),
        (r#""text":{"format":{}}"#, "missing_required_parameter", "text.format.type"),
        (r#""text":{"format":"json"}"#, "invalid_type", "text.format"),
        (r#""text":{"format":{"type":"xml"}}"#, "invalid_value", "text.format.type"),
        (
            r#""text":{"format":{"type":"json_schema","schema":{}}}"#,
            "missing_required_parameter",
            "text.format.name",
        ),
        (
            r#""text":{"format":{"type":"json_schema","name":"a"}}"#,
            "missing_required_parameter",
            "text.format.schema",
        ),
        (
            r#""text":{"format":{"type":"json_schema","name":"a b","schema":{}}}"#,
            "invalid_value",
            "text.format.name",
        ),
        (
            r#""text":{"format":{"type":"json_schema","name":"","schema":{}}}"#,
            "string_below_min_length",
            "text.format.name",
        ),
        (
            &format!(r#""text":{{"format":{{"type":"json_schema","name":"{name}","schema":{{}}}}}}"#),
            "string_above_max_length",
            "text.format.name",
        ),
        (
            r#""text":{"format":{"type":"json_schema","name":"a","schema":true}}"#,
            "invalid_type",
            "text.format.schema",
        ),
        (
            r#""text":{"format":{"type":"json_schema","json_schema":{"name":"a"}}}"#,
            "missing_required_parameter",
            "text.format.json_schema.schema",
        ),
    ]);
}

#[test]
fn unknown_fields_wait_for_the_provider() {
    let request = parsed(&with(r#""top_k":5,"max_tokens":7,"vendor":null"#));
    assert_eq!(
        request.extra.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["top_k", "max_tokens"]
    );
    assert!(request.check_unknown_fields(|_| true).is_ok());
    let error = request.check_unknown_fields(|name| name == "top_k").unwrap_err();
    assert_eq!((error.code(), error.body.param.as_deref()), ("unknown_parameter", Some("max_tokens")));
    assert!(error.body.message.contains("'max_output_tokens'"), "{error}");
}
