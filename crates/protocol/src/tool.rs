//! The tools of a request: every type of the API, read leniently and echoed in one normal form.
//!
//! Whether a type is supported is the engine's business.

mod function;
mod hosted;
mod image;
mod mcp;
mod name;
mod search;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::parse::{self, FromJson, ParseError};

pub use function::{AllowedCaller, CustomFormat, CustomTool, FunctionTool, GrammarSyntax};
pub(crate) use hosted::{ApplyPatchTool, CodeInterpreterTool, ComputerUsePreviewTool, ShellTool};
pub(crate) use image::ImageGenerationTool;
pub use mcp::{ApprovalPolicy, McpAllowedTools, McpTool, McpToolFilter, Secret};
use name::MAX_NAME_CHARS;
pub(crate) use name::check_name;
pub use search::{
    ContentKind, FileSearchTool, SearchContextSize, ToolSearchTool, UserLocation, WebSearchPreviewTool,
    WebSearchTool,
};

/// The server label of the gateway's own tools.
pub const BUILTIN_SERVER_LABEL: &str = "antwort";

/// A tool that the model may be offered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each variant is documented at its type")]
#[allow(clippy::enum_variant_names, reason = "the names are the API's own")]
pub enum Tool {
    Function(FunctionTool),
    Custom(CustomTool),
    Namespace(NamespaceTool),
    Mcp(Box<McpTool>),
    FileSearch(Box<FileSearchTool>),
    CodeInterpreter(CodeInterpreterTool),
    ImageGeneration(Box<ImageGenerationTool>),
    /// The hosted computer, without options.
    Computer,
    ComputerUsePreview(ComputerUsePreviewTool),
    /// The client's own shell, without options.
    LocalShell,
    Shell(ShellTool),
    ApplyPatch(ApplyPatchTool),
    ToolSearch(ToolSearchTool),
    /// Lets the model write programs that call tools; without options.
    ProgrammaticToolCalling,
    /// A server-side tool, named by its type.
    #[serde(untagged)]
    Server(ServerTool),
    /// One tool with several type names, so that the type is a field.
    #[serde(untagged)]
    WebSearch(Box<WebSearchTool>),
    /// One tool with several type names, so that the type is a field.
    #[serde(untagged)]
    WebSearchPreview(WebSearchPreviewTool),
}

/// A server-side tool: its type is `antwort:` with its name, and it has no options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTool {
    #[serde(rename = "type")]
    kind: String,
}

impl ServerTool {
    /// The prefix of the type.
    pub const PREFIX: &str = "antwort:";

    /// The name.
    pub fn name(&self) -> &str {
        self.kind.strip_prefix(Self::PREFIX).unwrap_or(&self.kind)
    }
}

impl FromJson for ServerTool {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let tool: Self = parse::read(raw)?;
        check_name("type", tool.name(), 64)?;
        Ok(tool)
    }
}

/// The types of [`Tool`], listed in the error for an unknown one.
const KINDS: &str = "function, custom, namespace, mcp, web_search, web_search_preview, file_search, \
    code_interpreter, image_generation, computer, computer_use_preview, local_shell, shell, apply_patch, \
    tool_search, programmatic_tool_calling or antwort:<name>";

impl FromJson for Tool {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let seen = parse::peek_discriminator(raw)?;
        match seen.kind.as_deref() {
            Some(kind) => Self::of_type(kind, raw),
            None => Err(ParseError::missing("type")),
        }
    }
}

impl<'de> Deserialize<'de> for Tool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize_from_json(deserializer)
    }
}

impl Tool {
    /// A definition whose `type` was read.
    pub(crate) fn of_type(kind: &str, raw: &RawValue) -> Result<Self, ParseError> {
        Ok(match kind {
            "function" => Self::Function(FunctionTool::from_json(raw)?),
            "custom" => Self::Custom(CustomTool::from_json(raw)?),
            "namespace" => Self::Namespace(NamespaceTool::from_json(raw)?),
            "mcp" => Self::Mcp(Box::new(McpTool::from_json(raw)?)),
            "file_search" => Self::FileSearch(Box::new(FileSearchTool::from_json(raw)?)),
            "code_interpreter" => Self::CodeInterpreter(parse::read(raw)?),
            "image_generation" => Self::ImageGeneration(Box::new(ImageGenerationTool::from_json(raw)?)),
            "computer" => Self::Computer,
            "computer_use_preview" => Self::ComputerUsePreview(parse::read(raw)?),
            "local_shell" => Self::LocalShell,
            "shell" => Self::Shell(parse::read(raw)?),
            "apply_patch" => Self::ApplyPatch(parse::read(raw)?),
            "tool_search" => Self::ToolSearch(parse::read(raw)?),
            "programmatic_tool_calling" => Self::ProgrammaticToolCalling,
            "web_search" | "web_search_2025_08_26" => Self::WebSearch(parse::read(raw)?),
            "web_search_preview" | "web_search_preview_2025_03_11" => {
                Self::WebSearchPreview(parse::read(raw)?)
            }
            other if other.starts_with(ServerTool::PREFIX) => Self::Server(ServerTool::from_json(raw)?),
            other => return Err(ParseError::unknown_type(other, KINDS)),
        })
    }

    /// The name under which the model calls it; only functions and custom tools outside of namespaces have one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Function(tool) => Some(&tool.name),
            Self::Custom(tool) => Some(&tool.name),
            _ => None,
        }
    }

    /// Its `type` on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Function(_) => "function",
            Self::Custom(_) => "custom",
            Self::Namespace(_) => "namespace",
            Self::Mcp(_) => "mcp",
            Self::FileSearch(_) => "file_search",
            Self::CodeInterpreter(_) => "code_interpreter",
            Self::ImageGeneration(_) => "image_generation",
            Self::Computer => "computer",
            Self::ComputerUsePreview(_) => "computer_use_preview",
            Self::LocalShell => "local_shell",
            Self::Shell(_) => "shell",
            Self::ApplyPatch(_) => "apply_patch",
            Self::ToolSearch(_) => "tool_search",
            Self::ProgrammaticToolCalling => "programmatic_tool_calling",
            Self::Server(_) => "antwort:<name>",
            Self::WebSearch(tool) => tool.kind.as_str(),
            Self::WebSearchPreview(tool) => tool.kind.as_str(),
        }
    }
}

/// A group of functions and custom tools under one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamespaceTool {
    /// Calls carry it beside the tool's own name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// [`Tool::Function`] and [`Tool::Custom`] only.
    pub tools: Vec<Tool>,
}

impl FromJson for NamespaceTool {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            name: String,
            // Required by the API; some clients omit it, and nothing depends on it.
            #[serde(default)]
            description: Option<String>,
            #[serde(borrow)]
            tools: &'a RawValue,
        }
        let fields: Fields<'_> = parse::read(raw)?;
        check_name("name", &fields.name, MAX_NAME_CHARS)?;
        let members = parse::read_list::<Member>(fields.tools).map_err(|e| e.within("tools"))?;
        if members.is_empty() {
            return Err(ParseError::invalid("tools", "a namespace needs at least one tool."));
        }
        Ok(Self {
            name: fields.name,
            description: fields.description.unwrap_or_default(),
            tools: members.into_iter().map(|member| member.0).collect(),
        })
    }
}

/// A tool inside a namespace. A nested namespace is refused before it is parsed, so that nesting costs no stack.
struct Member(Tool);

impl FromJson for Member {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match parse::peek_discriminator(raw)?.kind.as_deref() {
            Some("function") => FunctionTool::from_json(raw).map(|tool| Self(Tool::Function(tool))),
            Some("custom") => CustomTool::from_json(raw).map(|tool| Self(Tool::Custom(tool))),
            Some(other) => Err(ParseError::unknown_type(other, "function or custom, inside a namespace")),
            None => Err(ParseError::missing("type")),
        }
    }
}
