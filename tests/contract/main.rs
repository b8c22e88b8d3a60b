//! The contract with clients: what a request may say, and what its answer is, over HTTP and WebSocket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "clippy.toml allows panics in functions marked #[test] only; helpers take json!(..) as it is"
)]
#![allow(unreachable_pub, reason = "nothing here is reached from outside")]

mod access;
mod bounded;
mod call_ids;
mod choices;
mod clients;
mod codex;
mod disconnect;
mod errors;
mod fields;
mod functions;
mod hostile;
mod input_tokens;
mod machine;
mod models;
mod network;
mod orders;
mod pass_through;
mod provider_state;
mod responses;
mod structured;
mod traces;
mod websocket;
