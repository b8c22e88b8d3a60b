//! The form in which a model reads the results of its calls.

use serde::{Deserialize, Serialize};

/// How results are sent to models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// The result's text; `Error: …` for failures.
    #[default]
    Text,
    /// `{"id", "success": true, "data"}`, `{"id", "success": false, "error"}`.
    JsonEnvelope,
}
