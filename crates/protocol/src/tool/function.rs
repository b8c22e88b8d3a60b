//! Functions, custom tools, and namespaces of both.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::name::{MAX_NAME_CHARS, check_name};
use crate::json::RawJson;
use crate::parse::{self, FromJson, ParseError};
use crate::tagged::tagged;

/// A function, which the client runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionTool {
    /// 1 to 128 letters, digits, `_` and `-`.
    pub name: String,
    /// The description for the model.
    pub description: Option<String>,
    /// JSON Schema of its arguments: an object, byte for byte as sent.
    pub parameters: Option<RawJson>,
    /// Whether arguments must match the schema; `None` leaves it to the provider.
    pub strict: Option<bool>,
    /// JSON schema of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<RawJson>,
    /// Not shown to the model until tool search finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_loading: Option<bool>,
    /// Who may call it; the model and programs if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_callers: Option<Vec<AllowedCaller>>,
}

/// Who may call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedCaller {
    /// The model.
    Direct,
    /// A program that the model wrote.
    Programmatic,
}

/// A tool that takes free-form text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CustomTool {
    /// 1 to 128 letters, digits, `_` and `-`.
    pub name: String,
    /// The description for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its input looks like.
    pub format: CustomFormat,
    /// Not shown to the model until tool search finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_loading: Option<bool>,
    /// Who may call it; the model and programs if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_callers: Option<Vec<AllowedCaller>>,
}

tagged! {
    /// What the input of a custom tool looks like.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub enum CustomFormat {
        /// Any text.
        #[default]
        Text,
        /// Text that matches a grammar.
        Grammar {
            /// The language of the grammar.
            syntax: GrammarSyntax,
            /// The grammar.
            definition: String,
        },
    }
}

/// The language of a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum GrammarSyntax {
    Lark,
    Regex,
}

impl FromJson for FunctionTool {
    /// Reads the flat form, or that of the chat API with the same fields under `function`.
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let fields: FunctionFields<'_> = parse::read(raw)?;
        match fields {
            FunctionFields { name: None, function: Some(nested), .. } => {
                parse::read(nested).and_then(Self::new).map_err(|e| e.within("function"))
            }
            fields => Self::new(fields),
        }
    }
}

#[derive(Deserialize)]
struct FunctionFields<'a> {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(borrow, default)]
    output_schema: Option<&'a RawValue>,
    #[serde(default)]
    defer_loading: Option<bool>,
    #[serde(default)]
    allowed_callers: Option<Vec<AllowedCaller>>,
    /// Of the chat API's form.
    #[serde(borrow, default)]
    function: Option<&'a RawValue>,
}

impl FunctionTool {
    fn new(fields: FunctionFields<'_>) -> Result<Self, ParseError> {
        let name = fields.name.ok_or_else(|| ParseError::missing("name"))?;
        check_name("name", &name, MAX_NAME_CHARS)?;
        Ok(Self {
            name,
            description: fields.description,
            parameters: read_schema("parameters", fields.parameters)?,
            strict: fields.strict,
            output_schema: read_schema("output_schema", fields.output_schema)?,
            defer_loading: fields.defer_loading,
            allowed_callers: fields.allowed_callers,
        })
    }
}

impl FromJson for CustomTool {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Fields {
            name: String,
            #[serde(default)]
            description: Option<String>,
            #[serde(default)]
            format: Option<CustomFormat>,
            #[serde(default)]
            defer_loading: Option<bool>,
            #[serde(default)]
            allowed_callers: Option<Vec<AllowedCaller>>,
        }
        let fields: Fields = parse::read(raw)?;
        check_name("name", &fields.name, MAX_NAME_CHARS)?;
        Ok(Self {
            name: fields.name,
            description: fields.description,
            format: fields.format.unwrap_or_default(),
            defer_loading: fields.defer_loading,
            allowed_callers: fields.allowed_callers,
        })
    }
}

fn read_schema(field: &str, raw: Option<&RawValue>) -> Result<Option<RawJson>, ParseError> {
    match raw {
        Some(raw) => RawJson::object(raw).map(Some).map_err(|e| e.within(field)),
        None => Ok(None),
    }
}
