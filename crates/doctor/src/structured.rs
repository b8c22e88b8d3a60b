//! Whether answers follow a JSON Schema: what is asked and how it is judged.

use serde_json::{Value, json};

use super::excerpt::quoted;
use super::exchange::Exchange;
use super::finding::Judgement;
use super::question::{Ask, Setup, with};

/// The schema of an answer whose member `value` has this schema.
fn schema_of(value: &str) -> Value {
    let mut schema =
        json!({"type": "object", "properties": {}, "required": ["value"], "additionalProperties": false});
    if value.contains("$defs") {
        schema = with(schema, "$defs", json!({"word": {"enum": ["otter-7", "zebra-9"]}}));
    }
    let value: Value = serde_json::from_str(value).unwrap_or_default();
    with(schema, "properties", json!({"value": value}))
}

/// Asks for an answer by this schema, and for a value that it does not allow.
pub(super) fn ask(setup: &Setup, schema: &str, value: &str, tools: bool) -> Ask {
    let prompt = format!("Answer with a JSON object whose only member \"value\" is {value}.");
    let format = json!({"type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema_of(schema), "strict": true}});
    let body = with(setup.prompt(&prompt), "response_format", format);
    if !tools {
        return Ask::new(body);
    }
    let time = json!([{"type": "function", "function": {"name": "get_time", "description": "Returns the local time.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]);
    Ask::new(with(body, "tools", time))
}

/// Judges the answer.
pub(super) fn judge(exchange: &Exchange, schema: &str) -> Judgement {
    let reply = match exchange.usable() {
        Ok(reply) => reply,
        Err(judgement) => return judgement,
    };
    let text = quoted(&reply.text);
    if !reply.calls.is_empty() {
        return Judgement::unknown("a call instead of an answer");
    }
    let validator = match jsonschema::validator_for(&schema_of(schema)) {
        Ok(validator) => validator,
        Err(error) => return Judgement::unknown(error.to_string()),
    };
    match serde_json::from_str::<Value>(&reply.text) {
        Ok(answer) if validator.is_valid(&answer) => Judgement::yes(text),
        Ok(_) => Judgement::ignored(format!("another value: {text}")),
        // A beginning of JSON may be a constrained answer that the limit has cut.
        Err(_)
            if reply.is_cut_short()
                && (reply.text.trim().is_empty() || reply.text.trim().starts_with('{')) =>
        {
            Judgement::unknown(format!("the limit of tokens ended the answer: {text}"))
        }
        Err(_) => Judgement::ignored(format!("no JSON: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Exchange, judge, schema_of};
    use crate::finding::Answer;
    use crate::question::Way;
    use crate::questions;
    use crate::reply::Reply;

    fn judged(text: &str, finish: &str, schema: &str) -> Answer {
        let mut reply = Reply::default();
        reply
            .take(&json!({"choices": [{"index": 0, "message": {"content": text}, "finish_reason": finish}]}));
        judge(&Exchange { status: Some(200), reply, ..Exchange::default() }, schema).answer
    }

    #[test]
    fn only_an_answer_that_follows_counts() {
        let schema = r#"{"enum": ["otter-7", "zebra-9"]}"#;
        for (text, finish, answer) in [
            (r#"{"value": "otter-7"}"#, "stop", Answer::Yes),
            (r#"{"value": "cat"}"#, "stop", Answer::Ignored),
            ("A cat.", "stop", Answer::Ignored),
            ("A cat of many wor", "length", Answer::Ignored),
            (r#"{"value": "ot"#, "length", Answer::Unknown),
        ] {
            assert_eq!(judged(text, finish, schema), answer, "{text}");
        }
    }

    #[test]
    fn every_schema_is_valid_and_can_be_followed() {
        for question in questions::all() {
            let Way::Schema { schema, .. } = question.way else { continue };
            assert!(serde_json::from_str::<serde_json::Value>(schema).is_ok(), "{}", question.id);
            assert!(jsonschema::validator_for(&schema_of(schema)).is_ok(), "{}", question.id);
        }
    }
}
