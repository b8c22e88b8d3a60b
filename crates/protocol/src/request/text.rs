//! `text`: the format and the length of the answer.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::dialect::Dialect;
use crate::json::RawJson;
use crate::parse::{self, FromJson, ParseError};
use crate::tool::check_name;

const MAX_NAME_CHARS: usize = 64;

/// The format and the length of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextConfig {
    /// Free text or JSON; `None` means text, unless the agent profile sets a format.
    pub format: Option<TextFormat>,
    /// How long the answer should be.
    pub verbosity: Option<Verbosity>,
}

/// The format of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TextFormat {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema(JsonSchemaFormat),
}

/// A schema that the answer must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonSchemaFormat {
    /// 1 to 64 letters, digits, `_` and `-`.
    pub name: String,
    /// What it is for, for the model.
    pub description: Option<String>,
    /// JSON Schema: an object, byte for byte as sent.
    pub schema: RawJson,
    /// Whether the provider should enforce the schema; `None` leaves it to the provider.
    pub strict: Option<bool>,
}

/// How long the answer should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the API's own")]
pub enum Verbosity {
    Low,
    Medium,
    High,
}

impl Verbosity {
    /// The name on the wire, the same as in the chat API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl FromJson for TextConfig {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields<'a> {
            #[serde(borrow, default)]
            format: Option<&'a RawValue>,
            #[serde(default)]
            verbosity: Option<Verbosity>,
        }
        let fields: Fields<'_> = parse::read(raw)?;
        let format = fields.format.map(TextFormat::from_json).transpose().map_err(|e| e.within("format"))?;
        Ok(Self { format, verbosity: fields.verbosity })
    }
}

impl FromJson for TextFormat {
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        match parse::peek_discriminator(raw)?.kind.as_deref() {
            Some("text") => Ok(Self::Text),
            Some("json_object") => Ok(Self::JsonObject),
            Some("json_schema") => JsonSchemaFormat::from_json(raw).map(Self::JsonSchema),
            Some(other) => Err(ParseError::unknown_type(other, "text, json_object or json_schema")),
            None => Err(ParseError::missing("type")),
        }
    }
}

/// Writes the form of requests.
impl Serialize for TextFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Format<'a> {
            Text,
            JsonObject,
            JsonSchema {
                name: &'a str,
                #[serde(skip_serializing_if = "Option::is_none")]
                description: Option<&'a str>,
                schema: &'a serde_json::Value,
                #[serde(skip_serializing_if = "Option::is_none")]
                strict: Option<bool>,
            },
        }
        let schema;
        match self {
            Self::Text => Format::Text,
            Self::JsonObject => Format::JsonObject,
            Self::JsonSchema(format) => {
                // Raw JSON can only be written as JSON, but settings are written as YAML.
                schema = serde_json::from_str(format.schema.get()).unwrap_or_default();
                Format::JsonSchema {
                    name: &format.name,
                    description: format.description.as_deref(),
                    schema: &schema,
                    strict: format.strict,
                }
            }
        }
        .serialize(serializer)
    }
}

/// Reads the form of requests, by the same rules.
impl<'de> Deserialize<'de> for TextFormat {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let raw = serde_json::value::to_raw_value(&value).map_err(D::Error::custom)?;
        Self::from_json(&raw).map_err(|error| D::Error::custom(error.into_api_error("").body.message))
    }
}

impl FromJson for JsonSchemaFormat {
    /// Reads the flat form, or that of the chat API with the same fields under `json_schema`.
    fn from_json(raw: &RawValue) -> Result<Self, ParseError> {
        let fields: SchemaFields<'_> = parse::read(raw)?;
        match (fields.name.is_some(), fields.json_schema) {
            (false, Some(nested)) => {
                parse::read(nested).and_then(Self::from_fields).map_err(|e| e.within("json_schema"))
            }
            _ => Self::from_fields(fields),
        }
    }
}

#[derive(Deserialize)]
struct SchemaFields<'a> {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow, default)]
    schema: Option<&'a RawValue>,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(borrow, default)]
    json_schema: Option<&'a RawValue>,
}

impl JsonSchemaFormat {
    fn from_fields(fields: SchemaFields<'_>) -> Result<Self, ParseError> {
        let name = fields.name.ok_or_else(|| ParseError::missing("name"))?;
        check_name("name", &name, MAX_NAME_CHARS)?;
        let schema = fields.schema.ok_or_else(|| ParseError::missing("schema"))?;
        Ok(Self {
            name,
            description: fields.description,
            schema: RawJson::object(schema).map_err(|e| e.within("schema"))?,
            strict: fields.strict,
        })
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
            // `strict` is a boolean in every version of the response object, though nullable in a request.
            JsonSchema {
                name: &'a str,
                description: Option<&'a str>,
                schema: Option<&'a RawJson>,
                strict: bool,
            },
        }
        let format = match &self.text.format {
            None | Some(TextFormat::Text) => Format::Text,
            Some(TextFormat::JsonObject) => Format::JsonObject,
            Some(TextFormat::JsonSchema(format)) => Format::JsonSchema {
                name: &format.name,
                description: format.description.as_deref(),
                schema: self.with_schema.then_some(&format.schema),
                strict: format.strict.unwrap_or_default(),
            },
        };
        Text { format, verbosity: self.text.verbosity }.serialize(serializer)
    }
}
