//! `server.websocket`: responses over WebSocket.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units::{self, MIB};

/// Responses over WebSocket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSocketSettings {
    /// Interval of pings.
    #[serde(with = "units::HumanDuration")]
    pub ping_interval: Duration,
    /// How long a client may send nothing, not even the answer to a ping.
    #[serde(with = "units::HumanDuration")]
    pub idle_timeout: Duration,
    /// Maximum bytes of a message.
    #[serde(with = "units::ByteSize")]
    pub max_frame_bytes: usize,
    /// Maximum requests of a connection that wait for the response in progress.
    pub max_queued_turns: usize,
    /// How long a connection may live.
    #[serde(with = "units::HumanDuration")]
    pub max_age: Duration,
}

impl Default for WebSocketSettings {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(5),
            max_frame_bytes: 32 * MIB,
            max_queued_turns: 16,
            max_age: Duration::from_mins(60),
        }
    }
}
