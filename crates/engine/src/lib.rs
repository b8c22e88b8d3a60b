//! The agentic loop: every transport starts or queues its runs here, and reads one stream of events.
//!
//! `engine` is what transports call.
//!
//! One run:
//! - `prepare` validates a request and collects what its run needs: `run_spec` (what was asked), `prompt` (how the model is asked) and `tools`
//!   (which tools it has and what may be called); `states` returns sealed state to the provider that it came from.
//! - `start` starts a run, `run` drives it and ends the response, `event_sink` sends the events, `record` builds the stored rows,
//!   `run_conversation` is the conversation that a run appends to.
//! - `resume_point` is where a run was that another process goes on with or ends.
//!
//! Runs that clients come back for:
//! - `keyed` starts runs that have an idempotency key, and leads to what they have come to; `background` queues runs and executes
//!   them.
//! - `event_log` writes the events of a run to the store, `follow` sends them again, `log_tails` shares the reads of followers,
//!   `live_runs` says how far the runs of this process are, `claims` and `lost_claims`
//!   which background runs it executes.
//! - `client_tools` says whether a run asks its client and goes on, `inputs` takes the answers, `deadlines` wakes runs that got none.
//! - `completions` takes results of tools whose work goes on, `callbacks` from other programs, by a `callback_token`; `completed_calls` does what they lead to.
//! - `cancel` ends runs for their owner, `webhooks` and `webhook_delivery` tell of the end of responses, `recover` ends the runs of
//!   processes that are gone.
//!
//! Without a run: `conversations` changes conversations, `token_count` measures a prompt.

mod async_results;
mod background;
mod call_items;
mod callback_token;
mod callbacks;
mod cancel;
mod chain;
mod citations;
mod claims;
mod client_answers;
mod client_tools;
mod compaction;
mod completed_calls;
mod completion_text;
mod completions;
#[cfg(test)]
mod complexity_tests;
mod connection_history;
mod context;
mod conversation;
mod conversations;
mod deadlines;
mod disconnect;
mod echo;
mod engine;
mod event_log;
mod event_sink;
mod follow;
mod followed_page;
mod history;
mod in_flight;
mod inputs;
mod itemless_turns;
mod journal;
mod keyed;
mod large_pages;
mod limits;
mod live_runs;
mod log_tails;
mod lost_claims;
mod named_outputs;
mod poll_rates;
mod prepare;
mod profile;
mod progress;
mod prompt;
mod record;
mod recover;
mod redaction;
mod refused_calls;
mod replayed;
mod resume_point;
mod run;
mod run_conversation;
mod run_handle;
mod run_spec;
mod sampling;
mod seen_log;
mod start;
mod states;
mod stops;
mod structured;
mod task_polls;
mod token_count;
mod tool_executor;
mod tools;
pub mod trace_document;
mod truncate;
mod user_questions;
mod webhook_delivery;
mod webhooks;

pub use background::Queued;
pub use cancel::{Cancelled, watch_cancellations};
pub use connection_history::ConnectionHistory;
pub use context::{EngineOptions, EngineParts, EventReader, OnUnservedTool, RunContext};
pub use engine::Engine;
pub use event_sink::{BatchEvents, EventBatch};
pub use follow::{Follower, RESPONSE_DELETED, deleted_meanwhile};
pub use in_flight::{AdmittedRequest, InFlight};
pub use keyed::{Keyed, KnownResponse};
pub use lost_claims::give_back_lost_claims;
pub use progress::is_unfinished;
pub use recover::{RecoveredRun, Recovery};
pub use run_handle::RunHandle;
pub use sampling::EngineSampler;
pub use tools::hosted;
pub use webhook_delivery::WebhookDelivery;
pub use webhooks::Webhooks;
