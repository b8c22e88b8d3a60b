//! How a response is made, without any I/O: model events in, response events out.
//!
//! `turn` defines one inference, its request and its events; `machine` turns model events into the events of a
//! response; `presentation` says which items and events show server-side calls;
//! `accumulator` builds the response from these; `size` measures them for limits; `seal` encrypts provider
//! state that clients carry; `json_scanner` finds the end of JSON that arrives in pieces; `code_fence` removes the fence around an
//! answer that is to be JSON.

pub(crate) mod accumulator;
pub(crate) mod code_fence;
pub(crate) mod json_scanner;
pub(crate) mod machine;
pub(crate) mod presentation;
pub(crate) mod result_text;
pub(crate) mod seal;
mod size;
pub(crate) mod turn;
