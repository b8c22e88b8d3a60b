//! Encodes tools and `tool_choice` for chat completions.
//!
//! All tools of a request are sent in every turn, in the request's order: a choice restricts which may be called, not which
//! are sent. `allowed_tools` is sent to providers that support it; the engine enforces it in any case.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::RawValue;

use antwort_config::ProviderFeatures;
use antwort_response::turn::{CallChoice, ModelTool, ToolInput};

pub(super) struct ChatTools<'a> {
    tools: &'a [Arc<ModelTool>],
    supports: ProviderFeatures,
}

impl<'a> ChatTools<'a> {
    pub(super) fn new(tools: &'a [Arc<ModelTool>], supports: ProviderFeatures) -> Self {
        Self { tools, supports }
    }
}

impl Serialize for ChatTools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.tools.iter().map(|tool| ToolOut::new(tool, self.supports)))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolOut<'a> {
    Function { function: Function<'a> },
    Custom { custom: Custom<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
    parameters: Parameters<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct Custom<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Parameters<'a> {
    AsSent(&'a RawValue),
    /// For a function without parameters: servers and templates require a schema.
    Nothing(Schema<Nothing>),
    /// For a custom tool.
    Input(Schema<Input>),
}

#[derive(Serialize)]
struct Schema<P> {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: P,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    required: &'static [&'static str],
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Input {
    input: Property,
}

#[derive(Serialize)]
struct Property {
    #[serde(rename = "type")]
    kind: &'static str,
    description: &'static str,
}

impl<'a> ToolOut<'a> {
    fn new(tool: &'a ModelTool, supports: ProviderFeatures) -> Self {
        let (name, description) = (tool.wire_name.as_str(), tool.description.as_deref());
        match &tool.input {
            ToolInput::Json { schema, strict } => {
                let parameters = match schema {
                    Some(schema) => Parameters::AsSent(schema),
                    None => {
                        Parameters::Nothing(Schema { kind: "object", properties: Nothing {}, required: &[] })
                    }
                };
                let strict = strict.filter(|_| supports.strict);
                Self::Function {
                    function: Function { name, description: description.map(Cow::from), parameters, strict },
                }
            }
            ToolInput::Text { grammar } => {
                let description = describe(description, grammar.as_deref());
                if supports.custom_tools {
                    return Self::Custom { custom: Custom { name, description } };
                }
                let input =
                    Property { kind: "string", description: "The whole input of the tool, as plain text." };
                let parameters = Parameters::Input(Schema {
                    kind: "object",
                    properties: Input { input },
                    required: &["input"],
                });
                Self::Function { function: Function { name, description, parameters, strict: None } }
            }
        }
    }
}

/// The description of a custom tool, with the grammar of its input.
fn describe<'a>(description: Option<&'a str>, grammar: Option<&'a str>) -> Option<Cow<'a, str>> {
    match (description, grammar) {
        (Some(description), Some(grammar)) => Some(format!("{description}\n\n{grammar}").into()),
        (one, other) => one.or(other).map(Cow::from),
    }
}

/// `tool_choice`; omitted for `auto`, which is every provider's default.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ChatToolChoice<'a> {
    Mode(&'static str),
    One(ChatNamedTool<'a>),
    Allowed { r#type: &'static str, allowed_tools: ChatAllowedTools<'a> },
}

/// One of the tools, by its name.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatNamedTool<'a> {
    Function { function: ChatToolName<'a> },
    Custom { custom: ChatToolName<'a> },
}

#[derive(Serialize)]
pub(super) struct ChatToolName<'a> {
    name: &'a str,
}

#[derive(Serialize)]
pub(super) struct ChatAllowedTools<'a> {
    mode: &'static str,
    tools: Vec<ChatNamedTool<'a>>,
}

impl<'a> ChatToolChoice<'a> {
    pub(super) fn new(
        choice: &CallChoice,
        tools: &'a [Arc<ModelTool>],
        supports: ProviderFeatures,
    ) -> Option<Self> {
        match choice {
            CallChoice::Auto => None,
            CallChoice::None => Some(Self::Mode("none")),
            CallChoice::Required => Some(Self::Mode("required")),
            // A provider without named tool choice is sent `required`; the engine enforces which tool is called.
            CallChoice::One(place) => match tools.get(*place).filter(|_| supports.named_tool_choice) {
                Some(tool) => Some(Self::One(ChatNamedTool::new(tool, supports))),
                None => Some(Self::Mode("required")),
            },
            CallChoice::Among { places, required } => {
                let mode = if *required { "required" } else { "auto" };
                let named = places.iter().filter_map(|place| tools.get(*place));
                let tools: Vec<_> = named.map(|tool| ChatNamedTool::new(tool, supports)).collect();
                if supports.allowed_tools && !tools.is_empty() {
                    return Some(Self::Allowed {
                        r#type: "allowed_tools",
                        allowed_tools: ChatAllowedTools { mode, tools },
                    });
                }
                required.then_some(Self::Mode(mode))
            }
        }
    }
}

impl<'a> ChatNamedTool<'a> {
    fn new(tool: &'a ModelTool, supports: ProviderFeatures) -> Self {
        let name = ChatToolName { name: &tool.wire_name };
        match tool.input {
            ToolInput::Text { .. } if supports.custom_tools => Self::Custom { custom: name },
            ToolInput::Text { .. } | ToolInput::Json { .. } => Self::Function { function: name },
        }
    }
}
