//! `text`: what the answer looks like.

use serde::{Serialize, Serializer};

use crate::protocol::dialect::Dialect;
use crate::protocol::json::Json;

/// What the answer looks like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextConfig {
    /// Free text, or JSON.
    pub format: TextFormat,
    /// How long-winded it is.
    pub verbosity: Option<Verbosity>,
}

/// The form of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TextFormat {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema(JsonSchemaFormat),
}

/// A schema that the answer must keep to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonSchemaFormat {
    /// 1 to 64 letters, digits, `_` and `-`.
    pub name: String,
    /// What it is for, for the model.
    pub description: Option<String>,
    /// JSON schema: an object, byte for byte as it came.
    pub schema: Json,
    /// Whether the provider should hold the model to it; `None` leaves it to the provider.
    pub strict: Option<bool>,
}

/// How long-winded the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum Verbosity {
    Low,
    Medium,
    High,
}

impl Verbosity {
    /// The name on the wire, which is also Chat's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl TextConfig {
    /// The echo in a response object.
    pub fn echo(&self, dialect: Dialect) -> impl Serialize + '_ {
        Echo { text: self, with_schema: dialect.echoes_json_schema() }
    }
}

struct Echo<'a> {
    text: &'a TextConfig,
    with_schema: bool,
}

impl Serialize for Echo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text<'a> {
            format: Format<'a>,
            #[serde(skip_serializing_if = "Option::is_none")]
            verbosity: Option<Verbosity>,
        }
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Format<'a> {
            Text,
            JsonObject,
            // `strict` is a boolean in every version of the response object, though null in a request.
            JsonSchema { name: &'a str, description: Option<&'a str>, schema: Option<&'a Json>, strict: bool },
        }
        let format = match &self.text.format {
            TextFormat::Text => Format::Text,
            TextFormat::JsonObject => Format::JsonObject,
            TextFormat::JsonSchema(format) => Format::JsonSchema {
                name: &format.name,
                description: format.description.as_deref(),
                schema: self.with_schema.then_some(&format.schema),
                strict: format.strict.unwrap_or_default(),
            },
        };
        Text { format, verbosity: self.text.verbosity }.serialize(serializer)
    }
}
