//! The integration tests, one binary: one module a capability.

mod floors;
mod functions;
mod machine;
mod responses;
mod state;
mod support;
