//! The wire format: requests, responses, items, tools and stream events as clients see them.
//!
//! Reading is lenient, writing is exact. Knows nothing of HTTP, of providers or of how a response is made.

pub mod a2a;
pub mod cancellation;
pub mod content;
pub mod dialect;
pub mod elicitation;
pub mod error;
pub mod event;
pub mod id;
pub mod item;
pub mod json;
pub mod parse;
pub mod request;
pub mod response;
pub mod result_format;
pub mod schema;
mod strict;
mod tagged;
pub mod tool;
pub mod tool_choice;
