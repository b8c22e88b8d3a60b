//! The integration tests, one binary: one module a capability.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in functions marked #[test] only, not in what these share"
)]

mod errors;
mod floors;
mod functions;
mod hostile;
mod machine;
mod operation;
mod responses;
mod state;
mod store;
mod support;
