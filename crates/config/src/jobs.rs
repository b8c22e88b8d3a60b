//! Background runs: which process makes them, and how many at a time.

use serde::{Deserialize, Serialize};

/// What a process does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Serves requests and makes background runs.
    #[default]
    All,
    /// Serves requests; workers make the background runs.
    Gateway,
    /// Makes background runs; serves nothing but probes and metrics.
    Worker,
}

impl Role {
    /// Whether it makes background runs.
    pub fn makes_jobs(self) -> bool {
        self != Self::Gateway
    }

    /// Whether it serves the API.
    pub fn serves_api(self) -> bool {
        self != Self::Worker
    }
}

/// Background runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSettings {
    /// Background runs that this process makes at a time.
    pub concurrency: usize,
    /// How many of them may be of one tenant; absent: half of them if keys of two tenants are configured, or two have rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runs_per_tenant: Option<usize>,
    /// How often a run is begun or resumed before it fails.
    pub max_attempts: u32,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self { concurrency: 256, max_runs_per_tenant: None, max_attempts: 3 }
    }
}
