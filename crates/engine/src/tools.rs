//! The tools of a run, resolved before it starts ([`RunTools`]). A file answers one question:
//!
//! - `resolve`: all of it, in order; `run_tools`: what comes of it, and is collected again when servers change theirs
//! - `scope`: whether the gateway runs tools, and for whom and how they are shown
//! - `own`, `mcp_servers`, `hosted`: which tools of the gateway, which servers and which hosted tools the request asks for
//! - `offered`, `wire_names`: what the model is offered, under which names, and who runs it
//! - `choice`, `call_filter`: what may be called, and what must
//! - `approvals`: which calls the user has approved
//!
//! Calls are executed by the run (`run`, `tool_executor`).

pub(super) mod approvals;
pub(super) mod call_filter;
mod carried;
pub(super) mod choice;
pub mod hosted;
pub(super) mod mcp_servers;
pub(super) mod offered;
mod own;
mod resolve;
mod run_tools;
pub(super) mod scope;
mod wire_names;

pub(super) use carried::with_carried;
pub(super) use resolve::{ResolvedTools, ToolRequest, resolve};
pub(super) use run_tools::RunTools;
