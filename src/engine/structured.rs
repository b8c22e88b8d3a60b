//! Whether an answer keeps to the form that the client asked for.

use serde_json::Value;

use crate::protocol::content::ContentPart;
use crate::protocol::error::ApiError;
use crate::protocol::item::{Item, Role};
use crate::protocol::json::Json;
use crate::protocol::request::TextFormat;
use crate::protocol::schema::Schema;

/// What answers are held to. Made before the model is asked, so that a schema that is none is refused at once.
pub(super) enum Form {
    /// Anything goes.
    Free,
    /// A JSON object.
    Object,
    /// JSON of a schema.
    Schema(Box<Schema>),
}

impl Form {
    pub(super) fn new(format: &TextFormat) -> Result<Self, ApiError> {
        match format {
            TextFormat::Text => Ok(Self::Free),
            TextFormat::JsonObject => Ok(Self::Object),
            TextFormat::JsonSchema(schema) => {
                compile(&schema.schema).map(|compiled| Self::Schema(Box::new(compiled)))
            }
        }
    }

    /// Checks the message that ends a response. A refusal is an answer in no form, and is not judged.
    pub(super) fn check(&self, output: &[Item]) -> Result<(), ApiError> {
        if matches!(self, Self::Free) {
            return Ok(());
        }
        let Some(text) = final_text(output) else { return Ok(()) };
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| violated(&format!("the answer is not JSON ({error})")))?;
        match self {
            Self::Free => Ok(()),
            Self::Object if value.is_object() => Ok(()),
            Self::Object => Err(violated("the answer is not a JSON object")),
            Self::Schema(schema) => schema.check(&value, 1).map_err(|problem| violated(&problem)),
        }
    }
}

fn compile(schema: &Json) -> Result<Schema, ApiError> {
    let invalid = |why: String| ApiError::invalid("invalid_json_schema", "text.format.schema", why);
    let value: Value = serde_json::from_str(schema.get())
        .map_err(|error| invalid(format!("The schema cannot be read: {error}.")))?;
    Schema::compile(&value).map_err(|error| {
        invalid(format!("The schema is not valid: {}.", crate::protocol::parse::shorten(&error)))
    })
}

fn violated(why: &str) -> ApiError {
    ApiError::new(
        500,
        "model_error",
        "invalid_structured_output",
        format!(
            "The model's answer does not keep to 'text.format': {}. The text is kept in the output.",
            crate::protocol::parse::shorten(why)
        ),
    )
}

/// The text of the last assistant message, unless it holds a refusal.
fn final_text(output: &[Item]) -> Option<String> {
    let message = output.iter().rev().find_map(|item| match item {
        Item::Message(message) if message.role == Role::Assistant => Some(message),
        _ => None,
    })?;
    let mut text = String::new();
    for part in &message.content {
        match part {
            ContentPart::OutputText(part) => text.push_str(&part.text),
            ContentPart::Refusal(_) => return None,
            _ => {}
        }
    }
    Some(text)
}
