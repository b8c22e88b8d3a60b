//! The chat-completions dialect, both ways, without input or output.
//!
//! `request` writes what a model is asked, `stream` reads what it answers. Neither knows HTTP or servers
//! by name: how a server differs is said by its options.

mod calls;
mod content;
mod message;
mod messages;
mod options;
mod reasoning;
mod request;
mod stream;
mod surrogates;
mod think_tags;
mod tools;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use options::ChatOptions;
pub(crate) use request::encode;
pub use stream::Translator;
