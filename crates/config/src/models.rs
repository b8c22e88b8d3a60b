//! Lists of models.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::units;

/// The cache of model lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelsSettings {
    /// How long a provider's list is cached.
    #[serde(with = "units::HumanDuration")]
    pub cache_ttl: Duration,
}

impl Default for ModelsSettings {
    fn default() -> Self {
        Self { cache_ttl: Duration::from_mins(1) }
    }
}
