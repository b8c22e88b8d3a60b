//! Reasoning items and compactions.

use serde::{Deserialize, Serialize};

use crate::content::null_is_default;
use crate::id::Id;

/// The reasoning of a model before its answer. Has no status on the wire, as clients keep the `in_progress` with which
/// such an item begins, unless its inference was abandoned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// `rs_…`
    #[serde(default = "reasoning_id", deserialize_with = "id_or_new")]
    pub id: Id,
    /// Always an array on the wire; SDKs crash on null.
    #[serde(default, deserialize_with = "null_is_default")]
    pub summary: Vec<SummaryText>,
    /// The raw reasoning, if the provider shows it.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ReasoningText>,
    /// The sealed blob with the provider's state; see `response/seal.rs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_content: Option<String>,
    /// Whether its inference was abandoned: the model was asked again. On the wire it is `"status": "incomplete"`.
    #[serde(
        rename = "status",
        default,
        with = "super::abandoned_status",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_abandoned: bool,
}

/// A part of a reasoning summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "summary_text")]
pub struct SummaryText {
    /// The text.
    pub text: String,
}

/// A part of the raw reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "reasoning_text")]
pub struct ReasoningText {
    /// The text.
    pub text: String,
}

/// A compaction: a sealed summary of earlier turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// `cm_…`
    #[serde(default = "compaction_id", deserialize_with = "compaction_id_or_new")]
    pub id: Id,
    /// The sealed summary.
    pub encrypted_content: String,
}

/// Requests a compaction of everything before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionTrigger {
    /// `cmt_…`
    #[serde(default = "trigger_id", deserialize_with = "trigger_id_or_new")]
    pub id: Id,
}

impl Default for CompactionTrigger {
    fn default() -> Self {
        Self { id: trigger_id() }
    }
}

fn trigger_id() -> Id {
    Id::unnamed("cmt")
}

fn trigger_id_or_new<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(trigger_id))
}

fn reasoning_id() -> Id {
    Id::unnamed("rs")
}

fn compaction_id() -> Id {
    Id::unnamed("cm")
}

fn id_or_new<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(reasoning_id))
}

fn compaction_id_or_new<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(compaction_id))
}
