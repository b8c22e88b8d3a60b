//! The HTTP layer: routes, authorization, request and response bodies. Calls the engine; decides nothing about responses.

pub(crate) mod client_profile;
pub(crate) mod openapi;
pub(crate) mod route_table;
pub(crate) mod routes;

mod access;
mod admin;
mod agents;
mod authority;
mod background;
mod body;
mod body_reader;
mod cancel;
mod compact;
mod conversation_items;
mod conversations;
mod drain;
mod error;
mod follow;
mod forwarded;
mod health;
mod idempotency;
mod input_tokens;
mod mcp;
mod models;
mod names_header;
mod origin;
mod pass_through;
mod query;
mod readiness;
mod request_context;
mod response_budget;
mod responses;
mod sse;
pub(crate) mod startup;
mod state;
mod stored;
pub(crate) mod tool_result;
mod tools;
mod websocket;

pub(crate) use forwarded::PeerAddress;
pub(crate) use health::is_ready;
pub(crate) use readiness::{ReadinessCache, ShutdownFlag};
pub(crate) use request_context::begin_log;
pub(crate) use state::{AccessRules, AppState, ReadinessState, RequestSettings, Services, SharedState};
pub(crate) use websocket::UpgradeHost;
