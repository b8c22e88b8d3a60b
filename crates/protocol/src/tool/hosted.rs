//! Tools that work in containers and on screens, and the one that makes images.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{AllowedCaller, Secret};
use crate::parse::{self, FromJson, ParseError};
use crate::tagged::tagged;

/// Runs code that the model writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeInterpreterTool {
    /// Where it runs.
    pub container: CodeInterpreterContainer,
    /// Who may call it; the model and programs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_callers: Option<Vec<AllowedCaller>>,
}

/// The container of a code interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CodeInterpreterContainer {
    /// Created for the request.
    Auto {
        /// Files to put into it; at most 50.
        #[serde(skip_serializing_if = "Option::is_none")]
        file_ids: Option<Vec<String>>,
        /// The memory of the container.
        #[serde(skip_serializing_if = "Option::is_none")]
        memory_limit: Option<MemoryLimit>,
        /// The network policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        network_policy: Option<NetworkPolicy>,
    },
    /// One that exists.
    #[serde(untagged)]
    Id(String),
}

/// Memory of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum MemoryLimit {
    #[serde(rename = "1g")]
    G1,
    #[serde(rename = "4g")]
    G4,
    #[serde(rename = "16g")]
    G16,
    #[serde(rename = "64g")]
    G64,
}

tagged! {
    /// The network policy of a container.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum NetworkPolicy {
        /// No network access.
        Disabled,
        /// Access to some domains.
        Allowlist {
            /// The domains.
            allowed_domains: Vec<String>,
            /// Put into requests to them; never echoed or stored.
            #[serde(default, skip_serializing)]
            domain_secrets: Option<Vec<DomainSecret>>,
        },
    }
}

/// A credential for one domain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DomainSecret {
    /// The domain.
    pub domain: String,
    /// The name under which code refers to it.
    pub name: String,
    /// The credential.
    pub value: Secret,
}

impl FromJson for CodeInterpreterContainer {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Auto {
            #[serde(default)]
            file_ids: Option<Vec<String>>,
            #[serde(default)]
            memory_limit: Option<MemoryLimit>,
            #[serde(default)]
            network_policy: Option<NetworkPolicy>,
        }
        if raw.get().starts_with('"') {
            return parse::read(raw).map(Self::Id);
        }
        match parse::peek_discriminator(raw)?.kind.as_deref() {
            Some("auto") => {
                let Auto { file_ids, memory_limit, network_policy } = parse::read(raw)?;
                Ok(Self::Auto { file_ids, memory_limit, network_policy })
            }
            Some(other) => Err(ParseError::unknown_type(other, "auto")),
            None => Err(ParseError::missing("type")),
        }
    }
}

impl<'de> Deserialize<'de> for CodeInterpreterContainer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize_from_json(deserializer)
    }
}

/// Runs commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellTool {
    /// Where; with the client when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<ShellToolEnvironment>,
    /// Who may call it; the model and programs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_callers: Option<Vec<AllowedCaller>>,
}

tagged! {
    /// Where a shell runs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum ShellToolEnvironment {
        /// In a container made for the purpose.
        ContainerAuto {
            /// Files to put into it; at most 50.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            file_ids: Option<Vec<String>>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            memory_limit: Option<MemoryLimit>,
            /// The network policy.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            network_policy: Option<NetworkPolicy>,
            /// Skills to put into it; at most 200.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            skills: Option<Vec<Skill>>,
        },
        /// On the client's machine.
        Local {
            /// Skills that lie there; at most 200.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            skills: Option<Vec<LocalSkill>>,
        },
        /// In a container that exists.
        ContainerReference {
            container_id: String,
        },
    }
}

tagged! {
    /// Instructions and files for one kind of work, put into a container.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Skill {
        /// One that was uploaded.
        SkillReference {
            skill_id: String,
            /// Which of its versions.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            version: Option<String>,
        },
        /// One that is sent along.
        Inline {
            name: String,
            description: String,
            /// Its files.
            source: SkillSource,
        },
    }
}

/// The files of a skill that is sent along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "base64")]
pub struct SkillSource {
    /// `application/zip`.
    pub media_type: String,
    /// Base64.
    pub data: String,
}

/// Instructions and files for one kind of work that lie with the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalSkill {
    /// The name.
    pub name: String,
    /// What the skill is for.
    pub description: String,
    /// Its folder.
    pub path: String,
}

/// Changes files by patches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyPatchTool {
    /// Who may call it; the model and programs if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_callers: Option<Vec<AllowedCaller>>,
}

/// The earlier computer tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputerUsePreviewTool {
    /// What kind of computer.
    pub environment: ComputerEnvironment,
    /// In pixels.
    pub display_width: u32,
    /// In pixels.
    pub display_height: u32,
}

/// What kind of computer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum ComputerEnvironment {
    Windows,
    Mac,
    Linux,
    Ubuntu,
    Browser,
}
