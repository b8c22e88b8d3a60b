//! Translation to and from the chat-completions protocol, without I/O.
//!
//! `request` encodes requests, `stream` decodes answers. Neither knows HTTP or particular servers: differences between
//! servers are options.

mod call_ids;
mod calls;
mod chunk_template;
mod content;
mod early;
mod errors;
mod estimate;
mod extras;
mod finish;
mod message;
mod messages;
mod options;
mod order;
mod plain_text;
mod prompt;
mod reasoning;
mod request;
mod specific_fields;
mod stream;
mod surrogates;
mod think_tags;
mod tools;
mod usage;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use estimate::estimate;
pub(crate) use options::ChatOptions;
pub(crate) use prompt::encode_prompt;
pub(crate) use request::encode;
pub use stream::Translator;
