//! antwort: a stateful, agentic `/v1/responses` in front of any OpenAI-compatible model server.
//!
//! What a program that embeds the gateway may use is public: [`app::App`] with its [`config`], tools of its own
//! ([`tools::ToolExecutor`]) and a store of its own ([`store::Store`], with the wire types of [`protocol`]).
//!
//! The floors, each of which knows only those above it in this list; see `docs/architecture.md`.

// 0: helpers without dependencies
// 1: the wire and what everything needs
pub use antwort_config as config;
pub use antwort_protocol as protocol;
// 2: how a response is made, without input or output; who may do how much at a time
// 3: the outside world behind traits
mod auth;
pub use antwort_store as store;
pub use antwort_tools as tools;
// 4: the loop; what a model server can do
// 5: HTTP
mod transport;
// 6: the program
pub mod app;
mod cli;
mod demo;
mod logging;
pub mod program;
pub mod shutdown;

#[doc(hidden)]
pub mod internal;
