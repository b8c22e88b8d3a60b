//! Tables of what servers send and the events that it is translated to: one row for each quirk.
//!
//! Rows are written as the `data` of SSE events; model events are written in the shorthand of [`show`].

mod answers;
mod calls;
mod ends;
mod fuzz;
mod memory;
mod reasoning;
mod request;
mod templates;

use std::sync::Arc;

use super::Translator;
use crate::{ProviderError, ProviderErrorKind};
use antwort_config::ThinkTags;
use antwort_net::sse::Decoder;
use antwort_response::turn::{CallKind, ModelEvent, ModelTool, ToolInput};

/// A row: what is shown, the chunks, and the events that they give.
type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

fn check(rows: &[Row<'_>]) {
    for (name, chunks, expected) in rows {
        assert_eq!(run(&frames(chunks)), *expected, "{name}");
    }
}

/// A delta's chunk, by its fields.
macro_rules! delta {
    ($fields:literal) => {
        concat!(r#"{"choices":[{"index":0,"delta":{"#, $fields, "}}]}")
    };
    ($fields:literal, $finish:literal) => {
        concat!(r#"{"choices":[{"index":0,"delta":{"#, $fields, r#"},"finish_reason":""#, $finish, "\"}]}")
    };
}
use delta;

const STOP: &str = delta!("", "stop");
const CALLS: &str = delta!("", "tool_calls");
const DONE: &str = "[DONE]";

fn frames(chunks: &[&str]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn run(stream: &str) -> Vec<String> {
    run_with(stream, ThinkTags::None)
}

/// Decodes and translates a stream as the HTTP layer does.
fn run_with(stream: &str, think: ThinkTags) -> Vec<String> {
    let (mut decoder, mut translator) = (Decoder::new(1 << 20), Translator::new(tools(), true, think));
    decoder.feed(stream.as_bytes());
    let (mut events, mut ended) = (Vec::new(), false);
    let result = loop {
        match decoder.next_event().unwrap() {
            Some(event) => {
                if let Err(error) = translator.push(event.name.as_deref(), &event.data, &mut events) {
                    break Err(error);
                }
            }
            None if !std::mem::replace(&mut ended, true) => decoder.end(),
            None => break translator.finish(&mut events),
        }
    };
    // What was received counts, however the stream ends.
    events.extend(translator.take_usage().map(ModelEvent::Usage));
    shown(&events, result)
}

fn run_body(body: &str) -> Vec<String> {
    let (mut events, mut translator) = (Vec::new(), Translator::new(tools(), true, ThinkTags::None));
    let result = translator.push_body(body, &mut events);
    events.extend(translator.take_usage().map(ModelEvent::Usage));
    shown(&events, result)
}

fn shown(events: &[ModelEvent], result: Result<(), ProviderError>) -> Vec<String> {
    let mut shown: Vec<String> = events.iter().map(show).collect();
    shown.extend(result.err().map(|error| match error.kind {
        ProviderErrorKind::Reported | ProviderErrorKind::Status(_) | ProviderErrorKind::ContextLength => {
            format!("{:?}: {}", error.kind, error.message)
        }
        kind => format!("{kind:?}"),
    }));
    shown
}

fn show(event: &ModelEvent) -> String {
    match event {
        ModelEvent::Text { delta, logprobs } if logprobs.is_empty() => format!("text {delta}"),
        ModelEvent::Text { delta, logprobs } => format!("text {delta} {logprobs:?}"),
        ModelEvent::Refusal(text) => format!("refusal {text}"),
        ModelEvent::Reasoning(text) => format!("reasoning {text}"),
        ModelEvent::ReasoningSummary(text) => format!("summary {text}"),
        ModelEvent::ReasoningState(fields) => format!("state {}", serde_json::to_string(fields).unwrap()),
        ModelEvent::Annotation(annotation) => {
            format!("annotation {}", serde_json::to_string(annotation).unwrap())
        }
        ModelEvent::CallState { slot, fields } => {
            format!("state {slot} {}", serde_json::to_string(fields).unwrap())
        }
        ModelEvent::CallId { slot, call_id } => format!("id {slot} {call_id}"),
        ModelEvent::CallStarted { slot, kind, call_id, name, namespace, fields } => {
            let custom = if *kind == CallKind::Custom { " custom" } else { "" };
            let namespace = namespace.as_ref().map(|name| format!("{name}.")).unwrap_or_default();
            let fields = fields.as_ref().map(|fields| format!(" {}", serde_json::to_string(fields).unwrap()));
            let (id, fields) = (call_id.as_deref().unwrap_or("-"), fields.unwrap_or_default());
            format!("call {slot}{custom} {namespace}{name} {id}{fields}")
        }
        ModelEvent::CallDelta { slot, delta } => format!("args {slot} {delta}"),
        ModelEvent::Usage(usage) => {
            let details =
                (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens);
            format!("usage {}+{}={} {details:?}", usage.input_tokens, usage.output_tokens, usage.total_tokens)
        }
        ModelEvent::ServiceTier(tier) => format!("tier {tier}"),
        ModelEvent::Finish(reason) => format!("{reason:?}"),
    }
}

/// Tools `f`, `get_weather` and `ns__js` (in a namespace), and the custom tool `patch`.
fn tools() -> Arc<[Arc<ModelTool>]> {
    let tool = |wire_name: &str, name: &str, namespace: Option<&str>, input: ToolInput| ModelTool {
        kind: if matches!(input, ToolInput::Text { .. }) { CallKind::Custom } else { CallKind::Function },
        wire_name: wire_name.into(),
        name: name.into(),
        namespace: namespace.map(str::to_owned),
        description: None,
        input,
    };
    let json = || ToolInput::Json { schema: None, strict: None };
    Arc::new([
        tool("f", "f", None, json()).into(),
        tool("get_weather", "get_weather", None, json()).into(),
        tool("ns__js", "js", Some("ns"), json()).into(),
        tool("patch", "patch", None, ToolInput::Text { grammar: None }).into(),
    ])
}
