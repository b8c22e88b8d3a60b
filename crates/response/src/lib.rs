//! How a response is made, without any I/O: model events in, response events out.
//!
//! `turn` defines one inference, its request and its events; `machine` turns model events into the events of a
//! response; `presentation` says which items and events show server-side calls;
//! `accumulator` builds the response from these; `size` measures them for limits; `seal` encrypts provider
//! state that clients carry; `json_scanner` finds the end of JSON that arrives in pieces; `code_fence` removes the fence around an
//! answer that is to be JSON.

pub(crate) mod accumulator;
pub mod code_fence;
pub mod json_scanner;
pub mod machine;
pub mod presentation;
pub mod result_text;
pub mod seal;
mod size;
pub mod turn;
