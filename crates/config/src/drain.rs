//! How a gateway stops.

use serde::{Deserialize, Serialize};

/// What a gateway that drains does with new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainListener {
    /// Refuses them, so that load balancers try the next instance, and closes those that are idle.
    Close,
    /// Accepts them: probes see that it drains, and new responses are 503.
    Refuse,
}
