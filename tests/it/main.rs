//! The integration tests, one binary: one module a capability.

mod machine;
mod support;
