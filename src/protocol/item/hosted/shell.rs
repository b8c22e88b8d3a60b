//! Items of the tools that work on a machine: both shells, and patches to files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::content::null_is_default;
use crate::protocol::id::Id;
use crate::protocol::item::ItemStatus;
use crate::protocol::item::optional_id::{id_or_unset, unset};
use crate::protocol::tagged::tagged;
use crate::protocol::tool::LocalSkill;

tagged! {
    /// Who made a call: the model itself, or a program it wrote.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ToolCaller {
        /// The model.
        Direct,
        /// A program.
        Program {
            /// `call_id` of the [`super::Program`] item.
            caller_id: String,
        },
    }
}

/// A command for the client's own shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalShellCall {
    /// `lsh_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Shared by the call and its output.
    pub call_id: String,
    /// What to run.
    pub action: LocalShellAction,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
}

/// What to run in the client's shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "exec")]
pub struct LocalShellAction {
    /// Program and arguments.
    pub command: Vec<String>,
    /// After which to give up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// Where to run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// Environment variables.
    #[serde(default, deserialize_with = "null_is_default")]
    pub env: BTreeMap<String, String>,
    /// As whom to run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// What the client's shell printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalShellCallOutput {
    /// The `call_id` of the call, which the API puts here.
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// A JSON text.
    pub output: String,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
}

/// Commands for a shell, here or in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellCall {
    /// `sh_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Shared by the call and its output.
    pub call_id: String,
    /// Whether the model made the call, or a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<ToolCaller>,
    /// What to run.
    pub action: ShellAction,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// Where to run it.
    #[serde(default)]
    pub environment: Option<ShellEnvironment>,
}

/// What to run in a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellAction {
    /// One after the other.
    pub commands: Vec<String>,
    /// After which to give up.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// Characters of output to keep.
    #[serde(default)]
    pub max_output_length: Option<i64>,
}

tagged! {
    /// Where a shell call runs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ShellEnvironment {
        /// On the client's machine.
        Local {
            /// Skills that lie there.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            skills: Option<Vec<LocalSkill>>,
        },
        /// In a container.
        ContainerReference {
            container_id: String,
        },
    }
}

/// What the commands of a shell call gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellCallOutput {
    /// `sho_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The `call_id` of the call.
    pub call_id: String,
    /// Whether the model made the call, or a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<ToolCaller>,
    /// The status.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// One for each command that was run.
    pub output: Vec<ShellOutput>,
    /// The limit that applied.
    #[serde(default)]
    pub max_output_length: Option<i64>,
}

/// What one command gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How it ended.
    pub outcome: ShellOutcome,
}

tagged! {
    /// How a command ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ShellOutcome {
        /// It took too long.
        Timeout,
        /// By itself.
        Exit {
            /// 0 if all went well.
            exit_code: i64,
        },
    }
}

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyPatchCall {
    /// `apc_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// Shared by the call and its output.
    pub call_id: String,
    /// Whether the model made the call, or a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<ToolCaller>,
    /// `in_progress` or `completed`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// The change.
    pub operation: PatchOperation,
}

tagged! {
    /// What a patch does.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[allow(missing_docs, clippy::enum_variant_names, reason = "the names are the API's own")]
    pub enum PatchOperation {
        CreateFile { path: String, diff: String },
        DeleteFile { path: String },
        UpdateFile { path: String, diff: String },
    }
}

/// How applying a patch went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyPatchCallOutput {
    /// `apco_…`
    #[serde(default = "unset", deserialize_with = "id_or_unset")]
    pub id: Id,
    /// The `call_id` of the call.
    pub call_id: String,
    /// Whether the model made the call, or a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<ToolCaller>,
    /// `completed` or `failed`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: ItemStatus,
    /// What there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}
