//! Items of the tools that make something: code that is run, images, programs that call tools.

use serde::{Deserialize, Serialize};

use crate::protocol::content::null_is_default;
use crate::protocol::id::Id;
use crate::protocol::item::ItemStatus;
use crate::protocol::item::optional_id::{id_or_unset, unset};
use crate::protocol::tagged::tagged;

/// Code that was run in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeInterpreterCall {
    /// `ci_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The container it ran in.
    pub container_id: String,
    /// The code.
    #[serde(default)]
    pub code: Option<String>,
    /// What it gave; null unless `include` asks for it.
    #[serde(default)]
    pub outputs: Option<Vec<CodeInterpreterOutput>>,
}

tagged! {
    /// An output of running code.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[allow(missing_docs, reason = "the names are the API's own")]
    pub enum CodeInterpreterOutput {
        Logs { logs: String },
        Image { url: String },
    }
}

/// An image that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageGenerationCall {
    /// `ig_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The image in base64; null until it is made.
    #[serde(default)]
    pub result: Option<String>,
}

/// A program that calls tools by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// `prog_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Pairs the program with its output and with the calls it makes.
    pub call_id: String,
    /// Its source.
    pub code: String,
    /// The server's own mark on it.
    pub fingerprint: String,
}

/// What a program gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramOutput {
    /// `prgo_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The program that is answered.
    pub call_id: String,
    /// What it printed.
    pub result: String,
    /// `completed` or `incomplete`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
}
