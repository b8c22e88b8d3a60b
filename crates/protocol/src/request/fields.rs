//! The fields of a request with their parsers: those of the API, and known ones that are refused.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::scalar::{
    any_object, boolean, bounded_string, decimal, enum_value, integer, non_empty_string, non_empty_strings,
    string,
};
use super::{
    CreateResponse, Include, Metadata, ReasoningRequest, StreamOptions, TextConfig, conversation, input,
    unserved,
};
use crate::parse::{self, FromJson, ParseError};
use crate::tool::Tool;

type Reader = fn(&mut CreateResponse, &RawValue) -> Result<(), ParseError>;

/// Every known field by name. Parsers never see null.
pub(super) const READERS: &[(&str, Reader)] = &[
    ("agent", |r, raw| put_some(&mut r.agent, non_empty_string(raw))),
    ("allowed_tools", |r, raw| put(&mut r.allowed_tools, non_empty_strings(raw))),
    ("antwort", |r, raw| put_some(&mut r.antwort, FromJson::from_json(raw))),
    ("background", |r, raw| put(&mut r.background, boolean(raw))),
    ("client_metadata", |_, _| Ok(())),
    ("context_management", |r, raw| put_some(&mut r.context_management, FromJson::from_json(raw))),
    ("conversation", |r, raw| put_some(&mut r.conversation, conversation::reference(raw))),
    ("frequency_penalty", |r, raw| put_some(&mut r.frequency_penalty, decimal(raw, -2.0, 2.0))),
    ("include", |r, raw| put(&mut r.include, Include::from_json(raw))),
    ("input", |r, raw| {
        r.input_bytes = raw.get().len();
        put(&mut r.input, input::read(raw, &mut r.unserved_fields))
    }),
    ("instructions", |r, raw| put_some(&mut r.instructions, string(raw))),
    ("max_output_tokens", |r, raw| put_some(&mut r.max_output_tokens, integer(raw, 1, MAX_TOKEN_COUNT))),
    ("max_tool_calls", |r, raw| put_some(&mut r.max_tool_calls, integer(raw, 1, MAX_TOKEN_COUNT))),
    ("metadata", |r, raw| put(&mut r.metadata, Metadata::from_json(raw))),
    ("model", |r, raw| put_some(&mut r.model, non_empty_string(raw))),
    ("moderation", |_, _| refuse("moderation is not supported.")),
    ("n", |_, raw| match integer(raw, 0, MAX_TOKEN_COUNT)? {
        1 => Ok(()),
        _ => refuse("one response is made per request; send several requests."),
    }),
    ("parallel_tool_calls", |r, raw| put(&mut r.parallel_tool_calls, boolean(raw))),
    ("presence_penalty", |r, raw| put_some(&mut r.presence_penalty, decimal(raw, -2.0, 2.0))),
    ("previous_response_id", |r, raw| put_some(&mut r.previous_response_id, non_empty_string(raw))),
    ("prompt", |r, raw| put_some(&mut r.prompt, FromJson::from_json(raw))),
    ("prompt_cache_key", |r, raw| put_some(&mut r.prompt_cache_key, bounded_string(raw, 64))),
    ("prompt_cache_options", |r, raw| {
        any_object(raw)?;
        unserved::in_object("prompt_cache_options", raw, &mut r.unserved_fields);
        Ok(())
    }),
    ("prompt_cache_retention", |r, raw| put_some(&mut r.prompt_cache_retention, enum_value(raw))),
    ("reasoning", |r, raw| put(&mut r.reasoning, ReasoningRequest::from_json(raw))),
    ("safety_identifier", |r, raw| put_some(&mut r.safety_identifier, bounded_string(raw, 64))),
    ("service_tier", |r, raw| put_some(&mut r.service_tier, enum_value(raw))),
    ("store", |r, raw| put(&mut r.store, boolean(raw))),
    ("stream", |r, raw| put(&mut r.stream, boolean(raw))),
    ("stream_options", |r, raw| put(&mut r.stream_options, StreamOptions::from_json(raw))),
    ("temperature", |r, raw| put_some(&mut r.temperature, decimal(raw, 0.0, 2.0))),
    ("text", |r, raw| put(&mut r.text, TextConfig::from_json(raw))),
    ("tool_choice", |r, raw| put(&mut r.tool_choice, FromJson::from_json(raw))),
    ("tools", |r, raw| {
        r.tools = unserved::read_tools(raw, "tools", &mut r.unserved_fields)?;
        check_names(&r.tools)
    }),
    ("top_logprobs", |r, raw| {
        let number = integer(raw, 0, 20)?;
        r.top_logprobs = u8::try_from(number).ok();
        Ok(())
    }),
    ("top_p", |r, raw| put_some(&mut r.top_p, decimal(raw, 0.0, 1.0))),
    ("truncation", |r, raw| put(&mut r.truncation, enum_value(raw))),
    ("user", |r, raw| put_some(&mut r.user, string(raw))),
];

/// The names of all known fields, in alphabetical order.
#[allow(clippy::indexing_slicing, reason = "a wrong index would not compile")]
pub const FIELDS: &[&str] = &{
    let mut names = [""; READERS.len()];
    let mut i = 0;
    while i < READERS.len() {
        names[i] = READERS[i].0;
        i += 1;
    }
    names
};

/// Accepted values without effect, with the reason; `docs/compatibility.md` repeats it.
pub const NO_OPS: &[(&str, &str)] = &[
    ("client_metadata", "metadata of coding agents; ignored"),
    ("include[]: code_interpreter_call.outputs", "hosted tools' items always carry what they have"),
    ("include[]: file_search_call.results", "hosted tools' items always carry what they have"),
    ("include[]: web_search_call.action.sources", "hosted tools' items always carry what they have"),
    ("include[]: web_search_call.results", "hosted tools' items always carry what they have"),
    ("input[].async", "of a call that another server has made; its output is needed all the same"),
    ("input[].caller", "of functions and custom tools; programs that call tools are not supported"),
    ("input[].content[].detail", "of an input_file; the chat API has no such field"),
    ("input[].content[].prompt_cache_breakpoint", "a prompt-cache hint; caching is left to the provider"),
    ("input[].created_by", "creator of an item at another server; ignored"),
    ("input[].status", "of a reasoning item, which has none; replayed by clients, ignored"),
    ("n", "only 1 is accepted, the default"),
    (
        "prompt_cache_options",
        "a prompt-cache hint; caching is left to the provider; prewarm: true is refused",
    ),
    ("reasoning.context", "auto and all_turns are accepted; the reasoning of all turns is replayed anyway"),
    ("reasoning.mode", "only standard is accepted, the default"),
    ("stream_options.include_usage", "the last event always carries the usage"),
];

/// A limit beyond all context windows, which keeps sums from overflowing.
const MAX_TOKEN_COUNT: u64 = u32::MAX as u64;

fn put<T>(slot: &mut T, value: Result<T, ParseError>) -> Result<(), ParseError> {
    *slot = value?;
    Ok(())
}

fn put_some<T>(slot: &mut Option<T>, value: Result<T, ParseError>) -> Result<(), ParseError> {
    *slot = Some(value?);
    Ok(())
}

fn refuse(why: &str) -> Result<(), ParseError> {
    Err(ParseError::unsupported("", why))
}

/// Checks that a call can mean only one of them.
fn check_names(tools: &[Tool]) -> Result<(), ParseError> {
    let mut seen = HashSet::with_capacity(tools.len());
    for (i, tool) in tools.iter().enumerate() {
        // Servers and namespaces are not called themselves: they may have the name of a function.
        let (field, group, name) = match tool {
            Tool::Function(tool) => ("name", "tool", tool.name.as_str()),
            Tool::Custom(tool) => ("name", "tool", tool.name.as_str()),
            Tool::Namespace(tool) => ("name", "namespace", tool.name.as_str()),
            Tool::Mcp(tool) => ("server_label", "server", tool.server_label.as_str()),
            _ => continue,
        };
        if !seen.insert((group, name)) {
            let problem = format!("duplicate {group} name '{}'.", parse::truncate_for_display(name));
            return Err(ParseError::invalid(field, problem).at(i));
        }
    }
    Ok(())
}
