//! Responses over WebSocket: `GET /v1/responses` with an upgrade.
//!
//! Each message `response.create` is a request; its response is sent as the events of a stream, one JSON text each. The
//! requests of a connection run one after the other. Limits, authorization and logs are those of HTTP requests, for
//! each message. `handshake` opens a connection, `connection` is its loop, `turn` makes one response, `answers` takes those of its questions, `followed` reads a run that asks them, `metered`
//! bounds the memory of what clients send.

mod answers;
mod closing;
mod connection;
mod envelope;
mod followed;
mod frames;
mod handshake;
mod metered;
mod turn;

use std::any::Any;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) use handshake::{is_handshake, upgrade};

use super::AppState;

/// What a connection needs of the server beyond its handshake; an extension of requests that ask for an upgrade.
#[derive(Clone)]
pub(crate) struct UpgradeHost {
    /// The configuration generation that serves the next message.
    pub current: Arc<dyn Fn() -> AppState + Send + Sync>,
    /// Tasks that the server waits for at its end.
    pub tasks: TaskTracker,
    /// Cancelled by a shutdown: the response in progress is finished, then the connection is closed.
    pub draining: CancellationToken,
    /// Cancelled when a shutdown waits no longer.
    pub force_close: CancellationToken,
    /// Held as long as the connection is open.
    pub _slot: Arc<dyn Any + Send + Sync>,
}
