//! The integration tests, one binary: one module a capability.

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
mod async_tools;
mod background;
mod bounded;
mod bus;
mod call_ids;
mod cancel;
mod choices;
mod clients;
mod codex;
mod compaction;
mod conversations;
mod crash;
mod dashboards;
mod deletion;
mod demo;
mod disconnect;
mod doctor;
mod documents;
mod erasure;
mod errors;
mod failed_requests;
mod fields;
mod floors;
mod follow;
mod foreign_files;
mod functions;
mod hostile;
mod idempotency;
mod input_tokens;
mod inputs;
mod machine;
mod mcp;
mod models;
mod network;
#[path = "next_version/migrations.rs"]
mod next_version;
mod one_sided;
mod operation;
mod orders;
mod papers;
mod pass_through;
mod pooler;
mod prompt;
mod provider_state;
mod recovery;
mod refused_calls;
mod replays;
mod replicas;
mod responses;
mod runs;
mod state;
mod store;
mod structured;
mod support;
mod terminal;
mod tools;
mod traces;
mod ui;
mod unserved_tools;
mod webhooks;
mod websocket;
