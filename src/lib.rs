//! antwort: a stateful, agentic `/v1/responses` in front of any OpenAI-compatible model server.
//!
//! The floors, each of which knows only those above it in this list; see `docs/architecture.md`.

// 1: the wire and what everything needs
pub mod config;
pub mod net;
pub mod protocol;
pub mod telemetry;
// 2: how a response is made, without input or output; who may do how much at a time
pub mod admission;
pub mod response;
// 3: the outside world behind traits
pub mod auth;
pub mod provider;
pub mod store;
pub mod tools;
// 4: the loop
pub mod engine;
// 5: HTTP
pub mod transport;
// 6: the program
pub mod app;
pub mod cli;
pub mod demo;
pub mod shutdown;
