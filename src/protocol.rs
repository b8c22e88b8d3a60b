//! The wire: requests, responses, items, tools and stream events as clients see them.
//!
//! Owns names, shapes and the rules of leniency (what we accept) and exactness (what we send).
//! Knows nothing of HTTP, of providers or of how a response is made.

pub mod cancellation;
pub mod content;
pub mod dialect;
pub mod error;
pub mod event;
pub mod id;
pub mod item;
pub mod json;
pub mod parse;
pub mod request;
pub mod response;
pub mod schema;
mod strict;
mod tagged;
pub mod tool;
pub mod tool_choice;
