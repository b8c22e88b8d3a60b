//! Tools and the choice among them, as chat completions have them.
//!
//! All tools of a request are sent in every turn, in its order: a choice narrows what may be called, not
//! what is seen. Providers that know `allowed_tools` are told it; the engine enforces it in any case.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::RawValue;

use crate::config::ProviderFeatures;
use crate::response::turn::{CallChoice, ModelTool, ToolInput};

/// The list of tools.
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
    /// Of a function without parameters: servers and templates want a schema all the same.
    Nothing(Schema<Nothing>),
    /// Of a custom tool.
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

/// What a custom tool is for, and what its input looks like.
fn describe<'a>(description: Option<&'a str>, grammar: Option<&'a str>) -> Option<Cow<'a, str>> {
    match (description, grammar) {
        (Some(description), Some(grammar)) => Some(format!("{description}\n\n{grammar}").into()),
        (one, other) => one.or(other).map(Cow::from),
    }
}

/// `tool_choice`; there is none for what is every provider's default.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ChatToolChoice<'a> {
    Mode(&'static str),
    One(Named<'a>),
    Allowed { r#type: &'static str, allowed_tools: Allowed<'a> },
}

/// One of the tools, by its name.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Named<'a> {
    Function { function: Name<'a> },
    Custom { custom: Name<'a> },
}

#[derive(Serialize)]
pub(super) struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
pub(super) struct Allowed<'a> {
    mode: &'static str,
    tools: Vec<Named<'a>>,
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
            // Where it cannot be named some call is demanded, and the engine sees to which.
            CallChoice::One(place) => match tools.get(*place).filter(|_| supports.named_tool_choice) {
                Some(tool) => Some(Self::One(Named::new(tool, supports))),
                None => Some(Self::Mode("required")),
            },
            CallChoice::Among { places, required } => {
                let mode = if *required { "required" } else { "auto" };
                let named = places.iter().filter_map(|place| tools.get(*place));
                let tools: Vec<_> = named.map(|tool| Named::new(tool, supports)).collect();
                if supports.allowed_tools && !tools.is_empty() {
                    return Some(Self::Allowed {
                        r#type: "allowed_tools",
                        allowed_tools: Allowed { mode, tools },
                    });
                }
                required.then_some(Self::Mode(mode))
            }
        }
    }
}

impl<'a> Named<'a> {
    fn new(tool: &'a ModelTool, supports: ProviderFeatures) -> Self {
        let name = Name { name: &tool.wire_name };
        match tool.input {
            ToolInput::Text { .. } if supports.custom_tools => Self::Custom { custom: name },
            ToolInput::Text { .. } | ToolInput::Json { .. } => Self::Function { function: name },
        }
    }
}
