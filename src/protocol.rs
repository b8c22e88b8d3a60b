//! The wire format: requests, responses, items, tools and stream events as clients see them.
//!
//! Reading is lenient, writing is exact. Knows nothing of HTTP, of providers or of how a response is made.

pub(crate) mod a2a;
pub(crate) mod cancellation;
pub mod content;
pub(crate) mod dialect;
pub mod elicitation;
pub(crate) mod error;
pub(crate) mod event;
pub mod id;
pub mod item;
pub(crate) mod json;
pub(crate) mod parse;
pub(crate) mod request;
pub mod response;
pub mod result_format;
pub(crate) mod schema;
mod strict;
mod tagged;
pub(crate) mod tool;
pub(crate) mod tool_choice;
