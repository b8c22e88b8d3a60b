//! The chat-completions dialect, both ways, without input or output.
//!
//! `request` writes what a model is asked, `stream` reads what it answers. Neither knows HTTP or servers
//! by name: how a server differs is said by its options.

mod calls;
mod stream;
mod think;
mod thoughts;
mod wire;

#[cfg(test)]
mod tests;

pub use stream::Translator;
pub use think::ThinkTags;
