//! What the model may, must or must not call.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::parse::{self, FromJson, ParseError};
use super::tool::ServerTool;

/// `tool_choice`. Whether the tools it names exist is checked by the engine, which knows the server-side tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// No calls.
    None,
    /// The model decides.
    #[default]
    Auto,
    /// At least one call.
    Required,
    /// A call of this function.
    Function {
        /// Its name among the tools of the request.
        name: String,
    },
    /// A call of this custom tool.
    Custom {
        /// Its name among the tools of the request.
        name: String,
    },
    /// A call of this MCP server.
    Mcp {
        /// The label of the server.
        server_label: String,
        /// One of its tools; any if absent.
        name: Option<String>,
    },
    /// Calls of these tools only, though the model sees all of them.
    Allowed {
        /// Whether one must be called.
        mode: AllowedMode,
        /// 1 to 128 tools.
        tools: Vec<ToolRef>,
    },
    /// A call of this hosted tool.
    Hosted {
        /// Its type.
        kind: String,
    },
}

/// How to choose among the allowed tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedMode {
    /// The model decides.
    #[default]
    Auto,
    /// At least one call.
    Required,
    /// No calls: Open Responses has it, OpenAI does not.
    None,
}

/// A reference to a tool of the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolRef {
    /// A function.
    Function {
        /// Its name among the tools of the request.
        name: String,
    },
    /// A custom tool.
    Custom {
        /// Its name among the tools of the request.
        name: String,
    },
    /// An MCP server, or one of its tools.
    Mcp {
        /// The label of the server.
        server_label: String,
        /// One of its tools; all if absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A hosted tool.
    #[serde(untagged)]
    Hosted {
        /// Its type.
        #[serde(rename = "type")]
        kind: String,
    },
}

/// Hosted tools that can be chosen by their type alone.
const HOSTED_TOOL_TYPES: &[&str] = &[
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
];

const MAX_ALLOWED_TOOLS: usize = 128;

impl FromJson for ToolChoice {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match raw.get() {
            r#""none""# => return Ok(Self::None),
            r#""auto""# => return Ok(Self::Auto),
            r#""required""# => return Ok(Self::Required),
            text if text.starts_with('"') => {
                return Err(ParseError::invalid("", "expected 'none', 'auto', 'required' or an object."));
            }
            _ => {}
        }
        match parse::peek_discriminator(raw)?.kind.as_deref() {
            Some("allowed_tools") => read_allowed(raw),
            _ => Ok(match ToolRef::from_json(raw)? {
                ToolRef::Function { name } => Self::Function { name },
                ToolRef::Custom { name } => Self::Custom { name },
                ToolRef::Mcp { server_label, name } => Self::Mcp { server_label, name },
                ToolRef::Hosted { kind } => Self::Hosted { kind },
            }),
        }
    }
}

/// Reads the flat form, or that of the chat API with the same fields under `allowed_tools`.
fn read_allowed(raw: &RawValue) -> Result<ToolChoice, ParseError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(default)]
        mode: Option<AllowedMode>,
        #[serde(borrow, default)]
        tools: Option<&'a RawValue>,
        #[serde(borrow, default)]
        allowed_tools: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = parse::read(raw)?;
    if let (None, Some(nested)) = (fields.tools, fields.allowed_tools) {
        // Only one level: `nested` is read as the flat form.
        let flat: Fields<'_> = parse::read(nested).map_err(|e| e.within("allowed_tools"))?;
        return allowed(flat.mode, flat.tools).map_err(|e| e.within("allowed_tools"));
    }
    allowed(fields.mode, fields.tools)
}

fn allowed(mode: Option<AllowedMode>, tools: Option<&RawValue>) -> Result<ToolChoice, ParseError> {
    let raw = tools.ok_or_else(|| ParseError::missing("tools"))?;
    let tools: Vec<ToolRef> = parse::read_list(raw).map_err(|e| e.within("tools"))?;
    match tools.len() {
        0 => Err(ParseError::invalid("tools", "name at least one tool.").with_code("array_below_min_length")),
        1..=MAX_ALLOWED_TOOLS => Ok(ToolChoice::Allowed { mode: mode.unwrap_or_default(), tools }),
        _ => Err(ParseError::invalid("tools", format!("at most {MAX_ALLOWED_TOOLS} tools are allowed."))
            .with_code("array_above_max_length")),
    }
}

impl FromJson for ToolRef {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match parse::peek_discriminator(raw)?.kind.as_deref() {
            Some("function") => read_name(raw, "function").map(|name| Self::Function { name }),
            Some("custom") => read_name(raw, "custom").map(|name| Self::Custom { name }),
            Some("mcp") => {
                #[derive(Deserialize)]
                struct Fields {
                    server_label: String,
                    #[serde(default)]
                    name: Option<String>,
                }
                let Fields { server_label, name } = parse::read(raw)?;
                Ok(Self::Mcp { server_label, name })
            }
            Some(kind) if HOSTED_TOOL_TYPES.contains(&kind) || kind.starts_with(ServerTool::PREFIX) => {
                Ok(Self::Hosted { kind: kind.to_owned() })
            }
            Some(other) => Err(ParseError::unknown_type(
                other,
                "function, custom, mcp, allowed_tools or the type of a hosted tool",
            )),
            None => Err(ParseError::missing("type")),
        }
    }
}

/// Reads `name`, which the chat API has one level deeper.
fn read_name(raw: &RawValue, nested_under: &str) -> Result<String, ParseError> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        function: Option<Named>,
        #[serde(default)]
        custom: Option<Named>,
    }
    let fields: Fields = parse::read(raw)?;
    let nested = if nested_under == "function" { fields.function } else { fields.custom };
    match fields.name.or(nested.map(|n| n.name)) {
        Some(name) if name.is_empty() => Err(ParseError::invalid("name", "must not be empty.")),
        Some(name) => Ok(name),
        None => Err(ParseError::missing("name")),
    }
}

impl Serialize for ToolChoice {
    /// The echo: as sent, in the flat form, always with `mode`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename = "allowed_tools")]
        struct Allowed<'a> {
            mode: AllowedMode,
            tools: &'a [ToolRef],
        }
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Auto => serializer.serialize_str("auto"),
            Self::Required => serializer.serialize_str("required"),
            Self::Function { name } => ToolRef::Function { name: name.clone() }.serialize(serializer),
            Self::Custom { name } => ToolRef::Custom { name: name.clone() }.serialize(serializer),
            Self::Mcp { server_label, name } => {
                ToolRef::Mcp { server_label: server_label.clone(), name: name.clone() }.serialize(serializer)
            }
            Self::Allowed { mode, tools } => Allowed { mode: *mode, tools }.serialize(serializer),
            Self::Hosted { kind } => ToolRef::Hosted { kind: kind.clone() }.serialize(serializer),
        }
    }
}
