//! How a response is made, free of any input or output: turns in, events out.
//!
//! `turn` says what is asked of a model and what it answers; `machine` turns answers into the stream of
//! events; `fold` holds the response as they build it up; `size` says what of it counts against limits; `seal` keeps
//! provider state safe in clients' hands.

pub(crate) mod accumulator;
pub(crate) mod json_scanner;
pub(crate) mod machine;
pub(crate) mod result_text;
pub(crate) mod seal;
mod size;
pub(crate) mod turn;
