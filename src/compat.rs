//! What imitates the Go programs before this one, so that their files, scripts and prompts keep working: agent files and the
//! configuration made of them, keys that moved, flags with one dash, date layouts, durations, and the words of `antwort prompt`.
//!
//! Nothing here is used for its own sake: whoever removes a piece removes one compatibility and nothing else. Each piece has
//! a floor of its own (`tests/it/floors.rs`), so that configuration and tools can use those that know nothing.

pub(crate) mod arguments;
pub(crate) mod duration;
pub(crate) mod foreign_files;
pub(crate) mod import;
pub(crate) mod legacy_keys;
pub(crate) mod prompt;
pub(crate) mod time_layout;
